"""Workers exit when their runner is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli_process import environment_with_subjects, write_bare_target


def is_running(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.nightly("each case starts a run and kills it", every=2)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_workers_end_with_a_runner_that_is_killed(tmp_path: Path, workers: str) -> None:
    command = [
        sys.executable,
        "-m",
        "conformance",
        "run",
        "--target",
        write_bare_target(tmp_path),
        "--extra",
        "tests.support.misbehaving_subjects",
    ]
    command += ["-n", workers, "-o", "out"]
    variables = environment_with_subjects(tmp_path, "hang_with_gil,good", ARTIFICIAL_COPIES="2")
    runner = subprocess.Popen(
        command, cwd=tmp_path, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    hanging = wait_until_true(lambda: pids_of_workers_once_one_hangs(tmp_path / "out" / "journal.jsonl"))
    assert hanging and all(map(is_running, hanging))
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    wait_until_true(lambda: not any(map(is_running, hanging)))


def pids_of_workers_once_one_hangs(path: Path) -> list[int]:
    """Return the process ids of the workers in a journal. Return an empty list if the journal does not yet
    show the result that hangs.
    """
    text = path.read_text() if path.exists() else ""
    if '"id":"acts/hang_with_gil0@float32"' not in text:
        return []
    return [int(line.split('"pid":')[1].rstrip("}\n")) for line in text.splitlines() if '"pid":' in line]


def wait_until_true(test: Callable[[], object], seconds: float = 60.0) -> object:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        outcome = test()
        if outcome:
            return outcome
        time.sleep(0.1)
    raise AssertionError(f"the condition {test} did not become true within {seconds:g} s")
