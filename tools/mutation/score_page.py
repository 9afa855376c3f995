"""Write the score page: killed mutants by operator, level and family, and the mutants that were not
killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from conformance.model.vocabulary import LEVELS
from tools.mutation import equivalent_mutants, injectors, necessary_properties, reported_faults
from tools.mutation.campaign import Fate, MutantResult
from tools.mutation.designated_properties import DESIGNATED
from tools.mutation.mutant import Mutant
from tools.mutation.necessary_properties import Necessity
from tools.mutation.score import Tally


def markdown(
    title: str,
    tallies: Mapping[str, Tally],
    outcomes: Iterable[MutantResult],
    calls: Mapping[tuple[str, str], Set[str]],
    core: Tally,
    checked_overloads: Tally,
    tallies_by_family: Mapping[str, Tally],
    necessities: Iterable[Necessity] | None = None,
) -> str:
    """Return the page as Markdown.

    ``calls`` is the coverage of each point. ``core`` counts the mutants at points that level core calls, and
    ``checked_overloads`` the mutants at points of the overloads that level core checks. ``tallies_by_family``
    holds tallies by family of points. ``necessities`` holds the necessity of properties, if the run has
    determined it.
    """
    everything = tallies["all"]
    without_parity = everything.killed - everything.parity
    lines = [
        "# Mutation score",
        "",
        f"{title}. [Mutation testing](mutation-testing.md) defines the terms. `python -m tools.mutation "
        "--page FILE` writes this page.",
        "",
        "| | mutants | share |",
        "|---|---|---|",
        f"| all | {everything.counted + everything.excused} | |",
        f"| equivalent, excluded by a rule | {everything.excused} | |",
        f"| counted | {everything.counted} | 100 % |",
        *(
            f"| killed at level {level} | {everything.killed_at(level)} | "
            f"{_killed_share(everything, level)} |"
            for level in LEVELS
        ),
        f"| killed at level core, of the {core.counted} counted at points that its results call | "
        f"{core.killed_at('core')} | {_killed_share(core, 'core')} |",
        f"| killed at level core, of the {checked_overloads.counted} counted at points of the overloads that "
        f"it checks | {checked_overloads.killed_at('core')} | {_killed_share(checked_overloads, 'core')} |",
        f"| killed at level full without parity ([basis](basis.md)) | {without_parity} | "
        f"{_percentage(without_parity, everything.counted)} |",
        f"| survived | {everything.survived} | {_percentage(everything.survived, everything.counted)} |",
        f"| not covered | {everything.asleep} | {_percentage(everything.asleep, everything.counted)} |",
        "",
        "## By mutation operator",
        "",
        "| operator | counted | full | core | survived | not covered | equivalent | designated property |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for operator in injectors.MUTATION_OPERATORS:
        tally = tallies.get(operator)
        if tally is not None:
            lines.append(
                f"| {operator} | {tally.counted} | {_killed_share(tally, 'full')} | "
                f"{_killed_share(tally, 'core')} | {tally.survived} | {tally.asleep} | {tally.excused} | "
                f"{DESIGNATED[operator]} |"
            )
    lines += ["", "## By mutation point", "", *_point_family_lines(tallies_by_family)]
    outcomes = list(outcomes)
    not_killed = [outcome for outcome in outcomes if outcome.fate != Fate.KILLED.value]
    lines += ["", *_reported_fault_lines(outcomes), "", *_uncalled_point_lines(not_killed, calls)]
    for fate in _NOT_KILLED:
        lines += ["", *_not_killed_lines(not_killed, calls, fate)]
    if necessities is not None:
        lines += ["", *necessary_properties.page_lines(necessities)]
    return "\n".join(lines) + "\n"


def _point_family_lines(tallies_by_family: Mapping[str, Tally]) -> Iterator[str]:
    yield "| points | counted | full | core | survived | not covered | equivalent |"
    yield "|---|---|---|---|---|---|---|"
    for family, tally in sorted(tallies_by_family.items()):
        if family != "all":
            yield (
                f"| {family} | {tally.counted} | {_killed_share(tally, 'full')} | "
                f"{_killed_share(tally, 'core')} | {tally.survived} | {tally.asleep} | {tally.excused} |"
            )


def _killed_share(tally: Tally, level: str) -> str:
    return _percentage(tally.killed_at(level), tally.counted)


def _percentage(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


def _reported_fault_lines(outcomes: Iterable[MutantResult]) -> Iterator[str]:
    tally = reported_faults.count_reported_faults(outcomes)
    expressible = len(tally.killed) + len(tally.not_killed)
    yield "## Reported faults of real backends"
    yield ""
    yield (
        f"{len(tally.killed)} of {expressible} that mutants can express are killed; "
        f"{len(tally.not_expressible)} cannot be expressed."
    )
    yield ""
    yield "| fault | mutants | |"
    yield "|---|---|---|"
    for rows, state in ((tally.not_killed, "**not killed**"), (tally.killed, "killed")):
        for row in rows:
            names = "<br>".join(f"`{mutant}`" for mutant in row.mutants)
            scale = f"; scaled: {row.scale}" if row.scale else ""
            yield f"| [{row.id}]({row.report}) | {names} | {state}{scale} |"
    for row in tally.not_expressible:
        reason = row.not_expressible or _reason_of_absence(row.mutants[0])
        yield f"| [{row.id}]({row.report}) | | {reason} |"


def _reason_of_absence(mutant: Mutant) -> str:
    if mutant.is_of_kernel:
        return "the device has no such kernel"
    return f"injected in another mode: `{mutant}`"


def _uncalled_point_lines(
    not_killed: Sequence[MutantResult], calls: Mapping[tuple[str, str], Set[str]]
) -> Iterator[str]:
    uncalled: dict[str, int] = {}
    for outcome in not_killed:
        point = Mutant.parse(outcome.mutant).point
        if (point, "called") not in calls:
            uncalled[point] = uncalled.get(point, 0) + 1
    yield "## Points that no result calls"
    yield ""
    yield f"{len(uncalled)} points with {sum(uncalled.values())} mutants, none of which is covered:"
    yield ""
    yield ", ".join(f"`{point}`" for point in sorted(uncalled)) or "none"


#: The heading and the description of each fate.
_NOT_KILLED = {
    Fate.SURVIVED: ("Survivors", "Mutants that altered a call"),
    Fate.ASLEEP: ("Not covered", "Mutants that no call triggered"),
}


def _not_killed_lines(
    not_killed: Sequence[MutantResult], calls: Mapping[tuple[str, str], Set[str]], fate: Fate
) -> Iterator[str]:
    heading, description = _NOT_KILLED[fate]
    yield f"## {heading}"
    yield ""
    yield f"{description}, by operator: point, position, value and dtype."
    by_operator: dict[str, list[str]] = {}
    for outcome in not_killed:
        mutant = Mutant.parse(outcome.mutant)
        excused = (
            mutant.is_of_kernel
            and equivalent_mutants.equivalence_reason(mutant, outcome.fate, calls) is not None
        )
        if outcome.fate == fate.value and not excused:
            text = f"{mutant.point} {mutant.position} {mutant.value} @{mutant.dtype or 'any'}"
            by_operator.setdefault(mutant.operator, []).append(f"`{text}`")
    for operator, names in sorted(by_operator.items()):
        yield ""
        yield f"**{operator}** ({DESIGNATED[operator]}): {', '.join(sorted(names))}"
