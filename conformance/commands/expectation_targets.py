"""The results that a target can have, and the file for its new expectations: for commands that need both."""

from __future__ import annotations

from pathlib import Path

from conformance.expectations import aliases
from conformance.plan.plan import Plan
from conformance.plan.run_request import Request
from conformance.runner.leg import result_names
from conformance.target import file as target_file

NEW = "new.toml"
#: Days until a new entry expires.
DAYS = 90


def plans(file: target_file.TargetFile, extra: list[str]) -> dict[str, frozenset[str]]:
    """List all result ids that the suite has for a target, by mode; in a process of its own, as in a run."""
    options = Request(file, str(file.path.resolve()), file.modes, Path(), extra=tuple(extra))
    names = result_names(options, file.default_mode)
    return {mode: frozenset(Plan.from_json(plan).result_ids()) for mode, plan in names.items()}


def new_file(file: target_file.TargetFile) -> Path | None:
    """Return the file for new entries: in the vendor's file or folder, else in the suite's folder of the
    target.

    None if the target file names no expectations; then entries can be shown, but not written.
    """
    if file.expectations is not None:
        return file.expectations if file.expectations.suffix == ".toml" else file.expectations / NEW
    return aliases.FOLDER / file.name / NEW if file.name in target_file.known_targets() else None
