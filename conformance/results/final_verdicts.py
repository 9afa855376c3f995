"""From attempts to verdicts: what a result counts as once expectations are held against it."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping
from typing import cast

from conformance.expectations import entry_states as expected
from conformance.expectations.entries import Expectation, TargetExpectations
from conformance.expectations.index import Index
from conformance.model.records import AttemptRow, AttemptSummary, Header, ResultRow
from conformance.model.verdicts import Verdict
from conformance.plan.levels import manifest
from conformance.plan.plan import Plan
from conformance.results.leg_summary import SHOWN, Judgement, report
from conformance.results.run_state import BAD, Ledger, final_attempt

#: Verdicts that an expectation can excuse.
_EXCUSABLE = (Verdict.FAIL.value, Verdict.CRASH.value, Verdict.TIMEOUT.value)

#: Characters kept of what one attempt among several said.
MAX_ATTEMPT_MESSAGE = 1000


@dataclasses.dataclass
class JudgedRows:
    """Rows of the results file by result id, and the expectations whose results all pass."""

    rows: dict[str, ResultRow]
    obsolete: list[Expectation]


def judge(ledger: Ledger, header: Header, book: TargetExpectations, day: datetime.date) -> Judgement:
    """The judgement of a leg from the events of its run, on a day that decides which entries have expired."""
    plan = Plan.from_json(ledger.plan) if ledger.plan is not None else Plan([])
    mode, torch_version = header["mode"], header["facts"]["torch"]["version"]
    outcome = decide(
        ledger.attempts,
        book.active(mode, day, torch_version),
        lambda entry, matched: expected.has_all_results(entry, matched, header),
    )
    waive(outcome.rows, manifest.waiver_links(torch_version, mode, outcome.rows))
    due = list(plan.result_ids())
    missing = [result_id for result_id in due if result_id not in outcome.rows]
    differences = ledger.oracle_check["differences"] if ledger.oracle_check is not None else []
    complete = (
        not missing
        and not ledger.interrupted
        and not differences
        # A shard may be empty; a whole run may not.
        and (bool(plan.cases) or (ledger.plan is not None and header["shard"] != "1/1"))
        and ledger.end is not None
        and ledger.end.get("complete", True)
    )
    records = expected.entry_records(outcome.rows, book, mode, torch_version, day)
    return Judgement(
        rows=[outcome.rows[result_id] for result_id in due if result_id in outcome.rows],
        left_out=header["left_out"],
        missing={"count": len(missing), "first": missing[:SHOWN]},
        complete=complete,
        expectations=report(records, mode, whole=complete and expected.is_unrestricted(header)),
    )


def decide(
    attempts: Mapping[str, list[AttemptRow]],
    expectations: list[Expectation],
    covers: Callable[[Expectation, int], bool] = lambda entry, matched: True,
) -> JudgedRows:
    """The final row of every result.

    A failing result becomes ``xfail`` if expectations name every kind of failure that it showed in any
    attempt. If all results that an expectation matches pass, they become ``xpass``: the entry must go, unless
    it speaks of some processors alone. Only entries count for which ``covers``, given the number of matches,
    says that all their results are here.
    """
    rows = {result_id: _row(kept) for result_id, kept in attempts.items()}
    if not expectations:
        return JudgedRows(rows, [])
    index = Index(rows)
    by_result: dict[str, list[Expectation]] = {}
    matched: list[tuple[Expectation, list[str]]] = []
    for entry in expectations:
        ids = index.matching(entry.id)
        if ids:
            matched.append((entry, ids))
        for result_id in ids:
            by_result.setdefault(result_id, []).append(entry)
    obsolete = [
        entry
        for entry, ids in matched
        if not entry.processor
        and covers(entry, len(ids))
        and all(_passes(rows[result_id]) for result_id in ids)
    ]
    for entry, ids in matched:
        if entry in obsolete:
            for result_id in ids:
                rows[result_id]["verdict"] = Verdict.XPASS.value
                _note(rows[result_id], f"passes although {entry.kind.value} is expected; remove {entry}")
    for result_id, entries in by_result.items():
        _excuse(rows[result_id], entries)
    return JudgedRows(rows, obsolete)


def waive(rows: Mapping[str, ResultRow], waivers: Mapping[str, Mapping[str, str]]) -> None:
    """Excuse the failures for which torch itself is at fault, whatever the target expects.

    ``waivers`` are links by kind of failure by result id, those of the manifest that speak of this mode and
    torch. A row becomes ``xfail`` if they name every kind of failure that it showed.
    """
    for result_id, links in waivers.items():
        row = rows.get(result_id)
        if row is None or row["verdict"] not in _EXCUSABLE:
            continue
        kinds = expected.failure_kinds(row)
        if kinds and kinds <= set(links):
            row["verdict"] = Verdict.XFAIL.value
            for kind in sorted(kinds):
                _note(row, f"waived for every backend, since torch itself is at fault: {links[kind]}")


def _passes(row: ResultRow) -> bool:
    return bool(row["verdict"] in (Verdict.PASS.value, Verdict.XPASS.value))


def _row(attempts: list[AttemptRow]) -> ResultRow:
    verdict, shown = final_attempt(attempts)
    row = cast("ResultRow", {key: value for key, value in shown.items() if key != "attempt"})
    row["verdict"] = verdict
    if len(attempts) > 1:
        row["attempts"] = [_attempt(kept) for kept in attempts]
    return row


def _attempt(kept: AttemptRow) -> AttemptSummary:
    """The summary of one attempt among several: its verdict and, if it was bad, the kinds of failure."""
    summary: AttemptSummary = {
        "verdict": kept["verdict"],
        "seconds": kept.get("seconds", 0.0),
        "attempt": kept.get("attempt", 1),
    }
    if kept["verdict"] in BAD and kept.get("failures"):
        summary["kinds"] = list(dict.fromkeys(failure["kind"] for failure in kept["failures"]))
        summary["message"] = kept["failures"][0]["message"][:MAX_ATTEMPT_MESSAGE]
    return summary


def _excuse(row: ResultRow, entries: list[Expectation]) -> None:
    if row["verdict"] not in _EXCUSABLE:
        return
    kinds = expected.failure_kinds(row)
    if kinds and kinds <= {entry.kind.value for entry in entries}:
        row["verdict"] = Verdict.XFAIL.value
        for entry in entries:
            if entry.kind.value in kinds:
                _note(row, f"expected until {entry.until}: {entry.reason}, {entry.link}")


def _note(row: ResultRow, text: str) -> None:
    row["notes"] = [*row.get("notes", ()), text]
