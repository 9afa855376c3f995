"""From attempts to verdicts: what a result counts as once expectations are held against it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from conformance.expectation import Expectation, Index
from conformance.model import Verdict
from conformance.runner.ledger import Row, settle

#: Verdicts that an expectation can excuse.
_EXCUSABLE = (Verdict.FAIL.value, Verdict.CRASH.value, Verdict.TIMEOUT.value)


@dataclasses.dataclass
class Outcome:
    """Rows of the results file by result id, and the expectations whose results all pass."""

    rows: dict[str, Row]
    obsolete: list[Expectation]


def decide(attempts: Mapping[str, list[Row]], expectations: list[Expectation]) -> Outcome:
    """The final row of every result.

    A failing result becomes ``xfail`` where expectations name every kind of failure that it shows. Where all
    results that an expectation matches pass, they become ``xpass``: the entry must go.
    """
    rows = {result_id: _row(kept) for result_id, kept in attempts.items()}
    if not expectations:
        return Outcome(rows, [])
    index = Index(rows)
    by_result: dict[str, list[Expectation]] = {}
    matched: list[tuple[Expectation, list[str]]] = []
    for entry in expectations:
        ids = index.matching(entry.id)
        if ids:
            matched.append((entry, ids))
        for result_id in ids:
            by_result.setdefault(result_id, []).append(entry)
    obsolete = [entry for entry, ids in matched if all(_passes(rows[result_id]) for result_id in ids)]
    for entry, ids in matched:
        if entry in obsolete:
            for result_id in ids:
                rows[result_id]["verdict"] = Verdict.XPASS.value
                _note(rows[result_id], f"passes although {entry.kind.value} is expected; remove {entry}")
    for result_id, entries in by_result.items():
        _excuse(rows[result_id], entries)
    return Outcome(rows, obsolete)


def _passes(row: Row) -> bool:
    return bool(row["verdict"] in (Verdict.PASS.value, Verdict.XPASS.value))


def _row(attempts: list[Row]) -> Row:
    verdict, shown = settle(attempts)
    row: dict[str, Any] = {**shown, "verdict": verdict}
    row.pop("attempt", None)
    if len(attempts) > 1:
        row["attempts"] = [
            {
                "verdict": kept["verdict"],
                "seconds": kept.get("seconds", 0.0),
                "attempt": kept.get("attempt", 1),
            }
            for kept in attempts
        ]
    return row


def _excuse(row: Row, entries: list[Expectation]) -> None:
    if row["verdict"] not in _EXCUSABLE:
        return
    found = {failure["kind"] for failure in row.get("failures", ())}
    if found and found <= {entry.kind.value for entry in entries}:
        row["verdict"] = Verdict.XFAIL.value
        for entry in entries:
            if entry.kind.value in found:
                _note(row, f"expected until {entry.until}: {entry.reason}, {entry.link}")


def _note(row: Row, text: str) -> None:
    row["notes"] = [*row.get("notes", ()), text]
