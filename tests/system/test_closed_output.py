"""Output to a reader that stops before the end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_who_reads_only_the_first_lines_sees_no_traceback(tmp_path: Path) -> None:
    command = f"{sys.executable} -m conformance targets | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=100)
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr, done.stderr


def shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", line.replace("conformance", f"{sys.executable} -m conformance")]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def test_output_that_nobody_takes_is_no_fault_of_the_suite(tmp_path: Path) -> None:
    assert shell(tmp_path, "conformance targets >&-").returncode == 0
    full = shell(tmp_path, "conformance targets > /dev/full")
    assert full.returncode == 2 and "cannot be written" in full.stderr
    closed = shell(tmp_path, "conformance targets | true; exit ${PIPESTATUS[0]}")
    assert closed.returncode in (0, 141) and not closed.stderr
