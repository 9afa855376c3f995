"""Seconds of each test file; ``python -m tests.support.durations JUNIT`` renews ``tests/durations.json``.

The junit file is that of a run of all tests: ``nox -s tests -- --junitxml junit.xml``. Only the order of
files depends on the table, so that it needs a renewal only after large changes.
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
    """Return the file whose dotted path begins the class name of a test case; None if there is none."""
    parts = classname.split(".") if classname else []  # a module that was skipped whole has none
    for end in range(len(parts), 0, -1):
        path = Path(*parts[:end]).with_suffix(".py")
        if (ROOT / path).is_file():
            return path.as_posix()
    return None


def read(junit: Path) -> dict[str, int]:
    """Return whole seconds by file, at least 1, of a junit file."""
    seconds: collections.Counter[str] = collections.Counter()
    for case in ElementTree.parse(junit).iter("testcase"):
        file = file_of(case.get("classname", ""))
        if file is not None:
            seconds[file] += float(case.get("time", "0"))
    return {file: max(1, round(took)) for file, took in sorted(seconds.items())}


def main() -> None:
    """Write the table from a junit file."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.support.durations JUNIT")
    TABLE.write_text(json.dumps(read(Path(sys.argv[1])), indent=1) + "\n")


if __name__ == "__main__":
    main()
