"""``conformance diff``: the changes from one run to another."""

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

#: Results that are named one by one if they are not grouped by cause.
_NAMED = 5


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "diff",
        help="compare two runs: regressed, changed failures, fixed, new, vanished",
        description=(
            "Compare two runs leg by leg. The exit code is 1 if a result regressed (it is further from a "
            "pass than before, even if that is expected or declared by now), if one that failed fails in "
            "another way (other kinds, samples or messages), or if one vanished although suite, torch, "
            "level, shard, selection and samples are the same."
        ),
    )
    parser.add_argument("old", type=Path, metavar="OLD", help="output folder of the run before")
    parser.add_argument("new", type=Path, metavar="NEW", help="output folder of the run after")
    parser.add_argument("--json", action="store_true", help="print every result that changed, as JSON")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Print the comparison; exit code 1 on regressions."""
    report = diff.compare(output_files.read(arguments.old), output_files.read(arguments.new))
    if arguments.json:
        print(json.dumps(diff.to_json(report), indent=1))
    else:
        for line in lines(report):
            print(line)
    return int(report.worse)


def lines(report: diff.Report) -> Iterator[str]:
    """Write a comparison in lines for a person: numbers first, then the regressions by cause."""
    for pair in report.pairs:
        yield from _pair(pair)
    for note in report.notes:
        yield f"note: {note}"
    yield "worse: exit 1" if report.worse else "no regressions: exit 0"


def _pair(pair: diff.Difference) -> Iterator[str]:
    failing = sum(_fails(change) for change in pair.added)
    numbers = {
        "regressed": str(len(pair.regressed)),
        "failing in another way": str(len(pair.changed)),
        "fixed": str(len(pair.fixed)),
        "still failing": str(len(pair.still_failing)),
        "excused": str(len(pair.excused)),
        f"new ({failing} failing)" if failing else "new": str(len(pair.added)),
        "vanished": str(len(pair.vanished)),
        "unchanged": str(pair.unchanged),
    }
    words = ", ".join(f"{number} {word}" for word, number in numbers.items() if number != "0")
    yield f"{summary.title(pair.new)}: {words or 'no results'}"
    for note in pair.notes:
        yield f"  note: {note}"
    yield from _grouped("regressed", pair.regressed, pair.new)
    if pair.changed:
        yield "  failing in another way:"
        for change in pair.changed[:_NAMED]:
            yield f"    {change.id} ({change.words()}): {change.how}"[:220]
        yield from _more(pair.changed)
    if pair.vanished:
        why = f", which do not count: {pair.excuse}" if pair.excuse else ""
        yield f"  vanished{why}:"
        yield from _names(pair.vanished)
    yield from _grouped("new and failing", [change for change in pair.added if _fails(change)], pair.new)
    for word, changes in (("fixed", pair.fixed), ("excused", pair.excused)):
        if changes:
            yield f"  {word}:"
            yield from _names(changes)


def _fails(change: diff.ResultChange) -> bool:
    return diff.fails(change.new)


def _grouped(word: str, changes: list[diff.ResultChange], leg: Leg) -> Iterator[str]:
    """Group results by cause, with the verdicts before and after."""
    if not changes:
        return
    yield f"  {word}, by cause (largest first):"
    before = {change.row["id"]: change for change in changes}
    causes = groups.grouped(((0, change.row) for change in changes), [leg])
    for group in causes[: summary.SHOWN]:
        _, row = group.example
        change = before[row["id"]]
        kind, message = groups.said(row)
        count = "1 result" if group.count == 1 else f"{group.count} results"
        yield f"    {group.name()}: {count}, such as {row['id']} ({change.words()})"
        yield f"      {kind}: {next(iter(message.splitlines()), '')}"[:220]
        yield f"      {summary.repeat(row['id'], summary.target_word(leg), leg)}"
    hidden = causes[summary.SHOWN :]
    if hidden:
        yield f"    and {sum(group.count for group in hidden)} more of {len(hidden)} other causes; see --json"


def _names(changes: list[diff.ResultChange]) -> Iterator[str]:
    for change in changes[:_NAMED]:
        yield f"    {change.id} ({change.words()})"
    yield from _more(changes)


def _more(changes: list[diff.ResultChange]) -> Iterator[str]:
    if len(changes) > _NAMED:
        yield f"    and {len(changes) - _NAMED} more; see --json"
