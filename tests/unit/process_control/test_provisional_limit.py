"""The provisional time limit, and the watchdog that applies it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from conformance.process_control.provisional_limit import LEAST, RESULTS, LimitFile, provisional_limit
from conformance.process_control.watchdog import exceeded_limit_and_traceback
from tests.support import ROOT


def test_few_results_say_nothing_about_the_time_of_others() -> None:
    assert provisional_limit(0.1, RESULTS - 1, 120.0) == 120.0


def test_the_limit_is_a_multiple_of_the_longest_time_within_bounds() -> None:
    assert provisional_limit(0.1, RESULTS, 120.0) == LEAST
    assert provisional_limit(20.0, RESULTS, 120.0) == 80.0
    assert provisional_limit(50.0, RESULTS, 120.0) == 120.0
    assert provisional_limit(0.1, RESULTS, 5.0) == 5.0


def test_a_limit_is_written_and_read(tmp_path: Path) -> None:
    writer, reader = LimitFile(tmp_path / "limit.txt"), LimitFile(tmp_path / "limit.txt")
    assert reader.read(120.0) == 120.0
    writer.write(30.0)
    assert reader.read(120.0) == 30.0
    assert reader.read(10.0) == 10.0
    time.sleep(0.01)  # the modification times of two writes must differ
    writer.write(44.5)
    assert reader.read(120.0) == 44.5
    writer.remove()
    assert reader.read(120.0) == 44.5
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_leaves_the_full_limit(tmp_path: Path) -> None:
    (tmp_path / "limit.txt").write_text("soon")
    assert LimitFile(tmp_path / "limit.txt").read(120.0) == 120.0


WORKER = """
import sys, time
from pathlib import Path
from conformance.process_control.provisional_limit import LimitFile
from conformance.process_control.watchdog import Watchdog
folder, full = Path(sys.argv[1]), float(sys.argv[2])
watchdog = Watchdog(folder / "traceback.txt", full, LimitFile(folder / "limit.txt"))
for seconds in map(float, sys.argv[3:]):
    watchdog.start_limit()
    time.sleep(seconds)
    watchdog.stop_limit()
print("done")
"""


@pytest.mark.parametrize(
    ("provisional", "full", "seconds", "expected"),
    [
        (1, 30, [0.3, 5], 1.0),
        (1, 30, [0.3, 0.3, 0.3], None),
        (None, 1, [5], 1.0),
        (30, 1, [5], 1.0),
    ],
)
def test_the_watchdog_ends_a_result_at_the_provisional_limit(
    tmp_path: Path, provisional: float | None, full: float, seconds: list[float], expected: float | None
) -> None:
    if provisional is not None:
        LimitFile(tmp_path / "limit.txt").write(provisional)
    command = [sys.executable, "-c", WORKER, str(tmp_path), str(full), *map(str, seconds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ("done" in done.stdout) == (expected is None), done.stderr
    limit, traceback = exceeded_limit_and_traceback(tmp_path / "traceback.txt")
    assert limit == expected
    assert expected is None or "time.sleep" in traceback or "<string>" in traceback


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Timeout (0:00:30)!", 30.0),
        ("Timeout (0:02:00.500000)!", 120.5),
        ("Timeout (1:00:00)!", 3600.0),
        ("Timeout (soon)!", 0.0),
        ("Fatal Python error: Segmentation fault", None),
    ],
)
def test_the_limit_is_read_from_the_line_of_faulthandler(
    tmp_path: Path, line: str, expected: float | None
) -> None:
    path = tmp_path / "traceback.txt"
    path.write_text(f"{line}\nThread 0x1 (most recent call first):\n")
    assert exceeded_limit_and_traceback(path)[0] == expected
    assert exceeded_limit_and_traceback(tmp_path / "none.txt") == (None, "")
