"""The page of the score: killed mutants by kind, level and sort of place, and those that no result saw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from conformance.model.vocabulary import LEVELS
from tools.mutation import equivalent_mutants, injectors, necessary_properties, reported_faults
from tools.mutation.campaign import Fate, MutantResult
from tools.mutation.designated_properties import DESIGNATED
from tools.mutation.mutant import Fault
from tools.mutation.necessary_properties import Necessity
from tools.mutation.score import Tally


def markdown(
    title: str,
    tallies: Mapping[str, Tally],
    outcomes: Iterable[MutantResult],
    calls: Mapping[tuple[str, str], Set[str]],
    core: Tally,
    taken: Tally,
    places: Mapping[str, Tally],
    standings: Iterable[Necessity] | None = None,
) -> str:
    """Return the page; ``calls`` is what was learned of each place, ``core`` counts those that core calls,
    and ``taken`` those of the overloads that core takes; ``places`` are tallies by sort of place, and
    ``standings`` those of the properties, if the run asked for them.
    """
    everything = tallies["all"]
    lines = [
        "# Score of detection power",
        "",
        f"{title}. The words are those of [detection power](power.md); `python -m tools.mutation --page "
        "FILE` writes this page.",
        "",
        "| | mutants | share |",
        "|---|---|---|",
        f"| all | {everything.counted + everything.excused} | |",
        f"| excused by a rule | {everything.excused} | |",
        f"| counted | {everything.counted} | 100 % |",
        *(
            f"| killed at level {level} | {everything.killed_at(level)} | {_share(everything, level)} |"
            for level in LEVELS
        ),
        f"| killed at level core, of the {core.counted} counted at places that it calls | "
        f"{core.killed_at('core')} | {_share(core, 'core')} |",
        f"| the same, of the {taken.counted} at places of the overloads that it takes | "
        f"{taken.killed_at('core')} | {_share(taken, 'core')} |",
        f"| survived | {everything.survived} | {_percent(everything.survived, everything.counted)} |",
        f"| asleep | {everything.asleep} | {_percent(everything.asleep, everything.counted)} |",
        "",
        "## By kind",
        "",
        "| kind | counted | full | core | survived | asleep | excused | property that is there to see it |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind in injectors.KINDS:
        tally = tallies.get(kind)
        if tally is not None:
            lines.append(
                f"| {kind} | {tally.counted} | {_share(tally, 'full')} | {_share(tally, 'core')} | "
                f"{tally.survived} | {tally.asleep} | {tally.excused} | {DESIGNATED[kind]} |"
            )
    lines += ["", "## By sort of place", "", *_of_places(places)]
    outcomes = list(outcomes)
    left = [outcome for outcome in outcomes if outcome.fate != Fate.KILLED.value]
    lines += ["", *_reported(outcomes), "", *_places(left, calls)]
    for fate in _LEFT:
        lines += ["", *_unseen(left, calls, fate)]
    if standings is not None:
        lines += ["", *necessary_properties.page(standings)]
    return "\n".join(lines) + "\n"


def _of_places(places: Mapping[str, Tally]) -> Iterator[str]:
    yield "| place | counted | full | core | survived | asleep | excused |"
    yield "|---|---|---|---|---|---|---|"
    for word, tally in sorted(places.items()):
        if word != "all":
            yield (
                f"| {word} | {tally.counted} | {_share(tally, 'full')} | {_share(tally, 'core')} | "
                f"{tally.survived} | {tally.asleep} | {tally.excused} |"
            )


def _share(tally: Tally, level: str) -> str:
    return _percent(tally.killed_at(level), tally.counted)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


def _reported(outcomes: Iterable[MutantResult]) -> Iterator[str]:
    tally = reported_faults.count(outcomes)
    expressible = len(tally.killed) + len(tally.unseen)
    yield "## Faults of real backends that were reported in public"
    yield ""
    yield (
        f"{len(tally.killed)} of {expressible} that can be planted are killed; "
        f"{len(tally.not_expressible)} cannot be planted."
    )
    yield ""
    yield "| fault | mutants | |"
    yield "|---|---|---|"
    for rows, word in ((tally.unseen, "**not killed**"), (tally.killed, "killed")):
        for row in rows:
            names = "<br>".join(f"`{fault}`" for fault in row.planted)
            scale = f"; scaled: {row.scale}" if row.scale else ""
            yield f"| [{row.id}]({row.report}) | {names} | {word}{scale} |"
    for row in tally.not_expressible:
        why = row.not_expressible or _why_absent(row.planted[0])
        yield f"| [{row.id}]({row.report}) | | {why} |"


def _why_absent(fault: Fault) -> str:
    if fault.is_of_kernel:
        return "the device has no such kernel"
    return f"planted in another mode: `{fault}`"


def _places(left: Sequence[MutantResult], calls: Mapping[tuple[str, str], Set[str]]) -> Iterator[str]:
    uncalled: dict[str, int] = {}
    for outcome in left:
        place = Fault.parse(outcome.mutant).place
        if (place, "called") not in calls:
            uncalled[place] = uncalled.get(place, 0) + 1
    yield "## Places that no result calls"
    yield ""
    yield f"{len(uncalled)} places with {sum(uncalled.values())} mutants, all asleep:"
    yield ""
    yield ", ".join(f"`{place}`" for place in sorted(uncalled)) or "none"


#: By fate, its heading and what it says of the mutants.
_LEFT = {
    Fate.SURVIVED: ("Survivors", "Mutants that changed what a call did"),
    Fate.ASLEEP: ("Asleep", "Mutants whose condition no call met"),
}


def _unseen(
    left: Sequence[MutantResult], calls: Mapping[tuple[str, str], Set[str]], fate: Fate
) -> Iterator[str]:
    heading, words = _LEFT[fate]
    yield f"## {heading}"
    yield ""
    yield f"{words}, by kind: place, position, value and dtype."
    by_kind: dict[str, list[str]] = {}
    for outcome in left:
        fault = Fault.parse(outcome.mutant)
        excused = fault.is_of_kernel and equivalent_mutants.reason(fault, outcome.fate, calls) is not None
        if outcome.fate == fate.value and not excused:
            mutant = f"{fault.place} {fault.position} {fault.value} @{fault.dtype or 'any'}"
            by_kind.setdefault(fault.kind, []).append(f"`{mutant}`")
    for kind, names in sorted(by_kind.items()):
        yield ""
        yield f"**{kind}** ({DESIGNATED[kind]}): {', '.join(sorted(names))}"
