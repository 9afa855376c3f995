"""The last words of a run: totals of each leg, what was unexpected and how to repeat it, files."""

from __future__ import annotations

import collections
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conformance import target_file
from conformance.model import ResultId, Verdict
from conformance.runner.progress import duration

#: Operators (or modules, …) with unexpected results that are shown one by one.
SHOWN = 10

_ORDER = list(Verdict)


def lines(results: dict[str, Any], *, folder: Path, target: str | None = None) -> Iterator[str]:
    """The summary of a results document, line by line.

    ``target`` is what the user gave as ``--target``; without it the commands name what each leg names.
    """
    legs = results["legs"]
    for leg in legs:
        yield from _leg(leg)
    yield from _unexpected(legs, target)
    state = {0: "as expected", 1: "unexpected results", 2: "not run", 3: "incomplete"}[results["exit"]]
    yield f"{state}: exit {results['exit']}"
    yield f"files: {folder / 'results.json'}, {folder / 'report.html'}, {folder / 'junit.xml'}"


def title(leg: dict[str, Any]) -> str:
    """What a leg is of: target, mode and build."""
    return f"{leg['target']['name']}, {leg['mode']}, torch {leg['torch']}"


def _leg(leg: dict[str, Any]) -> Iterator[str]:
    totals = ", ".join(f"{count} {verdict}" for verdict, count in reversed(leg["totals"].items()))
    state = {2: " (not run)", 3: " (incomplete)"}.get(leg["exit"], "")
    took = f" in {len(leg['cases'])} cases, {duration(leg['seconds'])}" if leg["cases"] else ""
    yield f"{title(leg)}{state}: {totals or 'no results'}{took}"
    if leg["missing"]["count"]:
        missing = leg["missing"]
        yield f"  {missing['count']} of {leg['planned']} results are missing, first {missing['first'][0]}"
    for problem in leg["problems"]:
        yield f"  problem: {problem}"
    for difference in leg["oracle"]["differences"][:SHOWN]:
        yield f"  oracle: {difference}"


Row = dict[str, Any]


def _unexpected(legs: list[dict[str, Any]], target: str | None) -> Iterator[str]:
    """Unexpected results by subject, the worst first: who fixes one operator sees it once, not per dtype."""
    groups: dict[str, list[tuple[int, Row]]] = {}
    for number, leg in enumerate(legs):
        for row in leg["results"]:
            if Verdict(row["verdict"]).unexpected:
                groups.setdefault(_subject(row), []).append((number, row))
    if not groups:
        return
    total = sum(map(len, groups.values()))
    yield f"{total} unexpected, by subject (worst first):"

    def badness(entry: tuple[str, list[tuple[int, Row]]]) -> tuple[int, int]:
        return min(_rank(row) for _, row in entry[1]), -len(entry[1])

    ordered = sorted(groups.items(), key=badness)
    for subject, found in ordered[:SHOWN]:
        counts = collections.Counter(row["verdict"] for _, row in found)
        words = ", ".join(f"{counts[v.value]} {v.value}" for v in _ORDER if counts[v.value])
        where = ""
        if len(legs) > 1:
            where = " in " + ", ".join(_column(legs, number) for number in sorted({n for n, _ in found}))
        yield f"  {subject}: {words}{where}"
        number, row = min(found, key=lambda pair: _rank(pair[1]))
        yield f"    {row['id']}{_kind(row)} {_first(row)}"[:220]
        yield f"    {repeat(row['id'], target or target_word(legs[number]), legs[number])}"
    hidden = ordered[SHOWN:]
    if hidden:
        rest = sum(len(found) for _, found in hidden)
        yield f"  and {rest} more of {len(hidden)} other subjects; report.html has them all"


def _column(legs: list[dict[str, Any]], number: int) -> str:
    """The name of a leg among others: its mode alone where that says which one it is."""
    mode = legs[number]["mode"]
    alone = sum(leg["mode"] == mode for leg in legs) == 1
    return str(mode if alone else f"{mode} on {legs[number]['build']}")


def _subject(row: Row) -> str:
    return ResultId.parse(row["id"]).case.subject


def _rank(row: Row) -> int:
    return _ORDER.index(Verdict(row["verdict"]))


def _kind(row: Row) -> str:
    return f" ({row['failures'][0]['kind']})" if row.get("failures") else ""


def _first(row: Row) -> str:
    """The first line of what a row says."""
    if row["verdict"] == Verdict.XPASS.value:
        return str((row.get("notes") or [""])[-1])
    message = row["failures"][0]["message"] if row.get("failures") else ""
    return next(iter(message.splitlines()), "")


def target_word(leg: dict[str, Any]) -> str:
    """What to give as ``--target``: the name of one of the suite's targets, else that of its file."""
    name, file = leg["target"]["name"], leg["target"]["file"]
    return str(name if name in target_file.known_targets() and file == f"{name}.toml" else file)


def repeat(result_id: str, target: str, leg: dict[str, Any]) -> str:
    """The command that repeats one result of a leg."""
    words = ["conformance", "repro", result_id, "--target", target, "--mode", leg["mode"]]
    if leg["samples"] != "default":
        words += ["--samples", leg["samples"]]
    return shlex.join(words)
