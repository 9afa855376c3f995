"""Cases that one worker began and another one continues, because the first one was lost or waits.

The scheduler marks such a case by an empty file. A worker then skips the dtypes that have begun elsewhere.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from conformance.results.journal import Tail

_FOLDER = "continued"


def mark(output: Path, module: str, case_id: str) -> None:
    """Mark a case of a pytest module as continued."""
    file = _file(output, module, case_id)
    file.parent.mkdir(exist_ok=True)
    file.touch()


def results_begun(output: Path, module: str, case_id: str, attempt: int) -> set[str]:
    """Return the ids of the results of a continued case that some worker has begun in this attempt.

    The set is empty if the case is not continued.
    """
    if not _file(output, module, case_id).exists():
        return set()
    return {
        event["id"]
        for event in Tail(output / "journal.jsonl").read()
        if event["event"] == "dtype"
        and event.get("attempt", 1) == attempt
        and event["id"].startswith(f"{case_id}@")
    }


def remove_marks(output: Path) -> None:
    """Remove all marks."""
    shutil.rmtree(output / _FOLDER, ignore_errors=True)


def _file(output: Path, module: str, case_id: str) -> Path:
    # A case id may contain slashes. Two modules may have cases of the same id.
    return output / _FOLDER / hashlib.sha256(f"{module} {case_id}".encode()).hexdigest()[:32]
