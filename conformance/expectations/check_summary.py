"""Count the expectations that runs confirmed, and summarise a check. Only an unrestricted leg confirms an
entry.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence

from conformance.expectations import entry_states
from conformance.expectations.entries import Expectation, TargetExpectations
from conformance.expectations.result_id_index import ResultIdIndex
from conformance.model.records import Leg


@dataclasses.dataclass(frozen=True)
class EntryCounts:
    """The numbers of expectations of a target by state.

    ``applicable`` counts the entries that apply to the tested versions of torch, and ``other_versions`` the
    entries for other versions. ``confirmed`` counts the confirmed entries among the applicable entries:
    results fail as declared in all modes of the entry. ``unclear`` counts the entries for which an
    unrestricted leg was inconclusive. The remaining applicable entries are not verified, because at least
    one of their modes has no unrestricted leg. ``modes_without_leg`` lists the modes without an
    unrestricted leg, and ``modes`` lists all modes of the target.
    """

    confirmed: int
    unclear: int
    applicable: int
    other_versions: int
    modes_without_leg: tuple[str, ...]
    modes: tuple[str, ...]


def count_entries(
    target_expectations: TargetExpectations,
    plans: Mapping[str, frozenset[str]],
    legs: Sequence[Leg],
    versions: Sequence[str],
    today: datetime.date,
) -> EntryCounts:
    """Count the expectations of a target by their state in the unrestricted and complete legs of ``legs``."""
    indices = {mode: ResultIdIndex(ids) for mode, ids in plans.items()}
    judged_legs = [
        _entries_failing_as_declared(target_expectations, leg, today)
        for leg in legs
        if entry_states.are_expectations_judged(leg)
    ]
    missing: set[str] = set()
    true = unclear = applicable = 0
    for entry in target_expectations.entries:
        entry_modes = entry.modes or tuple(plans)
        if not any(entry.applies_to(mode, version) for mode in entry_modes for version in versions):
            continue
        applicable += 1
        failing_by_mode = {
            mode: [
                failing[entry] for leg_mode, failing in judged_legs if leg_mode == mode and entry in failing
            ]
            for mode in entry_modes
            if mode in plans and indices[mode].matches_any_id(entry.id)
        }
        unjudged = {mode for mode, states in failing_by_mode.items() if not states}
        if unjudged:
            missing |= unjudged
        elif failing_by_mode and all(all(states) for states in failing_by_mode.values()):
            true += 1
        else:
            unclear += 1
    return EntryCounts(
        true,
        unclear,
        applicable,
        len(target_expectations.entries) - applicable,
        tuple(mode for mode in plans if mode in missing),
        tuple(plans),
    )


def _entries_failing_as_declared(
    target_expectations: TargetExpectations, leg: Leg, today: datetime.date
) -> tuple[str, dict[Expectation, bool]]:
    """Return the mode of a leg, and for each applicable entry whether a result fails as declared."""
    rows = {row["id"]: row for row in leg["results"]}
    applicable = [
        entry for entry in target_expectations.entries if entry.applies_to(leg["mode"], leg["torch"])
    ]
    records = entry_states.entry_records(rows, target_expectations, leg["mode"], leg["torch"], today)
    return leg["mode"], {
        entry: record["fails"] > 0 for entry, record in zip(applicable, records, strict=True)
    }


def summary_line(counts: EntryCounts, problems: int) -> str:
    """Return the last line of a check: how many entries are confirmed, not yet verified, or inconclusive."""
    total = counts.applicable + counts.other_versions
    if not total:
        return "0 entries"
    parts = [f"{total} entries"]
    if problems:
        parts[0] += f", {problems} problems"
    elif counts.confirmed == total:
        return f"{total} entries are confirmed"
    elif counts.applicable:
        parts[0] += ": names, modes and expiry are valid"
        parts[0] += f", and {counts.confirmed} are confirmed" if counts.confirmed else ""
    if counts.modes_without_leg:
        subject = "the others" if counts.confirmed or counts.unclear or problems else "they"
        modes = (
            f" in {', '.join(counts.modes_without_leg)}" if counts.modes_without_leg != counts.modes else ""
        )
        parts.append(f"{subject} are not yet verified: run level full{modes}, without -k and with all shards")
    if counts.unclear and not problems:
        parts.append(f"{counts.unclear} are inconclusive: their results neither passed nor failed")
    if counts.other_versions:
        parts.append(f"{counts.other_versions} apply to other versions of torch and were not checked")
    return "; ".join(parts)
