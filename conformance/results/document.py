"""Create the results file from a journal, validate it against its schema, write it and read it."""

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
from conformance.model import digests, seeds
from conformance.model.records import (
    Digests,
    Document,
    Leg,
    TorchFacts,
)
from conformance.model.schema import Schema, SchemaError
from conformance.plan.run_request import RunRequest
from conformance.results import exit_codes, final_verdicts, journal
from conformance.results.leg_summary import MAX_LISTED, LegSummary, expectation_report, ordered_totals
from conformance.results.run_state import RunState

#: The version of the file format. Files of versions 2 and 3 can be read. Since version 2, a leg names its
#: build and its torch, and a leg may represent several shards or a run that could not start. Since version 3,
#: a leg has the state of each expectation, and an attempt has its kinds of failure.
SCHEMA = 3
#: Larger files are rejected. A full leg has about 30 MiB, and a results file may come from an untrusted
#: source.
MAX_BYTES = 1 << 30
#: The names of a leg's digests.
_DIGESTS = ("suite", "manifest", "target", "expectations", "torch", "backend")


def leg_of_run(
    run_state: RunState, target_expectations: TargetExpectations, *, today: datetime.date | None = None
) -> Leg:
    """Return the leg (one mode of one target on one build) that a run state describes."""
    header = run_state.header
    if header is None:
        raise KeyError("run")
    torch_version = header["facts"]["torch"]["version"]
    judgement = final_verdicts.judge_leg(
        run_state, header, target_expectations, today or datetime.date.today()
    )
    oracle = run_state.oracle_check or {"checked": 0, "differences": []}
    return {
        "parity": header.get("parity", "strict"),
        "seed": header.get("seed", seeds.RELEASE_SEED),
        "name": header["name"],
        "build": installed_torch.folder_safe_version(torch_version),
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
        "seconds": round(run_state.seconds, 3),
        "exit": judgement.exit_code,
        "complete": judgement.complete,
        "problems": [*run_state.problems, *judgement.expectations["problems"]],
        "expectations": judgement.expectations,
        "missing": judgement.missing,
        "planned": judgement.planned_count,
        "totals": judgement.totals,
        "case_totals": judgement.case_totals,
        "cases": judgement.cases,
        "oracle": {"checked": oracle["checked"], "differences": oracle["differences"][:MAX_LISTED]},
        "results": list(judgement.rows),
    }


def _torch_facts_without_import() -> TorchFacts:
    """Return the facts about torch that are available without importing torch."""
    try:
        return describe.describe_environment().torch_facts()
    except UsageError:
        return {"revision": None}


def leg_not_run(
    options: RunRequest, mode: str, torch_version: str, reason: str, *, code: int = exit_codes.USAGE
) -> Leg:
    """Return a leg without results for a mode that did not start. Its only problem is ``reason``."""
    target = options.target
    known_digests: Digests = {"suite": digests.suite_digest(), "target": target.digest}
    return {
        "name": installed_torch.leg_name(torch_version, mode),
        "build": installed_torch.folder_safe_version(torch_version),
        "torch": torch_version,
        "mode": mode,
        "target": options.target_record(),
        "level": options.level,
        "shard": str(options.shard),
        "selection": options.select,
        "samples": options.samples,
        "seed": options.seed,
        "parity": options.parity,
        "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "workers": options.workers,
        "facts": {
            "python": platform.python_version(),
            "platform": platform.platform(),
            "torch": {**_torch_facts_without_import(), "version": torch_version},
            "backend": {"module": target.module, "version": None, "digest": None, "abi": None},
        },
        "digests": {name: known_digests.get(name) for name in _DIGESTS},
        "left_out": 0,
        "seconds": 0.0,
        "exit": code,
        "complete": False,
        "problems": [reason],
        "expectations": expectation_report([], mode, whole=False),
        "missing": {"count": 0, "first": []},
        "planned": 0,
        "totals": {},
        "case_totals": {},
        "cases": {},
        "oracle": {"checked": 0, "differences": []},
        "results": [],
    }


def results_document(legs: list[Leg]) -> Document:
    """Return the results document of one or several legs."""
    counts: collections.Counter[str] = collections.Counter()
    for entry in legs:
        counts.update(entry["totals"])
    return {
        "schema": SCHEMA,
        "suite": conformance.__version__,
        "exit": exit_codes.worst_exit_code(entry["exit"] for entry in legs),
        "complete": bool(legs) and all(entry["complete"] for entry in legs),
        "totals": ordered_totals(counts),
        "legs": legs,
    }


def leg_from_journal(path: Path, target_expectations: TargetExpectations) -> Leg:
    """Return the leg of a journal; raise UsageError if the journal has no ``run`` event or is damaged."""
    events, damaged = journal.read_journal(path)
    run_state = RunState()
    for event in events:
        run_state.apply(event)
    if run_state.header is None:
        raise UsageError(
            f"journal {path} has no run event; it is not the journal of a run, or its start is damaged"
        )
    if damaged:
        run_state.problems.append(f"{damaged} damaged lines in {path.name}")
    try:
        journal_leg = leg_of_run(run_state, target_expectations)
        validated(results_document([journal_leg]))
    except (KeyError, TypeError, ValueError, AttributeError, LookupError) as error:
        raise UsageError(f"journal {path} is damaged: {type(error).__name__}: {error}") from None
    journal_leg["digests"] = {**journal_leg["digests"], "expectations": target_expectations.digest}
    return journal_leg


def validated(data: object) -> Document:
    """Return ``data``, the parsed JSON of a results file, as a document. Raise SchemaError if ``data``
    violates the schema.
    """
    Schema.load("results").validate(data)
    return cast("Document", data)


def write_results(path: Path, results: Document) -> None:
    """Validate a document against its schema and write it atomically."""
    results = validated(_without_lone_surrogates(results))
    scratch = path.with_suffix(".part")
    with scratch.open("w") as file:
        file.write(json.dumps(results, separators=(",", ":")))
        file.write("\n")
    scratch.replace(path)


def _without_lone_surrogates(results: Document) -> Document:
    """Return a document in which each lone surrogate character is replaced by ``?``.

    A message from a device may contain lone surrogates, which cannot be encoded in UTF-8.
    """
    text = json.dumps(results, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        whole: Document = json.loads(text.encode(errors="replace"))
        return whole
    return results


def read_results(path: Path, *, limit: int = MAX_BYTES) -> Document:
    """Read and validate a results file; raise UsageError if it is absent, too large or invalid."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UsageError(
            f"results {path} cannot be read: {error.strerror}; run 'conformance run -o' first"
        ) from None
    if size > limit:
        raise UsageError(f"results {path} have {size} bytes; the maximum is {limit}")
    try:
        results = validated(json.loads(path.read_text(), parse_constant=_reject_constant))
        for number, entry in enumerate(results["legs"]):
            _check_sums_match_rows(f".legs[{number}]", entry)
    except (ValueError, SchemaError, RecursionError) as error:
        # The schema path of the whole document is empty. The text of such an error then starts with ": ".
        wrong = str(error).removeprefix(": ")
        raise UsageError(f"results {path} do not follow the schema: {wrong}") from None
    return results


def _reject_constant(constant: str) -> float:
    raise ValueError(f"{constant} is not a number in JSON")


def _check_sums_match_rows(json_path: str, leg: Leg) -> None:
    """Raise SchemaError if an id appears twice, or if the counts that a leg states differ from its rows."""
    result_ids = set()
    for row in leg["results"]:
        if row["id"] in result_ids:
            raise SchemaError(f"{json_path}: result {row['id']!r} appears twice")
        result_ids.add(row["id"])
    judgement = LegSummary.from_leg(leg)
    counts: dict[str, tuple[object, object]] = {
        "cases": (leg["cases"], judgement.cases),
        "totals": (leg["totals"], judgement.totals),
        "case_totals": (leg["case_totals"], judgement.case_totals),
        "planned": (leg["planned"], judgement.planned_count),
    }
    for field, (stated, counted) in counts.items():
        if stated != counted:
            raise SchemaError(f"{json_path}: {field} differs from the counts of the results")
    missing = leg["missing"]
    listed_count = min(missing["count"], MAX_LISTED)
    if len(missing["first"]) != listed_count:
        raise SchemaError(
            f"{json_path}: missing.first has {len(missing['first'])} ids instead of {listed_count}, and "
            f"missing.count is {missing['count']}"
        )
