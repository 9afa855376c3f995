"""Determine the state of each expectation from the results of a leg: used, stale, over-broad or expired.

Entries are judged only by an unrestricted and complete leg: level full, no ``-k``, all shards, at least the
default samples, and no missing results. In other legs, the results that an entry excuses may not have run.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Literal

from conformance.expectations.entries import Expectation, TargetExpectations
from conformance.expectations.result_id_index import ResultIdIndex
from conformance.model import seeds
from conformance.model.id_patterns import is_literal
from conformance.model.records import ExpectationRecord, Header, Leg, ResultRow
from conformance.model.verdicts import Verdict

#: The state of a result for one kind of failure (:func:`state_of_result`).
State = Literal["fails", "passes", "other", "unclear"]
STATES: tuple[State, ...] = ("fails", "passes", "other", "unclear")
_WORKS = (Verdict.PASS.value, Verdict.XPASS.value)
_FAILING = (
    Verdict.FAIL.value,
    Verdict.CRASH.value,
    Verdict.TIMEOUT.value,
    Verdict.XFAIL.value,
    Verdict.PARITY.value,
)
_CONCLUSIVE = (
    *_WORKS,
    Verdict.FAIL.value,
    Verdict.XFAIL.value,
    Verdict.PARITY.value,
    Verdict.UNSUPPORTED.value,
)
#: Fields that identify an entry in the records of different shards.
_SAME: tuple[Literal["id", "kind", "source", "until", "reason", "link"], ...] = (
    "id",
    "kind",
    "source",
    "until",
    "reason",
    "link",
)
#: The maximum number of passing results that the record of an expectation lists.
_MAX_PASSING = 3


def failure_kinds(row: ResultRow) -> frozenset[str]:
    """Return all kinds of failure that a result showed, in any attempt."""
    failure_kinds_of_row = {failure["kind"] for failure in row.get("failures", ())}
    for attempt in row.get("attempts", ()):
        failure_kinds_of_row.update(attempt.get("kinds", ()))
    return frozenset(failure_kinds_of_row)


def state_of_result(row: ResultRow, kind: str) -> State:
    """Return whether a result ``fails`` with this kind of failure, ``passes``, ends differently (``other``),
    or is ``unclear``.
    """
    if row["verdict"] in _WORKS:
        return "passes"
    if row["verdict"] in _FAILING and kind in failure_kinds(row):
        return "fails"
    return "other" if row["verdict"] in _CONCLUSIVE else "unclear"


def has_all_results(entry: Expectation, matched: int, header: Header) -> bool:
    """Return True if a leg has all results that an entry matches in the mode of the leg.

    ``matched`` is the number of these results in the leg. The header of the run lists the number of all
    results that the entry matches; a level, a shard or ``-k`` may omit some of them.
    """
    if not has_default_samples_or_more(header):
        return False
    if is_literal(entry.id):
        return True
    reach = header.get("reach", {})
    return matched >= reach[entry.id] if entry.id in reach else is_unrestricted(header)


def has_default_samples_or_more(leg: Leg | Header) -> bool:
    """Return True if a run has at least the samples of the release. A smaller number or another seed may omit
    a failing sample.
    """
    return not leg["samples"].isdigit() and leg.get("seed", seeds.RELEASE_SEED) == seeds.RELEASE_SEED


def is_unrestricted(leg: Leg | Header) -> bool:
    """Return True if a leg was planned to cover all results of its mode. The leg may still be incomplete."""
    return (
        leg["level"] == "full"
        and leg["selection"] is None
        and leg["shard"] == "1/1"
        and has_default_samples_or_more(leg)
    )


def are_expectations_judged(leg: Leg) -> bool:
    """Return True if a leg is unrestricted and complete, so that its expectations are judged."""
    return is_unrestricted(leg) and leg["complete"]


def entry_records(
    rows: Mapping[str, ResultRow],
    target_expectations: TargetExpectations,
    mode: str,
    torch_version: str,
    day: datetime.date,
) -> list[ExpectationRecord]:
    """Return one record for every entry that applies to a mode and a version of torch."""
    index = ResultIdIndex(rows)
    return [
        _entry_record(
            entry,
            [rows[result_id] for result_id in index.ids_matching(entry.id)],
            entry.has_expired(day, torch_version),
        )
        for entry in target_expectations.entries
        if entry.applies_to(mode, torch_version)
    ]


def _entry_record(entry: Expectation, rows: Iterable[ResultRow], expired: bool) -> ExpectationRecord:
    counts: dict[State, int] = dict.fromkeys(STATES, 0)
    passing: list[str] = []
    for row in rows:
        state_name = state_of_result(row, entry.kind.value)
        if state_name == "passes" and entry.processor:
            state_name = "unclear"  # the result may have run on a different processor
        counts[state_name] += 1
        if state_name == "passes" and len(passing) < _MAX_PASSING:
            passing.append(row["id"])
    return {
        "id": entry.id,
        "kind": entry.kind.value,
        "source": entry.source,
        "until": entry.until,
        "reason": entry.reason,
        "link": entry.link,
        "expired": expired,
        "named": bool(entry.modes),
        "fails": counts["fails"],
        "passes": counts["passes"],
        "other": counts["other"],
        "unclear": counts["unclear"],
        "passing": passing,
    }


def merge_shard_records(parts: Iterable[list[ExpectationRecord]]) -> list[ExpectationRecord]:
    """Return the records of a leg from the records of its shards."""
    joined: dict[tuple[str, ...], ExpectationRecord] = {}
    for part in parts:
        for record in part:
            key = tuple(record[field] for field in _SAME)
            if key not in joined:
                joined[key] = record.copy()
                continue
            earlier = joined[key]
            for field in STATES:
                earlier[field] += record[field]
            earlier["passing"] = [*earlier["passing"], *record["passing"]][:_MAX_PASSING]
    return list(joined.values())


def entry_problems(records_of_leg: Iterable[ExpectationRecord], mode: str) -> list[str]:
    """Return the problems of the entries of an unrestricted leg, each with its remedy."""
    return [text for record in records_of_leg for text in _problems_of_entry(record, mode)]


def _problems_of_entry(record: ExpectationRecord, mode: str) -> Iterable[str]:
    name = f"expectation {record['id']} ({record['kind']}) in {record['source']}"
    matched = sum(record[state_name] for state_name in STATES)
    if record["expired"]:
        yield expired_text(record)
    elif not matched:
        if record["named"]:
            yield f"{name} is stale: it matches no result in mode {mode}; remove {mode!r} from its modes"
    elif not record["fails"] and not record["unclear"]:
        reason = "its result does not fail" if matched == 1 else f"none of its {matched} results fails"
        yield (
            f"{name} is stale: {reason} in that way in mode {mode}; remove it, or name the modes that need it"
        )
    elif record["fails"] and record["passes"] and not is_literal(record["id"]):
        yield (
            f"{name} is over-broad: {record['passes']} of the {matched} results that it matches pass, such "
            f"as {record['passing'][0]}; 'conformance expect update' writes narrower ones"
        )


def expired_text(record: ExpectationRecord) -> str:
    """Return a sentence that reports an expired entry and its remedy."""
    name = f"expectation {record['id']} ({record['kind']}) in {record['source']}"
    if not record["fails"]:
        return f"{name} expired on {record['until']}; remove it if its results pass"
    return (
        f"{name} expired on {record['until']} and {record['fails']} results still fail in that way; see "
        f"{record['link']} and set a later day, or fix them"
    )
