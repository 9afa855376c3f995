"""Fixtures of several folders. The device is not loaded before a test requests it."""

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
#: Seconds after which a host that waits for a closed gate is released. The test then fails.
PATIENCE = 60


@pytest.fixture(scope="session")
def run_python(tmp_path_factory: pytest.TempPathFactory) -> RunPython:
    """Return a function that runs code in a new process (see `run_code`), by default in an empty folder."""

    def run(code: str, *arguments: str, cwd: Path | None = None, **options: Any) -> Any:
        return run_code(code, *arguments, cwd=cwd or tmp_path_factory.mktemp("process"), **options)

    return run


@pytest.fixture(scope="session")
def output_of(run_python: RunPython) -> Callable[..., str]:
    """Return a function like `run_python` for code that must succeed. It returns the printed text."""

    def run(code: str, *arguments: str, **options: Any) -> str:
        done = run_python(code, *arguments, **options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    return run


@pytest.fixture(scope="session")
def python(run_python: RunPython) -> RunPython:
    """Return a function like `run_python` for a script with torch and the device imported, without warnings.

    ``before``: code that runs before these imports.
    """

    def run(script: str, before: str = "", **options: Any) -> subprocess.CompletedProcess[str]:
        code = f"{before}\nimport torch, habana_frameworks.torch\n{script}"
        return run_python(code, options=("-W", "ignore"), **options)

    return run


@pytest.fixture
def device_works() -> Iterator[None]:
    """Assert after the test that the next call on the device works."""
    import torch

    yield
    assert (torch.ones(3, device="hpu") + 1).tolist() == [2.0, 2.0, 2.0]


@pytest.fixture
def engine_idle() -> Iterator[None]:
    """Assert after the test that nothing is queued, the default stream is current and the engine has its
    initial settings.
    """
    import habana_frameworks.torch as ht

    yield
    ht._C.set_queue_all(-1)
    ht._C.set_pipeline(True)
    ht.hpu.set_stream(ht.hpu.default_stream())
    ht.hpu.synchronize()
    assert ht._C.engine_counters()["pending"] == 0


@pytest.fixture
def warm() -> Callable[[Callable[[], Any]], None]:
    """Return a function that runs another function queued, so that the engine caches the output metadata of
    its operators.
    """
    import habana_frameworks.torch as ht

    def run(function: Callable[[], Any]) -> None:
        ht._C.set_queue_all(0)
        function()
        ht._C.set_queue_all(-1)
        ht.hpu.synchronize()

    return run


@pytest.fixture
def gate() -> Iterator[Callable[[], Any]]:
    """Return a function that blocks the current stream and returns the gate. The test must open the gate.

    Tests never rely on sleeping: gates block a stream's later work until they are opened. An operator that is
    missing in the output metadata cache runs on the host after all queued work. Therefore tests call `warm`
    before they issue operators behind a gate.
    """
    import habana_frameworks.torch as ht

    gates: list[Any] = []
    opened_late = []

    def give_up() -> None:
        opened_late.append(True)
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
    assert not opened_late, "the host waited for work behind a gate that the host itself should open later"
