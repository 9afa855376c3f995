"""Measure the minutes of the suite on the reference device in eager mode, at levels `smoke` and `full`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

from benchmarks.measure import print_figure


def suite_minutes(level: str) -> tuple[float, int]:
    """Run the suite in eager mode at a level; return the wall minutes and the exit code."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        command = ["run", "--target", "hpu-reference", "--mode", "eager", "--level", level, "-o", folder]
        done = subprocess.run([sys.executable, "-m", "conformance", *command], stdout=subprocess.DEVNULL)
    return (time.perf_counter() - start) / 60, done.returncode


def main() -> None:
    """Measure both levels, and print the minutes."""
    for level, target in (("smoke", 0.5), ("full", 6.0)):
        value, code = suite_minutes(level)
        print_figure(f"suite, level {level}, eager, exit {code}", value, target, " m")


if __name__ == "__main__":
    main()
