"""Helpers of the ``expect`` commands: all result ids of a target, and the file for its new expectations."""

from __future__ import annotations

from pathlib import Path

from conformance.expectations import aliases
from conformance.plan.plan import Plan
from conformance.plan.run_request import RunRequest
from conformance.runner.leg import full_plans_by_mode
from conformance.target import file as target_file

NEW = "new.toml"
#: Days until a new entry expires.
DAYS = 90


def result_ids_by_mode(file: target_file.TargetFile, extra: list[str]) -> dict[str, frozenset[str]]:
    """Return all result ids of a target by mode.

    A child process builds the plan, because it imports torch and the extra modules.
    """
    options = RunRequest(file, str(file.path.resolve()), file.modes, Path(), extra=tuple(extra))
    names = full_plans_by_mode(options, file.default_mode)
    return {mode: frozenset(Plan.from_json(plan).result_ids()) for mode, plan in names.items()}


def file_for_new_entries(file: target_file.TargetFile) -> Path | None:
    """Return the file for new entries.

    The file is ``expectations`` of the target file, or the file ``NEW`` in this folder. If a known target
    does not set ``expectations``, the file is ``NEW`` in the suite's folder for the target. Return None for
    any other target, whose entries can be printed, but not written.
    """
    if file.expectations is not None:
        return file.expectations if file.expectations.suffix == ".toml" else file.expectations / NEW
    return aliases.FOLDER / file.name / NEW if file.name in target_file.known_targets() else None
