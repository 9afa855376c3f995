"""Fixtures that several folders use. Nothing here loads the device before a test asks for it."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.processes import run_code

from tests.support.nightly import pytest_collection_modifyitems, pytest_configure

__all__ = ["pytest_collection_modifyitems", "pytest_configure"]

RunPython = Callable[..., subprocess.CompletedProcess[str]]
#: A host that waits for a gate which is never opened is freed after so many seconds, and its test fails.
PATIENCE = 60


@pytest.fixture(scope="session")
def run_python(tmp_path_factory: pytest.TempPathFactory) -> RunPython:
    """Function that runs code in a fresh process: see `run_code`; by default in an empty folder."""

    def run(code: str, *arguments: str, cwd: Path | None = None, **options: Any) -> Any:
        return run_code(code, *arguments, cwd=cwd or tmp_path_factory.mktemp("process"), **options)

    return run


@pytest.fixture(scope="session")
def output_of(run_python: RunPython) -> Callable[..., str]:
    """As `run_python`, for code that must succeed: returns what it printed."""

    def run(code: str, *arguments: str, **options: Any) -> str:
        done = run_python(code, *arguments, **options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    return run


@pytest.fixture(scope="session")
def python(run_python: RunPython) -> RunPython:
    """As `run_python`, for a script that finds torch and the device imported, and prints no warnings.

    ``before``: what runs before these imports.
    """

    def run(script: str, before: str = "", **options: Any) -> subprocess.CompletedProcess[str]:
        code = f"{before}\nimport torch, habana_frameworks.torch\n{script}"
        return run_python(code, options=("-W", "ignore"), **options)

    return run


@pytest.fixture
def device_works() -> Iterator[None]:
    """Whatever a test did, the next call on the device works."""
    import torch

    yield
    assert (torch.ones(3, device="hpu") + 1).tolist() == [2.0, 2.0, 2.0]


@pytest.fixture
def engine_idle() -> Iterator[None]:
    """The test ends with nothing queued, on the default stream, with the engine as it starts."""
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
    """Function that holds the current stream back and returns the gate; the test must open it.

    No test sleeps to be right: gates hold a stream's later work back until they are opened. An operator whose
    key is new runs on the host after all that is queued, so operators are made known with `warm` before they
    are put behind a gate.
    """
    import habana_frameworks.torch as ht

    gates: list[Any] = []
    late = []

    def give_up() -> None:
        late.append(True)
        for closed in gates:
            closed.open()

    timer = threading.Timer(PATIENCE, give_up)
    timer.daemon = True
    timer.start()

    def make() -> Any:
        closed = ht._C.Gate()
        gates.append(closed)
        closed.enqueue()
        return closed

    yield make
    timer.cancel()
    for closed in gates:
        closed.open()
    ht.hpu.set_stream(ht.hpu.default_stream())
    assert not late, "the host waited for work behind a gate that it was to open later"
