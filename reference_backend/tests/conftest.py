"""Pytest fixtures for all test folders of the reference device.

A fixture that needs the device loads it when a test requests the fixture, not at import.
"""

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
#: Seconds after which the fixture ``enqueue_gate`` opens all gates of a test and fails the test.
PATIENCE = 60


@pytest.fixture(scope="session")
def run_python(tmp_path_factory: pytest.TempPathFactory) -> RunPython:
    """Return a function that runs code in a new process (see ``run_code``), by default in an empty folder."""

    def run_in_folder(code: str, *arguments: str, cwd: Path | None = None, **options: Any) -> Any:
        return run_code(code, *arguments, cwd=cwd or tmp_path_factory.mktemp("process"), **options)

    return run_in_folder


@pytest.fixture(scope="session")
def output_of(run_python: RunPython) -> Callable[..., str]:
    """Return a function that runs code like ``run_python``, asserts success and returns the printed text."""

    def run_and_return_output(code: str, *arguments: str, **options: Any) -> str:
        done = run_python(code, *arguments, **options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    return run_and_return_output


@pytest.fixture(scope="session")
def python(run_python: RunPython) -> RunPython:
    """Return a function that runs a script in a new process, after an import of torch and of the device.

    Python's warnings are off. The argument ``before`` is code that runs before the two imports.
    """

    def run_with_device(script: str, before: str = "", **options: Any) -> subprocess.CompletedProcess[str]:
        code = f"{before}\nimport torch, habana_frameworks.torch\n{script}"
        return run_python(code, options=("-W", "ignore"), **options)

    return run_with_device


@pytest.fixture
def device_works() -> Iterator[None]:
    """Assert after the test that the next call on the device works."""
    import torch

    yield
    assert (torch.ones(3, device="hpu") + 1).tolist() == [2.0, 2.0, 2.0]


@pytest.fixture
def engine_idle() -> Iterator[None]:
    """After the test, restore the engine's initial settings and the default stream. Wait for all work.

    Then assert that no work is pending.
    """
    import habana_frameworks.torch as ht

    yield
    ht._C.set_queue_all(-1)
    ht._C.set_pipeline(True)
    ht.hpu.set_stream(ht.hpu.default_stream())
    ht.hpu.synchronize()
    assert ht._C.engine_counters()["pending"] == 0


@pytest.fixture
def cache_output_metadata() -> Callable[[Callable[[], Any]], None]:
    """Return ``call_queued(function)``, which calls `function` while the engine queues all operators.

    The engine thereby caches the output metadata of the operators that `function` calls.
    """
    import habana_frameworks.torch as ht

    def call_queued(function: Callable[[], Any]) -> None:
        ht._C.set_queue_all(0)
        function()
        ht._C.set_queue_all(-1)
        ht.hpu.synchronize()

    return call_queued


@pytest.fixture
def enqueue_gate() -> Iterator[Callable[[], Any]]:
    """Return a function that queues a closed gate on the current stream and returns the gate.

    A closed gate blocks the later work of its stream until the test opens the gate. Tests use gates instead
    of sleeping. An operator without an entry in the output metadata cache runs on the host after all queued
    work. Therefore tests call `cache_output_metadata` before they issue operators behind a gate.
    """
    import habana_frameworks.torch as ht

    gates: list[Any] = []
    opened_late = []

    def open_all_gates() -> None:
        opened_late.append(True)
        for closed in gates:
            closed.open()

    timer = threading.Timer(PATIENCE, open_all_gates)
    timer.daemon = True
    timer.start()

    def queue_gate() -> Any:
        closed = ht._C.Gate()
        gates.append(closed)
        closed.enqueue()
        return closed

    yield queue_gate
    timer.cancel()
    for closed in gates:
        closed.open()
    ht.hpu.set_stream(ht.hpu.default_stream())
    assert not opened_late, "the host waited for work behind a closed gate, which only the host can open"
