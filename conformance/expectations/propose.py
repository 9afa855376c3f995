"""Propose the fewest expectations that a run needs: keep, narrow or remove the existing entries, and add new
entries.

For each kind of failure, a result in a mode fails, does not fail, or is unknown: the result did not run, or
it ended differently. An entry is narrowed to exclude the results that do not fail. Unknown results stay in
the entry, because a result that did not run proves nothing. A failure that no entry covers becomes a new
entry, whose reason a person must fill in.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence

from conformance.expectations import entry_states
from conformance.expectations.entries import NEVER, UNREAD, Expectation
from conformance.expectations.minimal_patterns import minimal_patterns
from conformance.expectations.result_id_index import ResultIdIndex
from conformance.model.id_patterns import is_literal, matches
from conformance.model.records import ResultRow
from conformance.model.torch_range import Minor, TorchScope, major_and_minor, separating_scope
from conformance.model.verdicts import Kind, Verdict
from conformance.plan.levels import manifest

#: Result ids by mode: all results that the suite can require of a target.
Plans = Mapping[str, frozenset[str]]

_EXCUSABLE = (Verdict.FAIL.value, Verdict.CRASH.value, Verdict.TIMEOUT.value, Verdict.XFAIL.value)
_NEVER = frozenset(kind.value for kind in NEVER)


@dataclasses.dataclass(frozen=True)
class LegRows:
    """One leg of the run, with its rows by result id.

    ``waived`` maps a result id to the kinds of failure that are waived for every backend.
    """

    mode: str
    torch: str
    rows: Mapping[str, ResultRow]
    waived: Mapping[str, Collection[str]] = dataclasses.field(default_factory=dict)

    def state(self, result_id: str, kind: str) -> entry_states.State:
        """Return the state of a result for a kind of failure, ``unclear`` if the result did not run."""
        row = self.rows.get(result_id)
        return "unclear" if row is None else entry_states.state_of_result(row, kind)


@dataclasses.dataclass
class ExpectationProposal:
    """Proposed expectations: the unchanged entries, the replacements of the changed entries, and the new
    entries.
    """

    unchanged: list[Expectation]
    changed: dict[Expectation, list[Expectation]]
    new: list[Expectation]
    notes: list[str]

    @property
    def removed(self) -> list[Expectation]:
        """The entries that are removed without a replacement."""
        return [entry for entry, replacements in self.changed.items() if not replacements]


def propose_expectations(
    entries: Sequence[Expectation], legs: Sequence[LegRows], plans: Plans, *, until: str, today: datetime.date
) -> ExpectationProposal:
    """Return the expectations that a run needs. ``until`` is the expiry of new entries."""
    modes = {
        mode: plans.get(mode, frozenset()) | _ids_that_ran(legs, mode)
        for mode in {*plans, *(s.mode for s in legs)}
    }
    proposal = ExpectationProposal([], {}, [], [])
    indices = {mode: ResultIdIndex(ids) for mode, ids in modes.items()}
    for entry in entries:
        replacements = _updated_entries(entry, legs, modes, indices)
        if replacements == [entry]:
            proposal.unchanged.append(entry)
        else:
            proposal.changed[entry] = replacements
    remaining = proposal.unchanged + [
        replacement for replacements in proposal.changed.values() for replacement in replacements
    ]
    _add_new_entries(proposal, remaining, legs, modes, until)
    proposal.notes += _notes_for_user(legs, today, remaining)
    return proposal


def _ids_that_ran(legs: Iterable[LegRows], mode: str) -> frozenset[str]:
    return frozenset(name for leg in legs if leg.mode == mode for name in leg.rows)


def _updated_entries(
    entry: Expectation, legs: Sequence[LegRows], modes: Plans, indices: Mapping[str, ResultIdIndex]
) -> list[Expectation]:
    """Return the entries that replace ``entry``: only ``entry`` itself if it is correct, no entry if it is
    stale.
    """
    if not any(entry.applies_to(mode, leg.torch) for leg in legs for mode in (entry.modes or modes)):
        return [entry]
    if entry.processor:
        return [entry]  # a pass on this processor proves nothing about other processors
    scope = [mode for mode in modes if not entry.modes or mode in entry.modes]
    matched = {mode: ids for mode in scope if (ids := indices[mode].ids_matching(entry.id))}
    if not matched:
        return []
    legs = [leg for leg in legs if leg.mode in matched and entry.applies_to(leg.mode, leg.torch)]
    states = {
        (name, mode): _joint_state(leg.state(name, entry.kind.value) for leg in legs if leg.mode == mode)
        for mode, ids in matched.items()
        for name in ids
    }
    wrong = _modes_to_remove(entry, matched, states)
    narrow = not is_literal(entry.id) and any(
        state == "passes" for (_, mode), state in states.items() if mode not in wrong
    )
    if not wrong and not narrow:
        return [_with_torch_scope(entry, legs, matched)]
    right = tuple(sorted(set(matched) - wrong))
    if not narrow:
        return [dataclasses.replace(entry, modes=right)] if right else []
    by_modes: dict[tuple[str, ...], list[str]] = {}
    for name in sorted({name for ids in matched.values() for name in ids}):
        failing_modes = tuple(mode for mode in right if states.get((name, mode)) in ("fails", "unclear"))
        if failing_modes:
            by_modes.setdefault(failing_modes, []).append(name)
    replacements = []
    for failing_modes, names in by_modes.items():
        universe = {name for mode in failing_modes for name in modes[mode]}
        entry_modes = (
            ()
            if not entry.modes
            and all(failing_modes == _modes_with_any_result([name], modes) for name in names)
            else failing_modes
        )
        replacements += [
            dataclasses.replace(entry, id=pattern, modes=entry_modes)
            for pattern in minimal_patterns(names, universe)
        ]
    return replacements


def _joint_state(states_of_builds: Iterable[entry_states.State]) -> entry_states.State:
    """Return the state of a result in one mode from its states in several builds. ``fails`` has
    precedence.
    """
    by_precedence: list[entry_states.State] = ["fails", "unclear", "other", "passes"]
    states = set(states_of_builds)
    return next((state for state in by_precedence if state in states), "unclear")


def _modes_to_remove(
    entry: Expectation, matched: Mapping[str, list[str]], states: Mapping[tuple[str, str], entry_states.State]
) -> set[str]:
    """Return the modes of an entry in which no result fails as declared and no result is unknown."""
    wrong = {
        mode
        for mode, ids in matched.items()
        if all(states[(name, mode)] in ("passes", "other") for name in ids)
    }
    return wrong | {mode for mode in entry.modes if mode not in matched}


def _modes_with_any_result(names: Iterable[str], modes: Plans) -> tuple[str, ...]:
    """Return the modes in which at least one of these results exists."""
    ids_to_find = set(names)
    return tuple(sorted(mode for mode, ids in modes.items() if not ids_to_find.isdisjoint(ids)))


def _with_torch_scope(
    entry: Expectation, legs: Sequence[LegRows], matched: Mapping[str, list[str]]
) -> Expectation:
    """Return the entry. If it is needed in only some of the torch versions of ``legs``, limit the entry to a
    range of versions.
    """
    inside: set[Minor] = set()
    outside: set[Minor] = set()
    for leg in legs:
        leg_states = {leg.state(name, entry.kind.value) for name in matched[leg.mode]}
        if "fails" in leg_states:
            inside.add(major_and_minor(leg.torch))
        elif "unclear" not in leg_states:
            outside.add(major_and_minor(leg.torch))
    scope = separating_scope(inside, outside)
    return entry if scope is None or entry.torch else dataclasses.replace(entry, torch=str(scope))


def _add_new_entries(
    proposal: ExpectationProposal,
    entries: Sequence[Expectation],
    legs: Sequence[LegRows],
    modes: Plans,
    until: str,
) -> None:
    """Add new entries for failures that no entry covers, one for each kind and scope."""
    uncovered: dict[tuple[str, str], list[LegRows]] = {}
    for leg in legs:
        active = [entry for entry in entries if entry.applies_to(leg.mode, leg.torch)]
        covered: dict[str, set[str]] = {}
        index = ResultIdIndex(leg.rows)
        for entry in active:
            for name in index.ids_matching(entry.id):
                covered.setdefault(name, set()).add(entry.kind.value)
        for name, row in leg.rows.items():
            if row["verdict"] in _EXCUSABLE:
                excused = covered.get(name, set()) | set(leg.waived.get(name, ()))
                for kind in sorted(entry_states.failure_kinds(row) - _NEVER - excused):
                    uncovered.setdefault((name, kind), []).append(leg)
    groups: dict[tuple[str, tuple[str, ...], str], list[str]] = {}
    for (name, kind), failing in uncovered.items():
        failing_modes = tuple(sorted({leg.mode for leg in failing}))
        scope = _failing_scope(name, kind, failing, legs)
        if scope is None:
            proposal.notes.append(
                f"{name} ({kind}) fails in some legs and not in others of the same mode, and no range of "
                "torch versions separates the failing legs; fix the backend"
            )
            continue
        failing_modes = () if failing_modes == _modes_with_any_result([name], modes) else failing_modes
        groups.setdefault((kind, failing_modes, scope), []).append(name)
    for (kind, failing_modes, scope), names in groups.items():
        universe = {name for mode in (failing_modes or modes) for name in modes[mode]}
        for pattern in minimal_patterns(names, universe):
            example = next(name for name in names if matches(pattern, name))
            proposal.new.append(
                Expectation(
                    id=pattern,
                    kind=Kind(kind),
                    reason=UNREAD,
                    link="",
                    until=until,
                    source="",
                    detail=_first_message(legs, example, kind),
                    modes=failing_modes,
                    torch=scope,
                )
            )


def _failing_scope(name: str, kind: str, failing: Sequence[LegRows], legs: Sequence[LegRows]) -> str | None:
    """Return the range of torch versions in which a result fails, as text.

    The text is empty (no restriction) if the result fails in all versions. Return None if no range contains
    the versions of all failing legs and of no other leg.
    """
    failing_modes = {leg.mode for leg in failing}
    legs_without_failure = [
        leg for leg in legs if leg.mode in failing_modes and leg.state(name, kind) in ("passes", "other")
    ]
    if not legs_without_failure:
        return ""
    scope: TorchScope | None = separating_scope(
        {major_and_minor(leg.torch) for leg in failing},
        {major_and_minor(leg.torch) for leg in legs_without_failure},
    )
    return None if scope is None else str(scope)


def _first_message(legs: Iterable[LegRows], name: str, kind: str) -> str:
    """Return the first line of a result's message for a kind of failure."""
    for leg in legs:
        row = leg.rows.get(name)
        for failure in () if row is None else row.get("failures", ()):
            if failure["kind"] == kind:
                return str(next(iter(failure["message"].splitlines()), ""))[:200]
    return ""


def _notes_for_user(
    legs: Iterable[LegRows], today: datetime.date, entries: Sequence[Expectation]
) -> Iterable[str]:
    """Yield notes on verdicts that cannot be expected, and on expired entries."""
    never: dict[str, list[str]] = {}
    for leg in legs:
        for name, row in leg.rows.items():
            verdict = Verdict(row["verdict"])
            if verdict in (Verdict.ERROR, Verdict.VACUOUS, Verdict.FLAKY):
                never.setdefault(verdict.value, []).append(name)
    for verdict_name, names in never.items():
        yield f"{len(names)} {verdict_name} cannot be expected, such as {names[0]}; find out why first"
    for leg in legs:
        for entry in entries:
            if entry.applies_to(leg.mode, leg.torch) and entry.has_expired(
                today, manifest.version_for_expectations(leg.torch)
            ):
                yield f"{entry} expired on {entry.until}; check it, then set a later day or remove it"
