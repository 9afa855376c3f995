"""The last words of a run: totals of each leg, what was unexpected and how to repeat it, files."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from conformance.model.records import Document, Leg, ResultRow
from conformance.model.verdicts import Verdict
from conformance.report import causes as groups
from conformance.report.durations import duration
from conformance.results import merge, run_folder
from conformance.target import file as target_file

#: Marks of a target file, with the words that stand beside the target's name.
MARKS = {"simulated": "simulated", "untested": "untested target file"}
#: Causes of unexpected results that are shown one by one.
SHOWN = 10


def summary_lines(results: Document, *, folder: Path, target: str | None = None) -> Iterator[str]:
    """The summary of a results document, line by line.

    ``target`` is what the user gave as ``--target``; without it the commands name what each leg names.
    """
    legs = results["legs"]
    for leg in legs:
        yield from _leg(leg)
    yield from _unexpected(legs, target)
    state = {0: "as expected", 1: "unexpected results", 2: "not run", 3: "incomplete"}[results["exit"]]
    absent = "; ".join(dict.fromkeys(filter(None, map(merge.absent, legs))))
    yield f"{state}: {absent}; exit {results['exit']}" if absent else f"{state}: exit {results['exit']}"
    for part in run_folder.to_resume(folder, legs):
        yield f"go on with: {shlex.join(['conformance', 'run', '--resume', str(part)])}"
    yield f"files: {folder / 'results.json'}, {folder / 'report.html'}, {folder / 'junit.xml'}"


def leg_title(leg: Leg) -> str:
    """Target, mode and build of a leg."""
    target = leg["target"]
    mark_texts = [name for mark, name in MARKS.items() if target.get(mark)]
    marks = f" ({', '.join(mark_texts)})" if mark_texts else ""
    shard = f", shard {leg['shard']}" if leg.get("shard", "1/1") != "1/1" else ""
    return f"{target['name']}{marks}, {leg['mode']}, torch {leg['torch']}{shard}"


def _leg(leg: Leg) -> Iterator[str]:
    totals = ", ".join(f"{count} {verdict}" for verdict, count in reversed(leg["totals"].items()))
    state = {2: " (not run)", 3: " (incomplete)"}.get(leg["exit"], "")
    took = f" in {len(leg['cases'])} cases, {duration(leg['seconds'])}" if leg["cases"] else ""
    yield f"{leg_title(leg)}{state}: {totals or 'no results'}{took}"
    if leg["missing"]["count"]:
        missing = leg["missing"]
        yield f"  {missing['count']} of {leg['planned']} results are missing, first {missing['first'][0]}"
    for problem in leg["problems"][:SHOWN]:
        yield f"  problem: {problem}"
    if len(leg["problems"]) > SHOWN:
        yield f"  and {len(leg['problems']) - SHOWN} more problems; report.html has them all"
    for difference in leg["oracle"]["differences"][:SHOWN]:
        yield f"  oracle: {difference}"


def _unexpected(legs: list[Leg], target: str | None) -> Iterator[str]:
    """Unexpected results by cause, the largest group first, so that one fault is shown once."""
    causes = groups.causes_of(legs)
    if not causes:
        return
    yield f"{sum(group.count for group in causes)} unexpected, by cause (largest first):"
    yield from cause_lines(causes, legs, target)


def cause_lines(
    causes: list[groups.Cause], legs: list[Leg], target: str | None = None, *, limit: int = SHOWN
) -> Iterator[str]:
    """Groups of results, each with the result to look at first and the command that repeats it."""
    for group in causes[:limit]:
        where = ""
        if len(legs) > 1:
            where = " in " + ", ".join(_column(legs, number) for number in group.legs)
        yield f"  {group.name()}: {group.counts()}{where}"
        number, row = group.example
        yield f"    {row['id']}{_kind(row)} {_first(row)}"[:220]
        if pattern := group.pattern():
            yield f"    {pattern}"
        yield f"    {repro_command(row['id'], target or target_argument(legs[number]), legs[number])}"
    hidden = causes[limit:]
    if hidden:
        rest = sum(group.count for group in hidden)
        yield f"  and {rest} more of {len(hidden)} other causes; report.html has them all"


def _column(legs: list[Leg], number: int) -> str:
    """The name of a leg among others: its mode alone if no other leg has that mode."""
    mode = legs[number]["mode"]
    alone = sum(leg["mode"] == mode for leg in legs) == 1
    return str(mode if alone else f"{mode} on {legs[number]['build']}")


def _kind(row: ResultRow) -> str:
    return f" ({row['failures'][0]['kind']})" if row.get("failures") else ""


def _first(row: ResultRow) -> str:
    """The first line of what a row says."""
    if row["verdict"] == Verdict.XPASS.value:
        return str((row.get("notes") or [""])[-1])
    message = row["failures"][0]["message"] if row.get("failures") else ""
    return next(iter(message.splitlines()), "")


def target_argument(leg: Leg) -> str:
    """The argument of ``--target``: the name of one of the suite's targets, else that of its file."""
    name, file = leg["target"]["name"], leg["target"]["file"]
    return str(name if name in target_file.known_targets() and file == f"{name}.toml" else file)


def repro_command(result_id: str, target: str, leg: Leg) -> str:
    """The command that repeats one result of a leg."""
    command = ["conformance", "repro", result_id, "--target", target, "--mode", leg["mode"]]
    if leg["samples"] != "default":
        command += ["--samples", leg["samples"]]
    return shlex.join(command)
