"""The last words of a run: totals, the first failures with the command that repeats each, and the files."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conformance import target_file
from conformance.model import Verdict
from conformance.runner.progress import duration

#: Unexpected results that are shown one by one.
SHOWN = 10


def lines(results: dict[str, Any], *, target: str, folder: Path, shown: int = SHOWN) -> Iterator[str]:
    """The summary of a results document, line by line."""
    for leg in results["legs"]:
        yield from _leg(leg, target, shown)
    state = {0: "as expected", 1: "unexpected results", 2: "not run", 3: "incomplete"}[results["exit"]]
    yield f"{state}: exit {results['exit']}"
    yield f"files: {folder / 'results.json'}, {folder / 'report.html'}, {folder / 'junit.xml'}"


def _leg(leg: dict[str, Any], target: str, shown: int) -> Iterator[str]:
    totals = (
        ", ".join(f"{count} {verdict}" for verdict, count in reversed(leg["totals"].items())) or "no results"
    )
    yield f"{leg['name']}: {totals} in {len(leg['cases'])} cases, {duration(leg['seconds'])}"
    bad = [row for row in leg["results"] if Verdict(row["verdict"]).unexpected]
    order = list(Verdict)
    bad.sort(key=lambda row: order.index(Verdict(row["verdict"])))
    for row in bad[:shown]:
        failure = (row.get("failures") or [{"kind": "", "message": ""}])[0]
        first = (failure["message"].splitlines() or [""])[0]
        if row["verdict"] == Verdict.XPASS.value:
            first = (row.get("notes") or [""])[-1]
        kind = f" ({failure['kind']})" if failure["kind"] else ""
        yield f"  {row['verdict']:8s} {row['id']}{kind} {first}"[:220]
        yield f"           {repeat(row['id'], target, leg)}"
    if len(bad) > shown:
        yield f"  and {len(bad) - shown} more"
    if leg["missing"]["count"]:
        missing = leg["missing"]
        yield f"  {missing['count']} of {leg['planned']} results are missing, first {missing['first'][0]}"
    for problem in leg["problems"]:
        yield f"  problem: {problem}"
    for difference in leg["oracle"]["differences"][:shown]:
        yield f"  oracle: {difference}"


def target_word(leg: dict[str, Any]) -> str:
    """What to give as ``--target``: the name of one of the suite's targets, else that of its file."""
    name, file = leg["target"]["name"], leg["target"]["file"]
    return str(name if name in target_file.known_targets() and file == f"{name}.toml" else file)


def repeat(result_id: str, target: str, leg: dict[str, Any]) -> str:
    """The command that repeats one result of a leg."""
    words = ["conformance", "repro", result_id, "--target", target]
    if leg["mode"] != "eager":
        words += ["--mode", leg["mode"]]
    if leg["samples"] != "default":
        words += ["--samples", leg["samples"]]
    return shlex.join(words)
