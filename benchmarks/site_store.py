"""Measure the seconds and bytes of a site for 20 backends with 6 series of 90 published runs each.

A series contains the runs of one backend in one mode on one torch build. Each run has the results of level
full. In the first run of a series, a random share of the results fails; in each later run, a few results
change. The goal is 60 s on 2 cores and 200 MB.
"""

from __future__ import annotations

import dataclasses
import datetime
import random
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from conformance.model.records import ResultRow
from conformance.plan.levels import manifest
from conformance.site import build
from conformance.site.build_columns import Build
from conformance.site.provenance import Provenance
from conformance.site.registry import Backend
from conformance.site.store.published_run import PublishedRun
from conformance.site.store.series import Series, SeriesEntry
from conformance.site.store.store import Store
from conformance.site.store.verdict_table import TableDelta, VerdictTable

BACKENDS, NIGHTS = 20, 90
LEGS = ("eager", "lazy", "compile", "graph", "distributed", "eager")
TODAY = datetime.date(2026, 6, 1)
#: The share of the cases that fail in the first run, and the number of cases that change in each later run.
FAILING, CHANGING = 0.02, 40


def cases_of_mode(mode: str) -> dict[str, tuple[str, ...]]:
    """Return the cases of level full in a mode: name of the case -> dtypes."""
    cases: dict[str, list[str]] = {}
    for name in manifest.load().level_requirements("2.13.0", mode, "full").entries:
        case, _, dtype = name.rpartition("@")
        cases.setdefault(case, []).append(dtype)
    return {case: tuple(dtypes) for case, dtypes in cases.items()}


def failing_row(name: str, number: int) -> ResultRow:
    """Return the result row of a failing result named ``name``; ``number`` varies the failure message."""
    message = f"[3, {number}] is 1.0 at [0], expected 2.0 within 1e-05"
    return {
        "id": name,
        "verdict": "fail",
        "seconds": 0.0,
        "failures": [{"kind": "value", "message": message}],
    }


def make_series(backend: Backend, mode: str, build_: Build, nights: int, chance: random.Random) -> Series:
    """Return the series of a backend in a mode on a torch build, with ``nights`` published runs."""
    cases = cases_of_mode(mode)
    table = VerdictTable({case: (dtypes, "." * len(dtypes)) for case, dtypes in cases.items()})
    entries = []
    keys = list(cases)
    for number in range(nights):
        before = table.copy() if number else VerdictTable()
        share = chance.sample(keys, int(FAILING * len(keys)) if not number else min(CHANGING, len(keys)))
        for case in share:
            dtypes, letters = table.cases[case]
            fails = "F" in letters
            table.cases[case] = (dtypes, "." * len(dtypes) if fails else "F" + letters[1:])
            name = f"{case}@{dtypes[0]}"
            if fails:
                table.details.pop(name, None)
            else:
                table.details[name] = failing_row(name, number)
        entries.append(
            SeriesEntry(
                make_published_run(backend, mode, build_, nights - number, len(cases)),
                TableDelta.between(before, table),
            )
        )
    return Series(backend.id, mode, entries)


def make_published_run(backend: Backend, mode: str, build_: Build, age: int, count: int) -> PublishedRun:
    """Return a published run with ``count`` results that ran ``age`` days ago."""
    when = datetime.datetime.combine(TODAY, datetime.time(3), datetime.timezone.utc) - datetime.timedelta(
        days=age
    )
    leg: Any = {
        "name": f"2.13.0-{mode}",
        "build": build_.version,
        "torch": build_.version,
        "mode": mode,
        "target": {"name": backend.id, "file": "x.toml", "device": "x", "precision": "ieee"},
        "level": "full",
        "shard": "1/1",
        "selection": None,
        "samples": "default",
        "started": when.isoformat(),
        "workers": 2,
        "facts": {
            "torch": {"revision": "abc"},
            "backend": {"module": "x", "version": f"1.{age}", "abi": "1"},
        },
        "digests": {"suite": "0" * 64},
        "left_out": 0,
        "seconds": 100.0,
        "exit": 1,
        "complete": True,
        "problems": [],
        "planned": count,
        "totals": {"pass": count},
        "results": [],
    }
    origin = Provenance("self-reported", when)
    regressed = ("value/add@float32", "value/mul@float32")
    return PublishedRun(
        f"run-{age:03}", build_, leg, origin, when, "core", count - 9, count, count, "failed", regressed, 2
    )


def main() -> None:
    """Write the store, build the site, and print the seconds and sizes."""
    registry = {
        f"backend-{number:02}": Backend(f"backend-{number:02}", f"Backend {number}")
        for number in range(BACKENDS)
    }
    store = Store()
    chance = random.Random(0)
    for backend in registry.values():
        for leg, mode in enumerate(LEGS):
            version = Build("2.13.0+cpu" if leg < 5 else "2.14.0.dev+cpu", "public", "1")
            series = make_series(backend, mode, version, NIGHTS, chance)
            store.lines[(backend.id, version, mode)] = series
            store.changed.add((backend.id, version, mode))
    with tempfile.TemporaryDirectory() as scratch:
        folder, output = Path(scratch) / "store", Path(scratch) / "site"
        begin = time.perf_counter()
        store.write(folder)
        print(f"store written: {time.perf_counter() - begin:.1f} s, {bytes_of_files(folder) / 1e6:.0f} MB")
        del store
        begin = time.perf_counter()
        read = Store.read(folder)
        middle = time.perf_counter()
        cells = build.build_site(read, output, registry, TODAY)
        end = time.perf_counter()
        results = sum(dataclasses.replace(cell.newest).planned for cell in cells)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"{len(cells)} series with {NIGHTS} published runs each, {results:,} results shown")
        print(f"store read: {middle - begin:.1f} s; pages: {end - middle:.1f} s; all: {end - begin:.1f} s")
        print(f"size of the site: {bytes_of_files(output) / 1e6:.0f} MB; peak memory {peak:.1f} GB")


def bytes_of_files(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


if __name__ == "__main__":
    main()
