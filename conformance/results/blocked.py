"""Find the results that fail only because something more basic fails.

A result keeps its verdict. ``blocked_by`` names what must be fixed first: a prerequisite of the suite, a
missing kernel, an undeclared capability, or a result of the same subject and dtype.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from conformance.model.messages import (
    failed_prerequisite,
    identifies_cause,
    is_about_wrong_values,
    message_pattern,
    missing_kernel,
)
from conformance.model.records import FailureRow, ResultRow
from conformance.model.verdicts import ResultId, Verdict

#: The most basic properties of a subject, the most basic first.
_BASIC_PROPERTIES = ("value", "overload-forms", "forward")

#: Errors of torch about a tensor that has no storage.
_NO_STORAGE = re.compile(r"access storage of|data pointer|unallocated storage|invalid python storage")


def mark_blocked(rows: Mapping[str, ResultRow], undeclared: Collection[str] = ()) -> None:
    """Set ``blocked_by`` in each failing row that something more basic explains.

    ``undeclared`` are the capabilities that the target does not declare.
    """
    failing = {name: row for name, row in rows.items() if row["verdict"] == Verdict.FAIL.value}
    for name, row in failing.items():
        cause = _blocked_by(name, row, failing, undeclared)
        if cause:
            row["blocked_by"] = cause


def _blocked_by(
    name: str, row: ResultRow, failing: Mapping[str, ResultRow], undeclared: Collection[str]
) -> str:
    failures = row.get("failures", ())
    if not failures:
        return ""
    message = failures[0]["message"]
    if prerequisite := failed_prerequisite(message):
        return prerequisite
    if kernel := missing_kernel(message):
        return f"kernel {kernel}"
    if "storage" in undeclared and _NO_STORAGE.search(message):
        return "capability storage"
    result_id = ResultId.parse(name)
    for basic in _BASIC_PROPERTIES:
        if basic == result_id.case.property:
            return ""
        basic_name = f"{basic}/{result_id.case.subject}@{result_id.dtype}"
        if basic_name in failing and _explains_failures(failing[basic_name], row, result_id.case.subject):
            return basic_name
    return ""


def _explains_failures(basic: ResultRow, row: ResultRow, subject: str) -> bool:
    """Return True if the failures of a basic result explain every failure of another result.

    An error is explained by an equal error, and wrong values by wrong values of the same samples.
    """
    errors = {_error_pattern(failure, subject) for failure in basic.get("failures", ())}
    wrong_samples = set(basic.get("failed_samples", ()))
    has_wrong_values = any(is_about_wrong_values(failure["message"]) for failure in basic.get("failures", ()))
    for failure in row.get("failures", ()):
        if identifies_cause(failure["message"]):
            if _error_pattern(failure, subject) not in errors:
                return False
        elif not (
            has_wrong_values
            and is_about_wrong_values(failure["message"])
            and failure.get("sample") in wrong_samples
        ):
            return False
    return True


def _error_pattern(failure: FailureRow, subject: str) -> str:
    return message_pattern(failure["message"], subject) if identifies_cause(failure["message"]) else ""
