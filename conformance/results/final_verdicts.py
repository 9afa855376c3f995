"""Compute the final verdict of each result from its attempts, the expectations and the waivers."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping
from typing import cast

from conformance.expectations import entry_states as expected
from conformance.expectations.entries import Expectation, TargetExpectations
from conformance.expectations.result_id_index import ResultIdIndex
from conformance.model.records import AttemptRow, AttemptSummary, Header, ResultDetails, ResultRow
from conformance.model.verdicts import Basis, Verdict
from conformance.plan.levels import manifest
from conformance.plan.plan import Plan
from conformance.results.blocked import mark_blocked
from conformance.results.leg_summary import MAX_LISTED, LegSummary, expectation_report
from conformance.results.run_state import BAD, RunState, final_attempt

#: Verdicts that an expectation can excuse.
_EXCUSABLE = (Verdict.FAIL.value, Verdict.CRASH.value, Verdict.TIMEOUT.value)

#: Maximum length of the message in the summary of an attempt. Only rows with several attempts have summaries.
MAX_ATTEMPT_MESSAGE = 1000


@dataclasses.dataclass
class JudgedRows:
    """The final row of each result by result id, and the obsolete expectations, whose results all pass."""

    rows: dict[str, ResultRow]
    obsolete: list[Expectation]


def judge_leg(
    run_state: RunState, header: Header, target_expectations: TargetExpectations, day: datetime.date
) -> LegSummary:
    """Return the summary of a leg from the state of its run. ``day`` is the current date."""
    plan = Plan.from_json(run_state.plan) if run_state.plan is not None else Plan([])
    mode = header["mode"]
    torch_version = manifest.version_for_expectations(header["facts"]["torch"]["version"])
    judged = final_rows(
        run_state.attempts,
        target_expectations.active_entries(mode, day, torch_version),
        lambda entry, matched: expected.has_all_results(entry, matched, header),
    )
    apply_waivers(judged.rows, manifest.waiver_links(torch_version, mode, judged.rows))
    if header.get("parity", "strict") == "apart":
        give_parity_verdicts(judged.rows)
    capabilities = header["target"].get("declared", {}).get("capabilities", {})
    mark_blocked(judged.rows, [name for name, is_declared in capabilities.items() if not is_declared])
    planned = list(plan.result_ids())
    missing = [result_id for result_id in planned if result_id not in judged.rows]
    differences = run_state.oracle_check["differences"] if run_state.oracle_check is not None else []
    complete = (
        not missing
        and not run_state.interrupted
        and not differences
        # Only a shard may be without cases; a run that is not sharded must have cases.
        and (bool(plan.cases) or (run_state.plan is not None and header["shard"] != "1/1"))
        and run_state.end is not None
        and run_state.end.get("complete", True)
    )
    records = expected.entry_records(judged.rows, target_expectations, mode, torch_version, day)
    return LegSummary(
        rows=[judged.rows[result_id] for result_id in planned if result_id in judged.rows],
        left_out=header["left_out"],
        missing={"count": len(missing), "first": missing[:MAX_LISTED]},
        complete=complete,
        expectations=expectation_report(records, mode, whole=complete and expected.is_unrestricted(header)),
    )


def final_rows(
    attempts: Mapping[str, list[AttemptRow]],
    expectations: list[Expectation],
    has_all_results: Callable[[Expectation, int], bool] = lambda entry, matched: True,
) -> JudgedRows:
    """Return the final row of every result.

    A failing result becomes ``xfail`` if expectations name every kind of failure of all its attempts.

    If all results that an expectation matches pass, their verdict becomes ``xpass``: the expectation must be
    removed. This does not apply to an expectation for some processors only. ``has_all_results(expectation,
    number of matched results)`` returns True if the leg has all results of the expectation; other
    expectations cannot lead to ``xpass``.
    """
    rows = {result_id: _final_row(rows_of_attempts) for result_id, rows_of_attempts in attempts.items()}
    if not expectations:
        return JudgedRows(rows, [])
    index = ResultIdIndex(rows)
    by_result: dict[str, list[Expectation]] = {}
    matched: list[tuple[Expectation, list[str]]] = []
    for entry in expectations:
        ids = index.ids_matching(entry.id)
        if ids:
            matched.append((entry, ids))
        for result_id in ids:
            by_result.setdefault(result_id, []).append(entry)
    obsolete = [
        entry
        for entry, ids in matched
        if not entry.processor
        and has_all_results(entry, len(ids))
        and all(_passes(rows[result_id]) for result_id in ids)
    ]
    for entry, ids in matched:
        if entry in obsolete:
            for result_id in ids:
                rows[result_id]["verdict"] = Verdict.XPASS.value
                _add_note(rows[result_id], f"passes although {entry.kind.value} is expected; remove {entry}")
    for result_id, entries in by_result.items():
        _excuse_expected(rows[result_id], entries)
    return JudgedRows(rows, obsolete)


def apply_waivers(rows: Mapping[str, ResultRow], waivers: Mapping[str, Mapping[str, str]]) -> None:
    """Turn failures that torch itself causes into ``xfail``, independently of the target's expectations.

    ``waivers`` maps a result id to a mapping from kind of failure to link, for this mode and torch. A row
    becomes ``xfail`` if its mapping has every kind of failure of the row.
    """
    for result_id, links in waivers.items():
        row = rows.get(result_id)
        if row is None or row["verdict"] not in _EXCUSABLE:
            continue
        kinds = expected.failure_kinds(row)
        if kinds and kinds <= set(links):
            row["verdict"] = Verdict.XFAIL.value
            for kind in sorted(kinds):
                _add_note(row, f"waived for every backend, since torch itself is at fault: {links[kind]}")


def give_parity_verdicts(rows: Mapping[str, ResultRow]) -> None:
    """Give each failing row whose deviations all have basis parity the verdict ``parity``."""
    for row in rows.values():
        if row["verdict"] == Verdict.FAIL.value and failure_bases(row) == {Basis.PARITY.value}:
            row["verdict"] = Verdict.PARITY.value


def failure_bases(row: ResultRow) -> frozenset[str]:
    """Return the bases of all deviations of a result, in all its attempts."""
    bases = bases_of_failures(row)
    for attempt in row.get("attempts", ()):
        bases.update(attempt.get("bases", ()))
    return frozenset(bases)


def bases_of_failures(row: ResultDetails) -> set[str]:
    """Return the bases of the deviations of one attempt."""
    return {failure.get("basis", Basis.DOCUMENTED.value) for failure in row.get("failures", ())}


def _passes(row: ResultRow) -> bool:
    return bool(row["verdict"] in (Verdict.PASS.value, Verdict.XPASS.value))


def _final_row(attempts: list[AttemptRow]) -> ResultRow:
    verdict, shown_attempt = final_attempt(attempts)
    row = cast("ResultRow", {key: value for key, value in shown_attempt.items() if key != "attempt"})
    row["verdict"] = verdict
    if len(attempts) > 1:
        row["attempts"] = [_attempt_summary(attempt) for attempt in attempts]
    return row


def _attempt_summary(attempt: AttemptRow) -> AttemptSummary:
    """Return the verdict and the seconds of an attempt and, if it failed, its kinds of failure and first
    message.
    """
    summary: AttemptSummary = {
        "verdict": attempt["verdict"],
        "seconds": attempt.get("seconds", 0.0),
        "attempt": attempt.get("attempt", 1),
    }
    if attempt["verdict"] in BAD and attempt.get("failures"):
        summary["kinds"] = list(dict.fromkeys(failure["kind"] for failure in attempt["failures"]))
        summary["bases"] = sorted(bases_of_failures(attempt))
        summary["message"] = attempt["failures"][0]["message"][:MAX_ATTEMPT_MESSAGE]
    return summary


def _excuse_expected(row: ResultRow, entries: list[Expectation]) -> None:
    if row["verdict"] not in _EXCUSABLE:
        return
    kinds = expected.failure_kinds(row)
    if kinds and kinds <= {entry.kind.value for entry in entries}:
        row["verdict"] = Verdict.XFAIL.value
        for entry in entries:
            if entry.kind.value in kinds:
                _add_note(row, f"expected until {entry.until}: {entry.reason}, {entry.link}")


def _add_note(row: ResultRow, text: str) -> None:
    row["notes"] = [*row.get("notes", ()), text]
