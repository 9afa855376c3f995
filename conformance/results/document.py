"""The results file: made from a journal, checked against its schema, read with a limit on its size."""

from __future__ import annotations

import collections
import datetime
import json
import platform
from pathlib import Path
from typing import cast

import conformance
from conformance.builds import describe, installed_torch
from conformance.errors import UsageError
from conformance.expectations.entries import TargetExpectations
from conformance.model import digests
from conformance.model.records import (
    Digests,
    Document,
    Leg,
    TorchFacts,
)
from conformance.model.schema import Schema, SchemaError
from conformance.plan.run_request import Request
from conformance.results import exit_codes, final_verdicts, journal
from conformance.results.leg_summary import SHOWN, Judgement, ordered, report
from conformance.results.run_state import Ledger

#: 2: legs name their build and torch, may stand for shards and for runs that could not start.
#: 3: legs have the state of each expectation, attempts the kinds of their failures. Version 2 is still read.
SCHEMA = 3
#: Larger files are not read: a full leg has about 30 MiB, and a results file may come from anywhere.
MAX_BYTES = 1 << 30
#: What a leg has a digest of.
_DIGESTS = ("suite", "manifest", "target", "expectations", "torch", "backend")


def leg(ledger: Ledger, book: TargetExpectations, *, today: datetime.date | None = None) -> Leg:
    """The leg that a ledger describes: one mode of one target on one build."""
    header = ledger.header
    if header is None:
        raise KeyError("run")
    torch_version = header["facts"]["torch"]["version"]
    judgement = final_verdicts.judge(ledger, header, book, today or datetime.date.today())
    oracle = ledger.oracle_check or {"checked": 0, "differences": []}
    return {
        "name": header["name"],
        "build": installed_torch.folder_label(torch_version),
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
        "exit": judgement.exit,
        "complete": judgement.complete,
        "problems": [*ledger.problems, *judgement.expectations["problems"]],
        "expectations": judgement.expectations,
        "missing": judgement.missing,
        "planned": judgement.planned,
        "totals": judgement.totals,
        "case_totals": judgement.case_totals,
        "cases": judgement.cases,
        "oracle": {"checked": oracle["checked"], "differences": oracle["differences"][:SHOWN]},
        "results": list(judgement.rows),
    }


def _installed() -> TorchFacts:
    """The facts of torch that are available without importing it."""
    try:
        return describe.describe_environment().facts()
    except UsageError:
        return {"revision": None}


def not_run(
    options: Request, mode: str, torch_version: str, why: str, *, code: int = exit_codes.USAGE
) -> Leg:
    """The leg of a mode that did not start: nothing in it but the reason and the exit code."""
    target = options.target
    known: Digests = {"suite": digests.suite_digest(), "target": target.digest}
    return {
        "name": installed_torch.leg_name(torch_version, mode),
        "build": installed_torch.folder_label(torch_version),
        "torch": torch_version,
        "mode": mode,
        "target": options.target_record(),
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
        "expectations": report([], mode, whole=False),
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
    counts: collections.Counter[str] = collections.Counter()
    for entry in legs:
        counts.update(entry["totals"])
    return {
        "schema": SCHEMA,
        "suite": conformance.__version__,
        "exit": exit_codes.worst(entry["exit"] for entry in legs),
        "complete": bool(legs) and all(entry["complete"] for entry in legs),
        "totals": ordered(counts),
        "legs": legs,
    }


def from_journal(path: Path, book: TargetExpectations) -> Leg:
    """The leg that a journal describes; UsageError if it has no header."""
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
        journal_leg = leg(ledger, book)
        checked(document([journal_leg]))
    except (KeyError, TypeError, ValueError, AttributeError, LookupError) as error:
        raise UsageError(f"journal {path} is damaged: {type(error).__name__}: {error}") from None
    journal_leg["digests"] = {**journal_leg["digests"], "expectations": book.digest}
    return journal_leg


def checked(data: object) -> Document:
    """Return a parsed results file as a document; SchemaError names the first deviation from the schema."""
    Schema.load("results").validate(data)
    return cast("Document", data)


def write(path: Path, results: Document) -> None:
    """Check a document against its schema and write it; the file appears whole or not at all."""
    results = checked(_characters(results))
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
    """Read and check a results file; UsageError if it is absent, too large, or something else."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UsageError(
            f"results {path} cannot be read: {error.strerror}; run 'conformance run -o' first"
        ) from None
    if size > limit:
        raise UsageError(f"results {path} have {size} bytes; at most {limit} are read")
    try:
        results = checked(json.loads(path.read_text(), parse_constant=_no_number))
        for number, entry in enumerate(results["legs"]):
            _check_counts(f".legs[{number}]", entry)
    except (ValueError, SchemaError, RecursionError) as error:
        # Of the document as a whole there is no place to name, and none stands before the colon.
        wrong = str(error).removeprefix(": ")
        raise UsageError(f"results {path} do not follow the schema: {wrong}") from None
    return results


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is not a number in JSON")


def _check_counts(where: str, leg: Leg) -> None:
    """Raise SchemaError unless the sums of a leg follow from its rows."""
    seen = set()
    for row in leg["results"]:
        if row["id"] in seen:
            raise SchemaError(f"{where}: result {row['id']!r} appears twice")
        seen.add(row["id"])
    judgement = Judgement.of(leg)
    counts: dict[str, tuple[object, object]] = {
        "cases": (leg["cases"], judgement.cases),
        "totals": (leg["totals"], judgement.totals),
        "case_totals": (leg["case_totals"], judgement.case_totals),
        "planned": (leg["planned"], judgement.planned),
    }
    for word, (stated, counted) in counts.items():
        if stated != counted:
            raise SchemaError(f"{where}: {word} is not what the results add up to")
    missing = leg["missing"]
    if len(missing["first"]) != min(missing["count"], SHOWN):
        raise SchemaError(f"{where}: missing.first does not name the first of {missing['count']} results")
