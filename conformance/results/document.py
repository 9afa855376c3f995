"""The results file: made from a journal, checked against its schema, read with a limit on its size."""

from __future__ import annotations

import collections
import datetime
import json
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import conformance
from conformance.builds import describe, installed
from conformance.errors import UsageError
from conformance.expectations import Book, judge
from conformance.model import digests
from conformance.model.records import (
    Digests,
    Document,
    ExpectationRecord,
    ExpectationReport,
    Leg,
    Row,
    TorchFacts,
    Totals,
)
from conformance.model.schema import Schema, SchemaError
from conformance.model.verdicts import ResultId, Verdict
from conformance.plan.levels import manifest
from conformance.plan.plan import Plan
from conformance.plan.request import Request
from conformance.results import journal
from conformance.results.ledger import Ledger
from conformance.results.outcome import decide, waive

#: 2: legs name their build and torch, may stand for shards and for runs that could not start.
#: 3: legs say what became of each expectation, attempts say how they failed. Version 2 is still read.
SCHEMA = 3
#: Larger files are not read: a full leg has about 30 MiB, and a results file may come from anywhere.
MAX_BYTES = 1 << 30
#: A leg keeps this many names of missing results, and differences of the oracle.
MISSING_SHOWN = 100

#: What a leg has a digest of.
_DIGESTS = ("suite", "manifest", "target", "expectations", "torch", "backend")

OK, UNEXPECTED, USAGE, INCOMPLETE = 0, 1, 2, 3


def worst_exit(codes: Iterable[int]) -> int:
    """The exit code of several runs: 2 before 3 before 1 before 0."""
    order = (USAGE, INCOMPLETE, UNEXPECTED, OK)
    return min(codes, key=order.index, default=OK)


def leg(ledger: Ledger, book: Book, *, today: datetime.date | None = None) -> Leg:
    """What one leg found: one mode of one target on one build."""
    header = ledger.header
    if header is None:
        raise KeyError("run")
    plan = Plan.from_json(ledger.plan) if ledger.plan is not None else Plan([])
    torch_version = header["facts"]["torch"]["version"]
    day = today or datetime.date.today()
    whole = judge.whole(header)
    outcome = decide(
        ledger.attempts,
        book.active(header["mode"], day, torch_version),
        lambda entry, matched: judge.covers(entry, matched, header),
    )
    waive(outcome.rows, manifest.waived(torch_version, header["mode"]))
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
    expectations = judged(
        judge.records(outcome.rows, book, header["mode"], torch_version, day),
        header["mode"],
        whole=whole and complete,
    )
    code = exit_code(totals, complete=complete, expectations=expectations)
    return {
        "name": header["name"],
        "build": installed.label(torch_version),
        "torch": torch_version,
        "mode": header["mode"],
        "target": header["target"],
        "level": header["level"],
        "shard": header["shard"],
        "selection": header["selection"],
        "samples": header["samples"],
        "started": header["started"],
        "workers": header["workers"],
        "facts": header["facts"],
        "digests": header["digests"],
        "left_out": header["left_out"],
        "seconds": round(ledger.seconds, 3),
        "exit": code,
        "complete": complete,
        "problems": [*ledger.problems, *expectations["problems"]],
        "expectations": expectations,
        "missing": {"count": len(missing), "first": missing[:MISSING_SHOWN]},
        "planned": len(plan),
        "totals": totals,
        "case_totals": ordered(collections.Counter(cases.values())),
        "cases": cases,
        "oracle": {"checked": oracle["checked"], "differences": oracle["differences"][:MISSING_SHOWN]},
        "results": rows,
    }


def judged(records: list[ExpectationRecord], mode: str, *, whole: bool) -> ExpectationReport:
    """What a leg says about expectations. In a part of a leg only that some have expired is said."""
    problems = (
        judge.problems(records, mode)
        if whole
        else [judge.expired(record) for record in records if record["expired"]]
    )
    return {"judged": whole, "problems": problems, "entries": records}


def exit_code(totals: Iterable[str], *, complete: bool, expectations: ExpectationReport) -> int:
    """The exit code of a leg. Wrong expectations count where the leg is whole and they could be judged."""
    if not complete:
        return INCOMPLETE
    wrong = expectations["judged"] and bool(expectations["problems"])
    return UNEXPECTED if wrong or any(Verdict(verdict).unexpected for verdict in totals) else OK


def _installed() -> TorchFacts:
    """What is known of torch without importing it, where anything is."""
    try:
        return describe.of_environment().facts()
    except UsageError:
        return {"revision": None}


def not_run(options: Request, mode: str, torch_version: str, why: str, *, code: int = USAGE) -> Leg:
    """The leg of a mode that did not start: nothing in it but the reason and the exit code."""
    target = options.target
    known: Digests = {"suite": digests.suite(), "target": target.digest}
    return {
        "name": installed.leg_name(torch_version, mode),
        "build": installed.label(torch_version),
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
            "torch": {**_installed(), "version": torch_version},
            "backend": {"module": target.module, "version": None, "digest": None, "abi": None},
        },
        "digests": {name: known.get(name) for name in _DIGESTS},
        "left_out": 0,
        "seconds": 0.0,
        "exit": code,
        "complete": False,
        "problems": [why],
        "expectations": judged([], mode, whole=False),
        "missing": {"count": 0, "first": []},
        "planned": 0,
        "totals": {},
        "case_totals": {},
        "cases": {},
        "oracle": {"checked": 0, "differences": []},
        "results": [],
    }


def document(legs: list[Leg]) -> Document:
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


def from_journal(path: Path, book: Book) -> Leg:
    """The leg that a journal describes; UsageError where it has no header."""
    events, damaged = journal.read(path)
    ledger = Ledger()
    for event in events:
        ledger.apply(event)
    if ledger.header is None:
        raise UsageError(
            f"journal {path} has no run event; it is not the journal of a run, or its start is damaged"
        )
    if damaged:
        ledger.problems.append(f"{damaged} damaged lines in {path.name}")
    try:
        found = leg(ledger, book)
        Schema.load("results").validate(document([found]))
    except (KeyError, TypeError, ValueError, AttributeError, LookupError) as error:
        raise UsageError(f"journal {path} is damaged: {type(error).__name__}: {error}") from None
    found["digests"] = {**found["digests"], "expectations": book.digest}
    return found


def write(path: Path, results: Document) -> None:
    """Check a document against its schema and write it; the file appears whole or not at all."""
    results = _characters(results)
    Schema.load("results").validate(results)
    scratch = path.with_suffix(".part")
    with scratch.open("w") as file:
        file.write(json.dumps(results, separators=(",", ":")))
        file.write("\n")
    scratch.replace(path)


def _characters(results: Document) -> Document:
    """A document with ``?`` for halves of characters, which a device may put into a message and nothing can
    write down or show.
    """
    text = json.dumps(results, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        whole: Document = json.loads(text.encode(errors="replace"))
        return whole
    return results


def read(path: Path, *, limit: int = MAX_BYTES) -> Document:
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
        found = json.loads(path.read_text(), parse_constant=_no_number)
        Schema.load("results").validate(found)
        for number, entry in enumerate(found["legs"]):
            _check_counts(f".legs[{number}]", entry)
    except (ValueError, SchemaError, RecursionError) as error:
        # Of the document as a whole there is no place to name, and none stands before the colon.
        wrong = str(error).removeprefix(": ")
        raise UsageError(f"results {path} do not follow the schema: {wrong}") from None
    return cast("Document", found)


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number of JSON")


def _check_counts(where: str, leg: Leg) -> None:
    """Raise SchemaError unless what a leg counts is what its rows say."""
    verdicts: dict[str, list[Verdict]] = {}
    seen = set()
    for row in leg["results"]:
        if row["id"] in seen:
            raise SchemaError(f"{where}: result {row['id']!r} stands in it twice")
        seen.add(row["id"])
        verdicts.setdefault(str(ResultId.parse(row["id"]).case), []).append(Verdict(row["verdict"]))
    worst = {case: Verdict.worst(found).value for case, found in verdicts.items()}
    missing = leg["missing"]
    counts: dict[str, tuple[object, object]] = {
        "cases": (leg["cases"], worst),
        "totals": (leg["totals"], count_totals(leg["results"], leg["left_out"])),
        "case_totals": (leg["case_totals"], ordered(collections.Counter(worst.values()))),
        "planned": (leg["planned"], len(seen) + missing["count"]),
    }
    for word, (stated, counted) in counts.items():
        if stated != counted:
            raise SchemaError(f"{where}: {word} is not what the results add up to")
    if len(missing["first"]) != min(missing["count"], MISSING_SHOWN):
        raise SchemaError(f"{where}: missing.first does not name the first of {missing['count']} results")


def ordered(totals: collections.Counter[str]) -> Totals:
    """Counts by verdict, the worst first."""
    return {verdict.value: totals[verdict.value] for verdict in Verdict if totals[verdict.value]}


def count_totals(rows: Iterable[Row], left_out: int) -> Totals:
    """Totals of rows, with what the user's selection left out as ``skip``."""
    totals = collections.Counter(row["verdict"] for row in rows)
    totals[Verdict.SKIP.value] += left_out
    return ordered(totals)
