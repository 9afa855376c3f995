"""Read and update ``tests/durations.json``, a table of the recorded seconds of each test file.

``python -m tests.support.durations JUNIT`` updates the table from the JUnit file of a run of all tests (``nox
-s tests -- --junitxml junit.xml``). The table determines only the order in which test files run, so update it
only after large changes.
"""

from __future__ import annotations

import collections
import json
import sys
from pathlib import Path
from xml.etree import ElementTree

from tests.support import ROOT

TABLE = ROOT / "tests" / "durations.json"


def recorded_durations() -> dict[str, float]:
    """Return the recorded seconds by file."""
    table: dict[str, float] = json.loads(TABLE.read_text())
    return table


def file_of_test_class(classname: str) -> str | None:
    """Return the test file of a JUnit class name, which starts with the file's dotted path. Return None if no
    file matches.
    """
    parts = classname.split(".") if classname else []  # JUnit has no class name for a skipped module
    for end in range(len(parts), 0, -1):
        path = Path(*parts[:end]).with_suffix(".py")
        if (ROOT / path).is_file():
            return path.as_posix()
    return None


def durations_in_junit(junit: Path) -> dict[str, int]:
    """Return the seconds of each file in a JUnit file, as integers of at least 1."""
    seconds: collections.Counter[str] = collections.Counter()
    for case in ElementTree.parse(junit).iter("testcase"):
        file = file_of_test_class(case.get("classname", ""))
        if file is not None:
            seconds[file] += float(case.get("time", "0"))
    return {file: max(1, round(took)) for file, took in sorted(seconds.items())}


def main() -> None:
    """Write ``tests/durations.json`` from a JUnit file."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.support.durations JUNIT")
    TABLE.write_text(json.dumps(durations_in_junit(Path(sys.argv[1])), indent=1) + "\n")


if __name__ == "__main__":
    main()
