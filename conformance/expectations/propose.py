"""The fewest expectations that a run needs: existing ones kept, narrowed or removed, and new ones.

A result in a mode fails with a kind, does not, or is unknown: it did not run, or it ended otherwise. An entry
is narrowed by the results that are known not to fail so and keeps the unknown ones, since a result that did
not run says nothing. A failure that no entry covers becomes a new entry, whose reason a person must fill
in.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence

from conformance.expectations import entry_states
from conformance.expectations.entries import NEVER, UNREAD, Expectation
from conformance.expectations.index import Index
from conformance.expectations.minimal_patterns import minimal
from conformance.model.id_patterns import is_literal, matches
from conformance.model.records import ResultRow
from conformance.model.torch_range import Minor, TorchScope, between, minor
from conformance.model.verdicts import Kind, Verdict

#: Result ids by mode: everything that the suite can ask of a target.
Plans = Mapping[str, frozenset[str]]

_EXCUSABLE = (Verdict.FAIL.value, Verdict.CRASH.value, Verdict.TIMEOUT.value, Verdict.XFAIL.value)
_NEVER = frozenset(kind.value for kind in NEVER)


@dataclasses.dataclass(frozen=True)
class Seen:
    """One leg of the run: rows and the kinds of failure that are waived for every backend, by result id."""

    mode: str
    torch: str
    rows: Mapping[str, ResultRow]
    waived: Mapping[str, Collection[str]] = dataclasses.field(default_factory=dict)

    def state(self, result_id: str, kind: str) -> entry_states.State:
        """``fails``, ``passes``, ``other`` or ``unclear``; what did not run is unclear."""
        row = self.rows.get(result_id)
        return "unclear" if row is None else entry_states.state(row, kind)


@dataclasses.dataclass
class Proposal:
    """The existing entries, kept or each replaced by others or by none, and the new entries."""

    kept: list[Expectation]
    changed: dict[Expectation, list[Expectation]]
    new: list[Expectation]
    notes: list[str]

    @property
    def removed(self) -> list[Expectation]:
        """The entries that go without replacement."""
        return [entry for entry, others in self.changed.items() if not others]


def propose(
    entries: Sequence[Expectation], legs: Sequence[Seen], plans: Plans, *, until: str, today: datetime.date
) -> Proposal:
    """The expectations that a run needs. ``until`` is the expiry of new entries."""
    modes = {
        mode: plans.get(mode, frozenset()) | _ran(legs, mode) for mode in {*plans, *(s.mode for s in legs)}
    }
    proposal = Proposal([], {}, [], [])
    indices = {mode: Index(ids) for mode, ids in modes.items()}
    for entry in entries:
        others = _update(entry, legs, modes, indices)
        if others == [entry]:
            proposal.kept.append(entry)
        else:
            proposal.changed[entry] = others
    remaining = proposal.kept + [
        replacement for others in proposal.changed.values() for replacement in others
    ]
    _add_new(proposal, remaining, legs, modes, until)
    proposal.notes += _notes(legs, today, remaining)
    return proposal


def _ran(legs: Iterable[Seen], mode: str) -> frozenset[str]:
    return frozenset(name for leg in legs if leg.mode == mode for name in leg.rows)


def _update(
    entry: Expectation, legs: Sequence[Seen], modes: Plans, indices: Mapping[str, Index]
) -> list[Expectation]:
    """The entries that replace an entry; itself alone if it is still right."""
    if not any(entry.speaks_of(mode, leg.torch) for leg in legs for mode in (entry.modes or modes)):
        return [entry]
    if entry.processor:
        return [entry]  # a pass here says nothing of other processors
    scope = [mode for mode in modes if not entry.modes or mode in entry.modes]
    matched = {mode: ids for mode in scope if (ids := indices[mode].matching(entry.id))}
    if not matched:
        return []
    legs = [leg for leg in legs if leg.mode in matched and entry.speaks_of(leg.mode, leg.torch)]
    states = {
        (name, mode): _together(leg.state(name, entry.kind.value) for leg in legs if leg.mode == mode)
        for mode, ids in matched.items()
        for name in ids
    }
    wrong = _wrong_modes(entry, matched, states)
    narrow = not is_literal(entry.id) and any(
        word == "passes" for (_, mode), word in states.items() if mode not in wrong
    )
    if not wrong and not narrow:
        return [_scoped(entry, legs, matched)]
    right = tuple(sorted(set(matched) - wrong))
    if not narrow:
        return [dataclasses.replace(entry, modes=right)] if right else []
    by_modes: dict[tuple[str, ...], list[str]] = {}
    for name in sorted({name for ids in matched.values() for name in ids}):
        kept = tuple(mode for mode in right if states.get((name, mode)) in ("fails", "unclear"))
        if kept:
            by_modes.setdefault(kept, []).append(name)
    replacements = []
    for kept, names in by_modes.items():
        universe = {name for mode in kept for name in modes[mode]}
        words = () if not entry.modes and all(kept == _exist([name], modes) for name in names) else kept
        replacements += [
            dataclasses.replace(entry, id=pattern, modes=words) for pattern in minimal(names, universe)
        ]
    return replacements


def _together(words: Iterable[str]) -> str:
    """The state of a result in one mode, seen in several builds: it fails if it fails in one."""
    states = list(words)
    for word in ("fails", "unclear", "other", "passes"):
        if word in states:
            return word
    return "unclear"


def _wrong_modes(
    entry: Expectation, matched: Mapping[str, list[str]], states: Mapping[tuple[str, str], str]
) -> set[str]:
    """The modes in which nothing fails as the entry says, and of which all is known."""
    wrong = {
        mode
        for mode, ids in matched.items()
        if all(states[(name, mode)] in ("passes", "other") for name in ids)
    }
    return wrong | {mode for mode in entry.modes if mode not in matched}


def _exist(names: Iterable[str], modes: Plans) -> tuple[str, ...]:
    """The modes in which any of some results exists."""
    ids_to_find = set(names)
    return tuple(sorted(mode for mode, ids in modes.items() if not ids_to_find.isdisjoint(ids)))


def _scoped(entry: Expectation, legs: Sequence[Seen], matched: Mapping[str, list[str]]) -> Expectation:
    """The entry, with a scope of versions if only some of those that ran need it."""
    inside: set[Minor] = set()
    outside: set[Minor] = set()
    for leg in legs:
        words = {leg.state(name, entry.kind.value) for name in matched[leg.mode]}
        if "fails" in words:
            inside.add(minor(leg.torch))
        elif "unclear" not in words:
            outside.add(minor(leg.torch))
    scope = between(inside, outside)
    return entry if scope is None or entry.torch else dataclasses.replace(entry, torch=str(scope))


def _add_new(
    proposal: Proposal,
    entries: Sequence[Expectation],
    legs: Sequence[Seen],
    modes: Plans,
    until: str,
) -> None:
    """Entries for what fails and is not covered, one per kind, by scope."""
    uncovered: dict[tuple[str, str], list[Seen]] = {}
    for leg in legs:
        active = [entry for entry in entries if entry.speaks_of(leg.mode, leg.torch)]
        covered: dict[str, set[str]] = {}
        index = Index(leg.rows)
        for entry in active:
            for name in index.matching(entry.id):
                covered.setdefault(name, set()).add(entry.kind.value)
        for name, row in leg.rows.items():
            if row["verdict"] in _EXCUSABLE:
                known = covered.get(name, set()) | set(leg.waived.get(name, ()))
                for kind in sorted(entry_states.kinds(row) - _NEVER - known):
                    uncovered.setdefault((name, kind), []).append(leg)
    groups: dict[tuple[str, tuple[str, ...], str], list[str]] = {}
    for (name, kind), failing in uncovered.items():
        words = tuple(sorted({leg.mode for leg in failing}))
        scope = _versions(name, kind, failing, legs)
        if scope is None:
            proposal.notes.append(
                f"{name} ({kind}) fails in some legs and not in others of the same mode, which no scope of "
                "torch versions separates; fix it"
            )
            continue
        words = () if words == _exist([name], modes) else words
        groups.setdefault((kind, words, scope), []).append(name)
    for (kind, words, scope), names in groups.items():
        universe = {name for mode in (words or modes) for name in modes[mode]}
        for pattern in minimal(names, universe):
            example = next(name for name in names if matches(pattern, name))
            proposal.new.append(
                Expectation(
                    id=pattern,
                    kind=Kind(kind),
                    reason=UNREAD,
                    link="",
                    until=until,
                    source="",
                    detail=_said(legs, example, kind),
                    modes=words,
                    torch=scope,
                )
            )


def _versions(name: str, kind: str, failing: Sequence[Seen], legs: Sequence[Seen]) -> str | None:
    """The scope of versions in which a result fails; empty for all, None if there is no such scope."""
    words = {leg.mode for leg in failing}
    clean = [leg for leg in legs if leg.mode in words and leg.state(name, kind) in ("passes", "other")]
    if not clean:
        return ""
    scope: TorchScope | None = between(
        {minor(leg.torch) for leg in failing}, {minor(leg.torch) for leg in clean}
    )
    return None if scope is None else str(scope)


def _said(legs: Iterable[Seen], name: str, kind: str) -> str:
    """The first line of what a result said about a kind of failure."""
    for leg in legs:
        row = leg.rows.get(name)
        for failure in () if row is None else row.get("failures", ()):
            if failure["kind"] == kind:
                return str(next(iter(failure["message"].splitlines()), ""))[:200]
    return ""


def _notes(legs: Iterable[Seen], today: datetime.date, entries: Sequence[Expectation]) -> Iterable[str]:
    """Notes on verdicts that cannot be expected, and on entries that have expired."""
    never: dict[str, list[str]] = {}
    for leg in legs:
        for name, row in leg.rows.items():
            verdict = Verdict(row["verdict"])
            if verdict in (Verdict.ERROR, Verdict.VACUOUS, Verdict.FLAKY):
                never.setdefault(verdict.value, []).append(name)
    for word, names in never.items():
        yield f"{len(names)} {word} cannot be expected, such as {names[0]}; find out why first"
    for leg in legs:
        for entry in entries:
            if entry.speaks_of(leg.mode, leg.torch) and entry.expired(today, leg.torch):
                yield f"{entry} expired on {entry.until}; look again, then give it a later day or remove it"
