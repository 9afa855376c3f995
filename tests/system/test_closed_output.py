"""Commands whose standard output is closed or cannot be written print no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_reader_that_stops_early_causes_no_traceback(tmp_path: Path) -> None:
    command = f"{sys.executable} -m conformance targets | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=100)
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr, done.stderr


def run_in_shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", line.replace("conformance", f"{sys.executable} -m conformance")]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def test_unwritable_output_is_not_a_fault_of_the_suite(tmp_path: Path) -> None:
    assert run_in_shell(tmp_path, "conformance targets >&-").returncode == 0
    full = run_in_shell(tmp_path, "conformance targets > /dev/full")
    assert full.returncode == 2 and "cannot be written" in full.stderr
    closed = run_in_shell(tmp_path, "conformance targets | true; exit ${PIPESTATUS[0]}")
    assert closed.returncode in (0, 141) and not closed.stderr


def test_repro_ends_quietly_if_its_reader_stops(tmp_path: Path) -> None:
    line = "conformance repro value/sum@float32 --target cpu --mode eager | true; exit ${PIPESTATUS[0]}"
    done = run_in_shell(tmp_path, line)
    assert done.returncode == 141 and not done.stderr
