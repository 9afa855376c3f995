"""The results file: made from a journal, checked against its schema, read with a limit on its size."""

from __future__ import annotations

import collections
import datetime
import json
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import conformance
from conformance import digests, journal, torch_build
from conformance.errors import UsageError
from conformance.expectation import Book
from conformance.model import Verdict
from conformance.outcome import decide
from conformance.plan import Plan
from conformance.runner.ledger import Ledger
from conformance.runner.options import Options
from conformance.schema import Schema, SchemaError

#: 2: legs name their build and torch, may stand for shards and for runs that could not start.
SCHEMA = 2
#: Larger files are not read: a full leg has about 30 MiB, and a results file may come from anywhere.
MAX_BYTES = 1 << 30
#: A leg keeps this many names of missing results, and differences of the oracle.
MISSING_SHOWN = 100

OK, UNEXPECTED, USAGE, INCOMPLETE = 0, 1, 2, 3


def worst_exit(codes: Iterable[int]) -> int:
    """The exit code of several runs: 2 before 3 before 1 before 0."""
    order = (USAGE, INCOMPLETE, UNEXPECTED, OK)
    return min(codes, key=order.index, default=OK)


def leg(ledger: Ledger, book: Book, *, today: datetime.date | None = None) -> dict[str, Any]:
    """What one leg found: one mode of one target on one build."""
    header = ledger.header
    plan = Plan.from_json(ledger.plan) if ledger.plan is not None else Plan([])
    torch_version = header["facts"]["torch"]["version"]
    day = today or datetime.date.today()
    outcome = decide(ledger.attempts, book.active(header["mode"], day, torch_version))
    rows, cases, missing = [], {}, []
    for case in plan.cases:
        verdicts = []
        for result_id in case.result_ids():
            row = outcome.rows.get(result_id)
            if row is None:
                missing.append(result_id)
            else:
                rows.append(row)
                verdicts.append(Verdict(row["verdict"]))
        if verdicts:
            cases[case.id] = Verdict.worst(verdicts).value
    problems = list(ledger.problems)
    problems += [
        f"expectation {entry} expired on {entry.until}" for entry in book.expired(day, torch_version)
    ]
    oracle = ledger.oracle_check or {"checked": 0, "differences": []}
    complete = (
        not missing
        and not ledger.interrupted
        and not oracle["differences"]
        and bool(plan.cases)
        and ledger.end is not None
        and ledger.end.get("complete", True)
    )
    totals = count_totals(rows, header["left_out"])
    unexpected = any(Verdict(verdict).unexpected for verdict in totals)
    code = INCOMPLETE if not complete else UNEXPECTED if unexpected else OK
    return {
        "name": header["name"],
        "build": torch_build.label(torch_version),
        "torch": torch_version,
        **{key: header[key] for key in ("mode", "target", "level", "shard", "selection", "samples")},
        **{key: header[key] for key in ("started", "workers", "facts", "digests", "left_out")},
        "seconds": (ledger.end or {}).get("seconds", 0.0),
        "exit": code,
        "complete": complete,
        "problems": problems,
        "missing": {"count": len(missing), "first": missing[:MISSING_SHOWN]},
        "planned": len(plan),
        "totals": totals,
        "case_totals": ordered(collections.Counter(cases.values())),
        "cases": cases,
        "oracle": {"checked": oracle["checked"], "differences": oracle["differences"][:MISSING_SHOWN]},
        "results": rows,
    }


def not_run(
    options: Options, mode: str, torch_version: str, why: str, *, code: int = USAGE
) -> dict[str, Any]:
    """The leg of a mode that did not start: nothing in it but the reason and the exit code."""
    target = options.target
    digest = dict.fromkeys(("suite", "manifest", "target", "expectations", "torch", "backend"))
    return {
        "name": torch_build.leg_name(torch_version, mode),
        "build": torch_build.label(torch_version),
        "torch": torch_version,
        "mode": mode,
        "target": options.target_words(),
        "level": options.level,
        "shard": str(options.shard),
        "selection": options.select,
        "samples": options.samples,
        "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "workers": options.workers,
        "facts": {
            "python": platform.python_version(),
            "platform": platform.platform(),
            "torch": {"version": torch_version, "revision": None},
            "backend": {"module": target.module, "version": None, "digest": None},
        },
        "digests": {**digest, "suite": digests.suite(), "target": target.digest},
        "left_out": 0,
        "seconds": 0.0,
        "exit": code,
        "complete": False,
        "problems": [why],
        "missing": {"count": 0, "first": []},
        "planned": 0,
        "totals": {},
        "case_totals": {},
        "cases": {},
        "oracle": {"checked": 0, "differences": []},
        "results": [],
    }


def document(legs: list[dict[str, Any]]) -> dict[str, Any]:
    """The results document of one or several legs."""
    totals: collections.Counter[str] = collections.Counter()
    for entry in legs:
        totals.update(entry["totals"])
    return {
        "schema": SCHEMA,
        "suite": conformance.__version__,
        "exit": worst_exit(entry["exit"] for entry in legs),
        "complete": bool(legs) and all(entry["complete"] for entry in legs),
        "totals": ordered(totals),
        "legs": legs,
    }


def from_journal(path: Path, book: Book) -> dict[str, Any]:
    """The leg that a journal describes; UsageError where it has no header."""
    events, damaged = journal.read(path)
    ledger = Ledger()
    for event in events:
        ledger.apply(event)
    if not ledger.header:
        raise UsageError(
            f"journal {path} has no run event; it is not the journal of a run, or its start is damaged"
        )
    if damaged:
        ledger.problems.append(f"{damaged} damaged lines in {path.name}")
    return leg(ledger, book)


def write(path: Path, results: dict[str, Any]) -> None:
    """Check a document against its schema and write it; the file appears whole or not at all."""
    Schema.load("results").validate(results)
    scratch = path.with_suffix(".part")
    with scratch.open("w") as file:
        file.write(json.dumps(results, separators=(",", ":")))
        file.write("\n")
    scratch.replace(path)


def read(path: Path, *, limit: int = MAX_BYTES) -> dict[str, Any]:
    """Read and check a results file; UsageError where it is absent, too large, or something else."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UsageError(
            f"results {path} cannot be read: {error.strerror}; run 'conformance run -o' first"
        ) from None
    if size > limit:
        raise UsageError(f"results {path} have {size} bytes; at most {limit} are read")
    try:
        found = json.loads(path.read_text())
        Schema.load("results").validate(found)
    except (ValueError, SchemaError, RecursionError) as error:
        raise UsageError(f"results {path} do not follow the schema: {error}") from None
    return found  # type: ignore[no-any-return]


def ordered(totals: collections.Counter[str]) -> dict[str, int]:
    """Counts by verdict, the worst first."""
    return {verdict.value: totals[verdict.value] for verdict in Verdict if totals[verdict.value]}


def count_totals(rows: Iterable[dict[str, Any]], left_out: int) -> dict[str, int]:
    """Totals of rows, with what the user's selection left out as ``skip``."""
    totals = collections.Counter(row["verdict"] for row in rows)
    totals[Verdict.SKIP.value] += left_out
    return ordered(totals)
