"""The summary at the end of a run: totals of each leg, causes with repro commands, and written files."""

from __future__ import annotations

import collections
import shlex
from collections.abc import Iterator
from pathlib import Path

from conformance.model import seeds
from conformance.model.records import Document, Leg, ResultRow
from conformance.model.verdicts import ResultId, Verdict
from conformance.plan.levels import manifest
from conformance.report import causes as groups
from conformance.report.families import operator_family
from conformance.report.format_duration import format_duration
from conformance.results import merge, run_folder
from conformance.target import file as target_file

#: Boolean keys of a target record, with the text that is printed after the target's name if the key is true.
MARKS = {"simulated": "simulated", "untested": "untested target file"}
#: The maximum number of displayed causes.
SHOWN = 10


def summary_lines(results: Document, *, folder: Path, target: str | None = None) -> Iterator[str]:
    """Yield the lines of the summary of a results document.

    ``target`` is the argument of ``--target`` for the printed commands. By default each leg's own target is
    used.
    """
    legs = results["legs"]
    for leg in legs:
        yield from _leg_lines(leg)
    yield from _unexpected_lines(legs, target)
    yield from _parity_lines(legs)
    state = {0: "as expected", 1: "unexpected results", 2: "not run", 3: "incomplete"}[results["exit"]]
    absent = "; ".join(dict.fromkeys(filter(None, map(merge.missing_shards, legs))))
    yield f"{state}: {absent}; exit {results['exit']}" if absent else f"{state}: exit {results['exit']}"
    for part in run_folder.resumable_folders(folder, legs):
        yield f"resume with: {shlex.join(['conformance', 'run', '--resume', str(part)])}"
    yield f"files: {folder / 'results.json'}, {folder / 'report.html'}, {folder / 'junit.xml'}"


def leg_title(leg: Leg) -> str:
    """Return the target, mode, build and shard of a leg as text."""
    target = leg["target"]
    mark_texts = [name for mark, name in MARKS.items() if target.get(mark)]
    marks = f" ({', '.join(mark_texts)})" if mark_texts else ""
    shard = f", shard {leg['shard']}" if leg.get("shard", "1/1") != "1/1" else ""
    seed = leg.get("seed", seeds.RELEASE_SEED)
    seed_text = f", seed {seed}" if seed != seeds.RELEASE_SEED else ""
    return f"{target['name']}{marks}, {leg['mode']}, torch {leg['torch']}{shard}{seed_text}"


def _leg_lines(leg: Leg) -> Iterator[str]:
    totals = ", ".join(f"{count} {verdict}" for verdict, count in reversed(leg["totals"].items()))
    state = {2: " (not run)", 3: " (incomplete)"}.get(leg["exit"], "")
    took = f" in {len(leg['cases'])} cases, {format_duration(leg['seconds'])}" if leg["cases"] else ""
    yield f"{leg_title(leg)}{state}: {totals or 'no results'}{took}"
    if (judged_by := manifest.version_for_expectations(leg["torch"])) != leg["torch"]:
        yield (
            f"  torch {leg['torch']} is not a release that the suite knows: the requirements of torch "
            f"{judged_by} apply, and no level can be certified"
        )
    if leg["missing"]["count"]:
        missing = leg["missing"]
        yield f"  {missing['count']} of {leg['planned']} results are missing, first {missing['first'][0]}"
    for problem in leg["problems"][:SHOWN]:
        yield f"  problem: {problem}"
    if len(leg["problems"]) > SHOWN:
        yield f"  and {len(leg['problems']) - SHOWN} more problems; report.html has them all"
    for difference in leg["oracle"]["differences"][:SHOWN]:
        yield f"  oracle: {difference}"


def _unexpected_lines(legs: list[Leg], target: str | None) -> Iterator[str]:
    """Yield the lines of the unexpected results by cause, the largest first."""
    causes = groups.causes_of(legs)
    if not causes:
        return
    blocked = sum(group.blocked_count for group in causes)
    more = f"; {blocked} of them follow from a more basic failure" if blocked else ""
    yield f"{sum(group.count for group in causes)} unexpected, by cause (largest first){more}:"
    yield from cause_lines(causes, legs, target)


def parity_by_family(legs: list[Leg]) -> dict[str, int]:
    """Return the number of results with verdict ``parity`` by family, the largest first."""
    counts = collections.Counter(
        operator_family(ResultId.parse(row["id"]).case.subject)
        for leg in legs
        for row in leg["results"]
        if row["verdict"] == Verdict.PARITY.value
    )
    return dict(counts.most_common())


def _parity_lines(legs: list[Leg]) -> Iterator[str]:
    """Yield a line about the results with verdict ``parity``, if there are any."""
    families = parity_by_family(legs)
    if not families:
        return
    largest_families = ", ".join(f"{family} {count}" for family, count in list(families.items())[:SHOWN])
    more = f" and {len(families) - SHOWN} more families" if len(families) > SHOWN else ""
    yield (
        f"{sum(families.values())} differ from the CPU, and no documentation page says which is right "
        f"(verdict parity; --parity strict makes them fail), by family: {largest_families}{more}"
    )


def cause_lines(
    causes: list[groups.Cause], legs: list[Leg], target: str | None = None, *, limit: int = SHOWN
) -> Iterator[str]:
    """Yield the lines of each cause: its counts, its example and the command that reruns the example."""
    for group in causes[:limit]:
        where = ""
        if len(legs) > 1:
            where = " in " + ", ".join(_leg_label(legs, number) for number in group.leg_indexes)
        yield f"  {group.name()}: {group.verdict_counts_text()}{where}"
        number, row = group.example
        yield f"    {row['id']}{_kind_text(row)} {_first_message_line(row)}"[:220]
        if pattern := group.sample_pattern_sentence():
            yield f"    {pattern}"
        yield f"    {repro_command(row['id'], target or target_argument(legs[number]), legs[number])}"
    hidden = causes[limit:]
    if hidden:
        rest = sum(group.count for group in hidden)
        yield f"  and {rest} more, of {len(hidden)} other causes; report.html lists all causes"


def _leg_label(legs: list[Leg], number: int) -> str:
    """Return the mode of a leg, and its build if several legs have this mode."""
    mode = legs[number]["mode"]
    alone = sum(leg["mode"] == mode for leg in legs) == 1
    return str(mode if alone else f"{mode} on {legs[number]['build']}")


def _kind_text(row: ResultRow) -> str:
    return f" ({row['failures'][0]['kind']})" if row.get("failures") else ""


def _first_message_line(row: ResultRow) -> str:
    """Return the first line of a row's first message. For ``xpass`` it is the last note."""
    if row["verdict"] == Verdict.XPASS.value:
        return str((row.get("notes") or [""])[-1])
    message = row["failures"][0]["message"] if row.get("failures") else ""
    return next(iter(message.splitlines()), "")


def target_argument(leg: Leg) -> str:
    """Return the argument of ``--target`` for a leg: the name of a known target, else the target file."""
    name, file = leg["target"]["name"], leg["target"]["file"]
    return str(name if name in target_file.known_targets() and file == f"{name}.toml" else file)


def repro_command(result_id: str, target: str, leg: Leg) -> str:
    """Return the command that reruns one result of a leg."""
    command = ["conformance", "repro", result_id, "--target", target, "--mode", leg["mode"]]
    if leg["samples"] != "default":
        command += ["--samples", leg["samples"]]
    if leg.get("seed", seeds.RELEASE_SEED) != seeds.RELEASE_SEED:
        command += ["--seed", str(leg["seed"])]
    return shlex.join(command)
