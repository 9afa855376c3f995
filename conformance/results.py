"""The results file: made from a journal, checked against its schema, read with a limit on its size."""

from __future__ import annotations

import collections
import datetime
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import conformance
from conformance import journal
from conformance.errors import UsageError
from conformance.expectation import Book
from conformance.model import Verdict
from conformance.outcome import decide
from conformance.plan import Plan
from conformance.runner.ledger import Ledger
from conformance.schema import Schema, SchemaError

SCHEMA = 1
#: Larger files are not read: a full run has about 30 MiB, and a results file may come from anywhere.
MAX_BYTES = 256 << 20
_MISSING_SHOWN = 100

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
    totals = collections.Counter(row["verdict"] for row in rows)
    if header["left_out"]:
        totals[Verdict.SKIP.value] += header["left_out"]
    unexpected = any(Verdict(verdict).unexpected for verdict in totals)
    code = INCOMPLETE if not complete else UNEXPECTED if unexpected else OK
    return {
        **{key: header[key] for key in ("name", "mode", "target", "level", "shard", "selection", "samples")},
        **{key: header[key] for key in ("started", "workers", "facts", "digests", "left_out")},
        "seconds": (ledger.end or {}).get("seconds", 0.0),
        "exit": code,
        "complete": complete,
        "problems": problems,
        "missing": {"count": len(missing), "first": missing[:_MISSING_SHOWN]},
        "planned": len(plan),
        "totals": _ordered(totals),
        "case_totals": _ordered(collections.Counter(cases.values())),
        "cases": cases,
        "oracle": {"checked": oracle["checked"], "differences": oracle["differences"][:_MISSING_SHOWN]},
        "results": rows,
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
        "totals": _ordered(totals),
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


def _ordered(totals: collections.Counter[str]) -> dict[str, int]:
    return {verdict.value: totals[verdict.value] for verdict in Verdict if totals[verdict.value]}
