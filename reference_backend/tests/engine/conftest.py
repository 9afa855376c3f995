"""The engine: streams, queues, lazy mode, captures and recipes, tested through `habana_frameworks.torch._C`.

No test sleeps to be right: `gate` makes gates that hold a stream's later work back until they are opened. An
operator whose key is new runs on the host after all that is queued, so operators are made known with `warm`
before they are put behind a gate.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SOURCE_TREE = Path(__file__).parents[2]

if list((SOURCE_TREE / "habana_frameworks" / "torch").glob("_C*.so")):
    sys.path.insert(0, str(SOURCE_TREE))

RunPython = Callable[..., subprocess.CompletedProcess[str]]
# A host that waits for a gate that nobody opens is freed after so many seconds, and its test fails.
PATIENCE = 60


@pytest.fixture(scope="session", autouse=True)
def device() -> None:
    """Load the backend; without its core every test fails here."""
    import habana_frameworks.torch  # noqa: F401


@pytest.fixture(autouse=True)
def _idle_afterwards() -> Iterator[None]:
    """Every test ends with nothing queued, on the default stream, with the engine as it starts."""
    import habana_frameworks.torch as ht

    yield
    ht._C.set_queue_all(-1)
    ht._C.set_pipeline(True)
    ht.hpu.set_stream(ht.hpu.default_stream())
    ht.hpu.synchronize()
    assert ht._C.engine_counters()["pending"] == 0


@pytest.fixture
def warm() -> Callable[[Callable[[], Any]], None]:
    """Function that runs another one queued, so that the engine knows what its operators return."""
    import habana_frameworks.torch as ht

    def run(function: Callable[[], Any]) -> None:
        ht._C.set_queue_all(0)
        function()
        ht._C.set_queue_all(-1)
        ht.hpu.synchronize()

    return run


@pytest.fixture
def gate() -> Iterator[Callable[[], Any]]:
    """Function that holds the current stream back and returns the gate; the test must open it."""
    import habana_frameworks.torch as ht

    gates: list[Any] = []
    late = []

    def give_up() -> None:
        late.append(True)
        for made in gates:
            made.open()

    timer = threading.Timer(PATIENCE, give_up)
    timer.daemon = True
    timer.start()

    def make() -> Any:
        made = ht._C.Gate()
        gates.append(made)
        made.enqueue()
        return made

    yield make
    timer.cancel()
    for made in gates:
        made.open()
    ht.hpu.set_stream(ht.hpu.default_stream())
    assert not late, "the host waited for work behind a gate that it was to open later"


@pytest.fixture(scope="session")
def run_python(tmp_path_factory: pytest.TempPathFactory) -> RunPython:
    """Function that runs code in a fresh process: `run(code, timeout=60, **environment)`."""

    def run(code: str, *arguments: str, timeout: int = 60, **environment: str) -> Any:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PT_", "HABANA_", "HLS_", "HPU_", "TORCH"))
        }
        kept["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *(p for p in sys.path if p)])
        kept["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        kept.update(environment)
        return subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code, *arguments],
            env=kept,
            cwd=tmp_path_factory.mktemp("process"),
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run


@pytest.fixture(scope="session")
def output_of(run_python: RunPython) -> Callable[..., str]:
    """As `run_python`, for code that must succeed: returns what it printed."""

    def run(code: str, *arguments: str, **options: Any) -> str:
        done = run_python(code, *arguments, **options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    return run
