"""The state of the entries that apply to a leg, from its results: used, stale, over-broad or expired.

Only a whole leg is judged (full level, no ``-k``, all shards, the default samples or more, nothing missing).
In a part of one, what an entry is there for may not have run.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Literal

from conformance.expectations.entries import Book, Expectation
from conformance.expectations.index import Index
from conformance.model.id_patterns import is_literal
from conformance.model.records import ExpectationRecord, Header, Leg, ResultRow
from conformance.model.verdicts import Verdict

#: How a result relates to a kind of failure.
State = Literal["fails", "passes", "other", "unclear"]
STATES: tuple[State, ...] = ("fails", "passes", "other", "unclear")
_WORKS = (Verdict.PASS.value, Verdict.XPASS.value)
_SHOWS = (Verdict.FAIL.value, Verdict.CRASH.value, Verdict.TIMEOUT.value, Verdict.XFAIL.value)
_DECIDED = (*_WORKS, Verdict.FAIL.value, Verdict.XFAIL.value, Verdict.UNSUPPORTED.value)
#: Two records of one entry agree in these.
_SAME: tuple[Literal["id", "kind", "source", "until", "reason", "link"], ...] = (
    "id",
    "kind",
    "source",
    "until",
    "reason",
    "link",
)
#: Passing results that a record names.
_NAMED = 3


def kinds(row: ResultRow) -> frozenset[str]:
    """All kinds of failure that a result showed, in any attempt."""
    shown = {failure["kind"] for failure in row.get("failures", ())}
    for attempt in row.get("attempts", ()):
        shown.update(attempt.get("kinds", ()))
    return frozenset(shown)


def state(row: ResultRow, kind: str) -> State:
    """The relation of a result to a kind of failure: it ``fails`` so, ``passes``, or is one of the others."""
    if row["verdict"] in _WORKS:
        return "passes"
    if row["verdict"] in _SHOWS and kind in kinds(row):
        return "fails"
    return "other" if row["verdict"] in _DECIDED else "unclear"


def covers(entry: Expectation, matched: int, header: Header) -> bool:
    """Return True if a leg has all results to which an entry applies in its mode, given how many it matches.

    The header of a run says how many there are; a level, a shard or ``-k`` leaves some of them out.
    """
    if not enough_samples(header["samples"]):
        return False
    if is_literal(entry.id):
        return True
    reach = header.get("reach", {})
    return matched >= reach[entry.id] if entry.id in reach else whole(header)


def enough_samples(samples: str) -> bool:
    """Return True for at least the default number of samples: a failure may need one that fewer leave out."""
    return not samples.isdigit()


def whole(leg: Leg | Header) -> bool:
    """Return True if a leg covers all that its mode has; it may still be incomplete."""
    return (
        leg["level"] == "full"
        and leg["selection"] is None
        and leg["shard"] == "1/1"
        and enough_samples(leg["samples"])
    )


def decides(leg: Leg) -> bool:
    """Return True if a leg is whole and complete, so that its expectations are judged."""
    return whole(leg) and leg["complete"]


def records(
    rows: Mapping[str, ResultRow], book: Book, mode: str, torch_version: str, day: datetime.date
) -> list[ExpectationRecord]:
    """One record for every entry that speaks of a mode and a version of torch."""
    index = Index(rows)
    return [
        _record(
            entry,
            [rows[result_id] for result_id in index.matching(entry.id)],
            entry.expired(day, torch_version),
        )
        for entry in book.entries
        if entry.speaks_of(mode, torch_version)
    ]


def _record(entry: Expectation, rows: Iterable[ResultRow], expired: bool) -> ExpectationRecord:
    counts: dict[State, int] = dict.fromkeys(STATES, 0)
    passing: list[str] = []
    for row in rows:
        word = state(row, entry.kind.value)
        if word == "passes" and entry.processor:
            word = "unclear"  # this processor may be another one
        counts[word] += 1
        if word == "passes" and len(passing) < _NAMED:
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


def join(parts: Iterable[list[ExpectationRecord]]) -> list[ExpectationRecord]:
    """The records of a leg from those of its shards."""
    joined: dict[tuple[str, ...], ExpectationRecord] = {}
    for part in parts:
        for record in part:
            key = tuple(record[word] for word in _SAME)
            if key not in joined:
                joined[key] = record.copy()
                continue
            known = joined[key]
            for word in STATES:
                known[word] += record[word]
            known["passing"] = [*known["passing"], *record["passing"]][:_NAMED]
    return list(joined.values())


def problems(entry_records: Iterable[ExpectationRecord], mode: str) -> list[str]:
    """Problems of the entries of a whole leg, each with its remedy."""
    return [text for record in entry_records for text in _problem(record, mode)]


def _problem(record: ExpectationRecord, mode: str) -> Iterable[str]:
    name = f"expectation {record['id']} ({record['kind']}) in {record['source']}"
    matched = sum(record[word] for word in STATES)
    if record["expired"]:
        yield expired(record)
    elif not matched:
        if record["named"]:
            yield f"{name} is stale: it matches no result in mode {mode}; take {mode!r} from its modes"
    elif not record["fails"] and not record["unclear"]:
        some = "its result does not fail" if matched == 1 else f"none of its {matched} results fails"
        yield (
            f"{name} is stale: {some} in that way in mode {mode}; remove it, or name the modes that need it"
        )
    elif record["fails"] and record["passes"] and not is_literal(record["id"]):
        yield (
            f"{name} is over-broad: {record['passes']} of the {matched} results that it matches pass, such "
            f"as {record['passing'][0]}; 'conformance expect update' writes narrower ones"
        )


def expired(record: ExpectationRecord) -> str:
    """The sentence about an entry that has run out."""
    name = f"expectation {record['id']} ({record['kind']}) in {record['source']}"
    if not record["fails"]:
        return f"{name} expired on {record['until']}; remove it if its results pass"
    return (
        f"{name} expired on {record['until']} and {record['fails']} results still fail so; look at "
        f"{record['link']} and give it a later day, or fix them"
    )
