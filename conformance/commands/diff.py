"""``conformance diff``: compare the results of two runs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conformance.model.records import Leg
from conformance.report import causes as groups
from conformance.report import output_files, summary
from conformance.results import diff

#: The maximum number of displayed results in a list that is not grouped by cause.
_NAMED = 5


def add_parser(commands: Any) -> None:
    """Add the command ``diff`` to the command line."""
    parser = commands.add_parser(
        "diff",
        help="compare two runs: regressed, changed failures, fixed, new, vanished",
        description=(
            "Compare two runs leg by leg. The exit code is 1 if a result regressed (its verdict is worse "
            "than before, even if the failure is now expected or declared), if a failing result fails "
            "differently (in kinds, samples or messages), or if a result vanished although suite, torch, "
            "level, shard, selection and samples are equal. The exit code is 3 if nothing is worse, but "
            "planned results are missing in OLD or NEW: then the comparison is incomplete."
        ),
    )
    parser.add_argument("old", type=Path, metavar="OLD", help="output folder of the earlier run")
    parser.add_argument("new", type=Path, metavar="NEW", help="output folder of the later run")
    parser.add_argument("--json", action="store_true", help="print every result that changed, as JSON")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Print the comparison. Return 1 on regressions, and 3 if results are missing in one of the runs."""
    report = diff.compare_runs(output_files.read_legs(arguments.old), output_files.read_legs(arguments.new))
    if arguments.json:
        print(json.dumps(diff.to_json(report), indent=1))
    else:
        for line in comparison_lines(report):
            print(line)
    return report.exit_code


def comparison_lines(report: diff.RunComparison) -> Iterator[str]:
    """Yield the lines of a comparison: the counts of each leg, then the changed results."""
    for pair in report.pairs:
        yield from _leg_lines(pair)
    for note in report.notes:
        yield f"note: {note}"
    if report.has_worse_results:
        yield "worse: exit 1"
    elif any(report.missing_counts):
        old, new = report.missing_counts
        yield f"incomplete: OLD lacks {old:,} of its planned results, NEW lacks {new:,}: exit 3"
    else:
        yield "no regressions: exit 0"


def _leg_lines(pair: diff.LegComparison) -> Iterator[str]:
    failing = sum(_is_failure_in_new_run(change) for change in pair.added)
    numbers = {
        "regressed": str(len(pair.regressed)),
        "failing in another way": str(len(pair.changed)),
        "fixed": str(len(pair.fixed)),
        "still failing": str(len(pair.still_failing)),
        "excused": str(len(pair.excused)),
        f"new ({failing} failing)" if failing else "new": str(len(pair.added)),
        "vanished": str(len(pair.vanished)),
        "newly differing from the CPU": str(len(pair.parity)),
        "unchanged": str(pair.unchanged),
    }
    counts_text = ", ".join(f"{number} {label}" for label, number in numbers.items() if number != "0")
    yield f"{summary.leg_title(pair.new)}: {counts_text or 'no results'}"
    for note in pair.notes:
        yield f"  note: {note}"
    yield from _cause_lines("regressed", pair.regressed, pair.new)
    if pair.changed:
        yield "  failing in another way:"
        for change in pair.changed[:_NAMED]:
            yield f"    {change.id} ({change.verdicts()}): {change.how}"[:220]
        yield from _hidden_count_line(pair.changed)
    if pair.vanished:
        why = f", not counted as regressions because {pair.excuse}" if pair.excuse else ""
        yield f"  vanished{why}:"
        yield from _id_lines(pair.vanished)
    yield from _cause_lines(
        "new and failing", [change for change in pair.added if _is_failure_in_new_run(change)], pair.new
    )
    changes_by_label = {
        "fixed": pair.fixed,
        "excused": pair.excused,
        "newly differing from the CPU, which no page forbids": pair.parity,
    }
    for label, changes in changes_by_label.items():
        if changes:
            yield f"  {label}:"
            yield from _id_lines(changes)


def _is_failure_in_new_run(change: diff.ResultChange) -> bool:
    return diff.is_failure(change.new)


def _cause_lines(heading: str, changes: list[diff.ResultChange], leg: Leg) -> Iterator[str]:
    """Yield the lines of changed results grouped by cause, with the verdicts before and after."""
    if not changes:
        return
    yield f"  {heading}, by cause (largest first):"
    before = {change.row["id"]: change for change in changes}
    causes = groups.group_by_cause(((0, change.row) for change in changes), [leg])
    for group in causes[: summary.SHOWN]:
        _, row = group.example
        change = before[row["id"]]
        kind, message = groups.kind_and_message(row)
        count = "1 result" if group.count == 1 else f"{group.count} results"
        yield f"    {group.name()}: {count}, such as {row['id']} ({change.verdicts()})"
        yield f"      {kind}: {next(iter(message.splitlines()), '')}"[:220]
        yield f"      {summary.repro_command(row['id'], summary.target_argument(leg), leg)}"
    hidden = causes[summary.SHOWN :]
    if hidden:
        yield (
            f"    and {sum(group.count for group in hidden)} results of {len(hidden)} other causes; "
            "see --json"
        )


def _id_lines(changes: list[diff.ResultChange]) -> Iterator[str]:
    for change in changes[:_NAMED]:
        yield f"    {change.id} ({change.verdicts()})"
    yield from _hidden_count_line(changes)


def _hidden_count_line(changes: list[diff.ResultChange]) -> Iterator[str]:
    if len(changes) > _NAMED:
        yield f"    and {len(changes) - _NAMED} more; see --json"
