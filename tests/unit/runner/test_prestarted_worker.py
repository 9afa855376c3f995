"""A prestarted worker accepts the arguments of one pytest run, and exits if it is not needed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.process_control.child import ChildEnd, EndKind
from conformance.process_control.supervisor import wait_for_end
from conformance.runner.prestarted_worker import PrestartedWorker

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}


@pytest.fixture
def prestarted_worker() -> Iterator[PrestartedWorker]:
    worker = PrestartedWorker(ENVIRONMENT)
    yield worker
    worker.stop_and_delete_log()


def arguments_of_pytest_run(folder: Path) -> list[str]:
    file = folder / "test_it.py"
    file.write_text(
        "import os, sys\ndef test_it():\n    assert 'torch' in sys.modules and os.read(0, 1) == b''\n"
    )
    return ["-q", "-p", "no:cacheprovider", str(file)]


def test_the_worker_runs_pytest_with_the_arguments(
    prestarted_worker: PrestartedWorker, tmp_path: Path
) -> None:
    child = prestarted_worker.start_pytest(arguments_of_pytest_run(tmp_path), ENVIRONMENT)
    assert child is not None and wait_for_end(child, limit=120) == ChildEnd(
        EndKind.EXITED, 0, child.log_tail()
    )
    prestarted_worker.copy_log(tmp_path / "log.txt")
    assert "1 passed" in (tmp_path / "log.txt").read_text()


def test_the_worker_accepts_arguments_once(prestarted_worker: PrestartedWorker, tmp_path: Path) -> None:
    child = prestarted_worker.start_pytest(arguments_of_pytest_run(tmp_path), ENVIRONMENT)
    assert child is not None
    assert prestarted_worker.start_pytest(arguments_of_pytest_run(tmp_path), ENVIRONMENT) is None
    assert wait_for_end(child, limit=120).how is EndKind.EXITED


def test_a_different_environment_needs_a_different_process(
    prestarted_worker: PrestartedWorker, tmp_path: Path
) -> None:
    assert (
        prestarted_worker.start_pytest(arguments_of_pytest_run(tmp_path), {**ENVIRONMENT, "OTHER": "1"})
        is None
    )


def test_a_dead_worker_is_not_used(prestarted_worker: PrestartedWorker, tmp_path: Path) -> None:
    assert prestarted_worker._child is not None
    os.kill(prestarted_worker._child.pid, signal.SIGKILL)
    assert wait_for_end(prestarted_worker._child, limit=60).how is EndKind.CRASHED
    assert prestarted_worker.start_pytest(arguments_of_pytest_run(tmp_path), ENVIRONMENT) is None


def test_closing_an_unused_worker_ends_its_process(tmp_path: Path) -> None:
    warm = PrestartedWorker(ENVIRONMENT)
    assert warm._child is not None
    number = warm._child.pid
    warm.stop_and_delete_log()
    for _ in range(100):
        if not Path(f"/proc/{number}").exists():
            return
        time.sleep(0.05)
    pytest.fail("the worker process still exists")
