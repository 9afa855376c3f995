"""Find problems of a target's expectations. Each problem is a sentence that also names the remedy."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence

from conformance.expectations import entry_states
from conformance.expectations.entries import Expectation, TargetExpectations
from conformance.expectations.result_id_index import ResultIdIndex
from conformance.model.records import Leg
from conformance.plan.levels import manifest


def static_problems(
    target_expectations: TargetExpectations,
    plans: Mapping[str, frozenset[str]],
    today: datetime.date,
    versions: Sequence[str],
) -> list[str]:
    """Return the problems that can be found without a run: unknown names and modes, duplicates, expired
    entries.
    """
    indices = {mode: ResultIdIndex(ids) for mode, ids in plans.items()}
    everything = ResultIdIndex(name for ids in plans.values() for name in ids)
    applicable = [
        entry
        for entry in target_expectations.entries
        if any(_applies_to_version(entry, version) for version in versions)
    ]
    problems = [text for entry in applicable for text in _name_problems(entry, indices, everything)]
    problems += [
        text for version in versions for text in _expired_problems(target_expectations, today, version)
    ]
    return [*problems, *_duplicate_problems(target_expectations.entries)]


def _applies_to_version(entry: Expectation, version: str) -> bool:
    return any(entry.applies_to(mode, version) for mode in (entry.modes or ("eager",)))


def _name_problems(
    entry: Expectation, indices: Mapping[str, ResultIdIndex], everything: ResultIdIndex
) -> Iterator[str]:
    if not everything.ids_matching(entry.id):
        suggestions = everything.nearest_ids(entry.id)
        hint = f"rename it to {' or '.join(suggestions)}, or remove it" if suggestions else "remove it"
        yield f"expectation {entry} matches no result of this target; {hint}"
        return
    for mode in entry.modes:
        if mode not in indices:
            valid_modes = ", ".join(indices)
            yield (
                f"expectation {entry} names mode {mode!r}, which the target does not have; remove it or use "
                f"{valid_modes}"
            )
        elif not indices[mode].ids_matching(entry.id):
            yield f"expectation {entry} matches no result in mode {mode!r}; remove the mode from its modes"


def _expired_problems(
    target_expectations: TargetExpectations, today: datetime.date, version: str
) -> Iterator[str]:
    for entry in target_expectations.entries:
        if _applies_to_version(entry, version) and entry.has_expired(today, version):
            yield (
                f"expectation {entry} expired on {entry.until}; see {entry.link} and set a later day, or "
                "remove it"
            )


def _duplicate_problems(entries: Sequence[Expectation]) -> Iterator[str]:
    """Yield a sentence for each entry that repeats an earlier entry for overlapping modes and versions of
    torch.
    """
    earlier_entries: dict[tuple[str, str], list[Expectation]] = {}
    for entry in entries:
        duplicates = earlier_entries.setdefault((entry.id, entry.kind.value), [])
        for earlier in duplicates:
            modes = not entry.modes or not earlier.modes or set(entry.modes) & set(earlier.modes)
            if modes and (entry.torch == earlier.torch or not entry.torch or not earlier.torch):
                yield f"expectation {entry} is also in {earlier.source}; remove one of them"
        duplicates.append(entry)


def problems_of_leg(target_expectations: TargetExpectations, leg: Leg, today: datetime.date) -> list[str]:
    """Return a problem for each entry that a leg proves to be stale or over-broad; empty for a restricted
    leg.
    """
    if not entry_states.are_expectations_judged(leg):
        return []
    rows = {row["id"]: row for row in leg["results"]}
    current = [
        record
        for record in entry_states.entry_records(
            rows, target_expectations, leg["mode"], manifest.version_for_expectations(leg["torch"]), today
        )
        if not record["expired"]
    ]
    return entry_states.entry_problems(current, leg["mode"])
