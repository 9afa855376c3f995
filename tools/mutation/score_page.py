"""Write the score page: killed mutants by operator, level and family, and the mutants that were not
killed.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from conformance.model.vocabulary import LEVELS
from tools.mutation import (
    equivalent_mutants,
    hold_out,
    injectors,
    necessary_properties,
    reported_faults,
    score,
)
from tools.mutation.campaign import Fate, MutantResult
from tools.mutation.coverage_run import CoverageData
from tools.mutation.designated_properties import DESIGNATED
from tools.mutation.mutant import Mutant
from tools.mutation.necessary_properties import PropertyNecessity
from tools.mutation.score import Tally


@dataclasses.dataclass(frozen=True)
class PageScores:
    """The tallies (numbers of mutants by outcome) that the score page shows.

    Attributes:
        by_operator: tallies by mutation operator, with the total under ``all``.
        by_family: tallies by family of mutation points.
        by_operator_half: tallies of the held-out mutation operators, and of all other operators.
        by_parameter_half: tallies of the held-out parameters, and of all other parameters.
        called_by_core: tally of the points that the results of level core call.
        checked_by_core: tally of the points of the overloads that level core checks.
    """

    by_operator: Mapping[str, Tally]
    by_family: Mapping[str, Tally]
    by_operator_half: Mapping[str, Tally]
    by_parameter_half: Mapping[str, Tally]
    called_by_core: Tally
    checked_by_core: Tally

    @staticmethod
    def of(outcomes: Sequence[MutantResult], coverage_data: CoverageData) -> PageScores:
        """Return the tallies of a campaign."""
        return PageScores(
            score.count_outcomes(outcomes, coverage_data),
            score.count_outcomes(outcomes, coverage_data, score.family_of_point),
            score.count_outcomes(outcomes, coverage_data, score.operator_half),
            score.count_outcomes(outcomes, coverage_data, score.parameter_half),
            score.tally_at_points(outcomes, coverage_data, coverage_data.points_called_at("core")),
            score.tally_at_points(outcomes, coverage_data, coverage_data.points_of_checked_overloads("core")),
        )


def markdown(
    title: str,
    scores: PageScores,
    outcomes: Sequence[MutantResult],
    calls: Mapping[tuple[str, str], Set[str]],
    necessities: Iterable[PropertyNecessity] | None = None,
) -> str:
    """Return the page as Markdown.

    ``calls`` maps (point, kind of call) to the dtypes of these calls. ``necessities`` lists necessary
    properties, if the run has determined them.
    """
    lines = [
        "# Mutation score",
        "",
        f"{title}. [Mutation testing](mutation-testing.md) defines the terms. `python -m tools.mutation "
        "--page FILE` writes this page.",
        "",
        *_score_lines(scores),
        "",
        *_hold_out_lines(scores),
        "",
        *_equivalence_lines(outcomes),
        "",
        "## By mutation operator",
        "",
        "| operator | altered a call | full | core | survived | of these equivalent | not covered "
        "| designated property |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for operator in injectors.MUTATION_OPERATORS:
        tally = scores.by_operator.get(operator)
        if tally is not None:
            lines.append(f"| {operator} | {_tally_cells(tally)} | {DESIGNATED[operator]} |")
    lines += ["", "## By mutation point", "", *_point_family_lines(scores.by_family)]
    lines += ["", *_reported_fault_lines(outcomes), "", *_uncalled_point_lines(outcomes, calls)]
    lines += ["", *_survivor_lines(outcomes)]
    if necessities is not None:
        lines += ["", *necessary_properties.page_lines(necessities)]
    return "\n".join(lines) + "\n"


def _score_lines(scores: PageScores) -> Iterator[str]:
    """Yield the lines of the table with the mutation score.

    The first rows count all mutants that altered a call. Later rows exclude equivalent mutants.
    """
    everything = scores.by_operator["all"]
    low, high = everything.interval()
    drawn = everything.altered + everything.not_covered
    without_parity = everything.killed - everything.parity
    different = everything.altered - everything.equivalent
    yield "| | mutants | share |"
    yield "|---|---|---|"
    yield f"| drawn | {drawn} | |"
    yield (
        f"| not covered: no call triggered them | {everything.not_covered} | "
        f"{_percentage(everything.not_covered, drawn)} of the drawn |"
    )
    yield f"| altered a call | {everything.altered} | 100 % |"
    for level in LEVELS:
        interval = f" ({100 * low:.1f} to {100 * high:.1f})" if level == LEVELS[-1] else ""
        share = f"{_killed_share(everything, level)}{interval}"
        yield f"| killed at level {level} | {everything.killed_at(level)} | {share} |"
    for tally, where in (
        (scores.called_by_core, "points that its results call"),
        (scores.checked_by_core, "points of the overloads that it checks"),
    ):
        yield (
            f"| killed at level core, of the {tally.altered} at {where} | {tally.killed_at('core')} | "
            f"{_killed_share(tally, 'core')} |"
        )
    yield (
        f"| killed at level full without parity ([basis](basis.md)) | {without_parity} | "
        f"{_percentage(without_parity, everything.altered)} |"
    )
    yield f"| survived | {everything.survived} | {_percentage(everything.survived, everything.altered)} |"
    yield (
        f"| survived, but equivalent by a rule | {everything.equivalent} | "
        f"{_percentage(everything.equivalent, everything.altered)} |"
    )
    yield (
        f"| killed at level full, of the {different} that are not equivalent | {everything.killed} | "
        f"{_percentage(everything.killed, different)} |"
    )


def _hold_out_lines(scores: PageScores) -> Iterator[str]:
    yield "## Hold-out"
    yield ""
    yield "Killed at level full, of the mutants that altered a call, with the 95 % confidence interval:"
    yield ""
    yield "| half | mutants | killed | share | interval |"
    yield "|---|---|---|---|---|"
    for kind, halves in (
        ("mutation operators", scores.by_operator_half),
        ("parameters", scores.by_parameter_half),
    ):
        for half in (score.HELD_OUT, score.OTHERS):
            tally = halves.get(half, Tally())
            low, high = tally.interval()
            yield (
                f"| {kind}, {half} | {tally.altered} | {tally.killed} | "
                f"{_percentage(tally.killed, tally.altered)} | {100 * low:.1f} to {100 * high:.1f} % |"
            )


def _equivalence_lines(outcomes: Iterable[MutantResult]) -> Iterator[str]:
    counts = collections.Counter(
        equivalent_mutants.equivalence_reason(Mutant.parse(outcome.mutant))
        for outcome in outcomes
        if outcome.fate == Fate.SURVIVED.value
    )
    del counts[None]
    yield "## Equivalent survivors"
    yield ""
    yield "| rule | mutants |"
    yield "|---|---|"
    for reason, number in counts.most_common():
        yield f"| {reason} | {number} |"


def _tally_cells(tally: Tally) -> str:
    return (
        f"{tally.altered} | {_killed_share(tally, 'full')} | {_killed_share(tally, 'core')} | "
        f"{tally.survived} | {tally.equivalent} | {tally.not_covered}"
    )


def _point_family_lines(tallies_by_family: Mapping[str, Tally]) -> Iterator[str]:
    yield "| points | altered a call | full | core | survived | of these equivalent | not covered |"
    yield "|---|---|---|---|---|---|---|"
    for family, tally in sorted(tallies_by_family.items()):
        if family != "all":
            yield f"| {family} | {_tally_cells(tally)} |"


def _killed_share(tally: Tally, level: str) -> str:
    return _percentage(tally.killed_at(level), tally.altered)


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
    outcomes: Iterable[MutantResult], calls: Mapping[tuple[str, str], Set[str]]
) -> Iterator[str]:
    uncalled: dict[str, int] = {}
    for outcome in outcomes:
        point = Mutant.parse(outcome.mutant).point
        if (point, "called") not in calls and outcome.fate == Fate.NOT_COVERED.value:
            uncalled[point] = uncalled.get(point, 0) + 1
    yield "## Points that no result calls"
    yield ""
    yield f"{len(uncalled)} points with {sum(uncalled.values())} mutants, none of which is covered:"
    yield ""
    yield ", ".join(f"`{point}`" for point in sorted(uncalled)) or "none"


def _survivor_lines(outcomes: Iterable[MutantResult]) -> Iterator[str]:
    """Yield the survivors that are neither equivalent nor held out."""
    held_out = 0
    by_operator: dict[str, list[str]] = {}
    for outcome in outcomes:
        mutant = Mutant.parse(outcome.mutant)
        if outcome.fate != Fate.SURVIVED.value or equivalent_mutants.equivalence_reason(mutant) is not None:
            continue
        if hold_out.is_held_out(mutant):
            held_out += 1
            continue
        text = f"{mutant.point} {mutant.position} {mutant.value} @{mutant.dtype or 'any'}"
        by_operator.setdefault(mutant.operator, []).append(f"`{text}`")
    yield "## Survivors"
    yield ""
    yield (
        "Mutants that altered a call and are not equivalent, by operator: point, position, value and dtype. "
        f"{held_out} held-out survivors are not listed."
    )
    for operator, names in sorted(by_operator.items()):
        yield ""
        yield f"**{operator}** ({DESIGNATED[operator]}): {', '.join(sorted(names))}"
