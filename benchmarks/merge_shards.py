"""Measure the seconds of `conformance merge` for 100 shards of a run with 60,000 results."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import print_figure
from conformance.builds import installed_torch
from conformance.model import digests
from conformance.model.records import ExpectationRecord, Leg, ResultRow
from conformance.plan import shards
from conformance.report import output_files
from conformance.results.leg_summary import LegSummary, expectation_report

SHARDS = 100
RESULTS = 60_000
#: Numbers per thousand results: of results that fail as expected, and of unsupported results.
EXPECTED, UNSUPPORTED = 1, 40
#: Failures per thousand results: of a nearly complete backend, and of a backend in bring-up. The other
#: results pass.
FAILED = (5, 300)
DTYPES = ("float32", "float64", "bfloat16", "float16", "complex64", "complex128", "int64", "int32", "bool")


def make_row(property_name: str, subject: str, dtype: str, number: int, failed: int) -> ResultRow:
    """Return a result row that is as large as a real one.

    The verdict depends on the row's ``number`` and on ``failed``, the number of failures per thousand rows.
    """
    result_row: ResultRow = {
        "id": f"{property_name}/{subject}@{dtype}",
        "verdict": "pass",
        "seconds": round(0.01 + number % 97 / 1000, 6),
        "comparisons": 3 + number % 50,
        "samples_used": 5,
        "samples_available": 40,
        "seed": 1_000_000_007 * (number + 1) % 4_294_967_291,
        "placement": "native",
    }
    position = number * 7 % 1000
    if position < failed + EXPECTED:
        message = (
            f"{number % 60 + 1} of 60 elements differ: by 0.{number} at [0, {number % 5}]; allowed are 1e-05"
        )
        result_row["verdict"] = "fail" if position < failed else "xfail"
        result_row["failure_count"] = 1
        result_row["failures"] = [{"kind": "value", "message": f"{subject}: {message}", "sample": 0}]
        result_row["failed_samples"] = [0]
    elif position < failed + EXPECTED + UNSUPPORTED:
        result_row["verdict"] = "unsupported"
        result_row["notes"] = [f"refused with: {subject} is not implemented for {dtype}"]
    return result_row


def rows_by_shard(failed: int) -> list[list[ResultRow]]:
    """Return the result rows of each shard. Subjects are assigned to shards as in a real run.

    ``failed`` of a thousand results fail.
    """
    names = sorted(shards.recorded_seconds()["eager"])
    properties = math.ceil(RESULTS / len(names) / len(DTYPES))
    rows: list[list[ResultRow]] = [[] for _ in range(SHARDS)]
    for number in range(RESULTS):
        rest, dtype = divmod(number, len(DTYPES))
        kind, _, subject = names[rest // properties].partition("/")
        shard = shards.shard_of("eager", kind, subject, SHARDS)
        name = f"property-{kind}-{rest % properties}"
        rows[shard].append(make_row(name, subject, DTYPES[dtype], number, failed))
    return rows


def expectation_records(rows: list[ResultRow]) -> list[ExpectationRecord]:
    """Return the expectation records of a shard, which count the shard's expected failures."""
    return [
        {
            "id": f"property-*/*@{dtype}",
            "kind": "value",
            "source": "expectations.toml",
            "until": "2999-01-01",
            "reason": "accuracy",
            "link": "https://example.org",
            "expired": False,
            "named": False,
            "fails": sum(row["verdict"] == "xfail" and row["id"].endswith(f"@{dtype}") for row in rows),
            "passes": 0,
            "other": 0,
            "unclear": 0,
            "passing": [],
        }
        for dtype in DTYPES
    ]


def make_leg(shard: int, rows: list[ResultRow]) -> Leg:
    """Return the results document entry (leg) of one shard, with its result rows."""
    build = installed_torch.version()
    judgement = LegSummary(
        rows=rows,
        left_out=0,
        missing={"count": 0, "first": []},
        complete=True,
        expectations=expectation_report(expectation_records(rows), "eager", whole=False),
    )
    digest_names = ("manifest", "target", "expectations", "torch", "backend")
    return {
        "name": installed_torch.leg_name(build, "eager"),
        "build": installed_torch.folder_safe_version(build),
        "torch": build,
        "mode": "eager",
        "target": {"name": "made-up", "file": "made-up.toml", "device": "cpu", "precision": "ieee"},
        "level": "full",
        "shard": f"{shard}/{SHARDS}",
        "selection": None,
        "samples": "default",
        "started": "2026-01-01T00:00:00+00:00",
        "workers": 2,
        "facts": {"torch": {"version": build}},
        "digests": {"suite": digests.suite_digest(), **dict.fromkeys(digest_names, "a" * 64)},
        "left_out": 0,
        "seconds": round(sum(row["seconds"] for row in rows), 3),
        "exit": judgement.exit,
        "complete": True,
        "problems": [],
        "expectations": judgement.expectations,
        "missing": judgement.missing,
        "planned": judgement.planned,
        "totals": judgement.totals,
        "case_totals": judgement.case_totals,
        "cases": judgement.cases,
        "oracle": {"checked": 0, "differences": []},
        "results": rows,
    }


def measure_merge(failed: int) -> tuple[float, float]:
    """Merge shards with ``failed`` failures per thousand results. Return the seconds and the MiB of
    results.json.

    Raises:
        SystemExit: the merged leg is incomplete or does not contain every result once.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / f"shard-{number}" for number in range(1, SHARDS + 1)]
        for number, (folder, rows) in enumerate(zip(folders, rows_by_shard(failed), strict=True), 1):
            folder.mkdir()
            output_files.write_reports(folder, [make_leg(number, rows)])
        output = Path(scratch) / "merged"
        command = [sys.executable, "-m", "conformance", "merge", *map(str, folders), "-o", str(output)]
        start = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
        text = (output / "results.json").read_text()
    (only,) = json.loads(text)["legs"]
    if not only["complete"] or len({row["id"] for row in only["results"]}) != RESULTS:
        raise SystemExit(f"the merge exited with {done.returncode} and is incomplete: {only['problems']}")
    return seconds, len(text) / (1 << 20)


def main() -> None:
    """Measure the merges from process start to process end, and print the seconds."""
    for failed in FAILED:
        seconds, size = measure_merge(failed)
        name = f"merge, {SHARDS} shards, {RESULTS:,} results, {failed / 10:g} % fail, {size:.0f} MiB"
        print_figure(name, seconds, 30.0, " s")


if __name__ == "__main__":
    main()
