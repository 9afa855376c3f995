"""Seconds of each test file. ``python -m tests.support.durations JUNIT`` updates ``tests/durations.json``.

The JUnit file comes from a run of all tests: ``nox -s tests -- --junitxml junit.xml``. The table determines
only the order of files, so it needs an update only after large changes.
"""

from __future__ import annotations

import collections
import json
import sys
from pathlib import Path
from xml.etree import ElementTree

from tests.support import ROOT

TABLE = ROOT / "tests" / "durations.json"


def load() -> dict[str, float]:
    """Return the recorded seconds by file."""
    table: dict[str, float] = json.loads(TABLE.read_text())
    return table


def file_of(classname: str) -> str | None:
    """Return the file whose dotted path starts the class name of a test case, or None if no file matches."""
    parts = classname.split(".") if classname else []  # a completely skipped module has no class name
    for end in range(len(parts), 0, -1):
        path = Path(*parts[:end]).with_suffix(".py")
        if (ROOT / path).is_file():
            return path.as_posix()
    return None


def read(junit: Path) -> dict[str, int]:
    """Return the seconds of each file in a JUnit file, as integers of at least 1."""
    seconds: collections.Counter[str] = collections.Counter()
    for case in ElementTree.parse(junit).iter("testcase"):
        file = file_of(case.get("classname", ""))
        if file is not None:
            seconds[file] += float(case.get("time", "0"))
    return {file: max(1, round(took)) for file, took in sorted(seconds.items())}


def main() -> None:
    """Write the table from a JUnit file."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.support.durations JUNIT")
    TABLE.write_text(json.dumps(read(Path(sys.argv[1])), indent=1) + "\n")


if __name__ == "__main__":
    main()
