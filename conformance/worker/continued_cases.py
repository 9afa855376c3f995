"""Cases that one worker began and another worker continues, because the first worker was lost or waits.

The scheduler marks such a case by an empty file. A worker then skips the dtypes that another worker has
begun.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from conformance.results.journal import JournalTail

_FOLDER = "continued"


def mark_as_continued(output: Path, nodeid: str) -> None:
    """Mark the case of a pytest item as continued."""
    file = _file(output, nodeid)
    file.parent.mkdir(exist_ok=True)
    file.touch()


def remove_marks(output: Path) -> None:
    """Remove all marks."""
    shutil.rmtree(output / _FOLDER, ignore_errors=True)


class BegunResults:
    """The results that some worker has begun in an attempt, read from the journal of the run."""

    def __init__(self, output: Path, attempt: int) -> None:
        self._output = output
        self._attempt = attempt
        self._tail = JournalTail(output / "journal.jsonl")
        self._begun: set[str] = set()

    def includes_result(self, nodeid: str, result_id: str) -> bool:
        """Return whether the case of a pytest item is continued and some worker has begun this result."""
        if not _file(self._output, nodeid).exists():
            return False
        for event in self._tail.read():
            if event["event"] == "dtype" and event.get("attempt", 1) == self._attempt:
                self._begun.add(event["id"])
        return result_id in self._begun


def _file(output: Path, nodeid: str) -> Path:
    # A node id may contain slashes.
    return output / _FOLDER / hashlib.sha256(nodeid.encode()).hexdigest()[:32]
