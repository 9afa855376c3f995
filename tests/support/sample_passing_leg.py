"""Artificial legs that hold a level, and output folders and certificate bundles made from them."""

from __future__ import annotations

import collections
import contextlib
import copy
import functools
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.model import digests
from conformance.model.verdicts import Verdict, seed_of
from conformance.plan.levels import manifest
from conformance.results import document
from conformance.results.leg_summary import ordered_totals
from conformance.target.file import DTYPES

Leg = dict[str, Any]
TORCH = "2.13.0+cpu"
SUITE = "5" * 64
_digest_of_suite = digests.suite_digest


@contextlib.contextmanager
def fixed_suite_digest() -> Iterator[None]:
    """Replace the suite digest by a constant, so that an edit of the suite's files during a test has no
    effect.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digests, "suite_digest", lambda: SUITE)
        yield


def passing_row(name: str) -> dict[str, Any]:
    """Return the row of a passing result with the id ``name``."""
    subject, _, dtype = name.partition("/")[2].rpartition("@")
    result_row = {
        "id": name,
        "verdict": "pass",
        "seconds": 0.1,
        "comparisons": 7,
        "seed": seed_of(subject, dtype),
    }
    return result_row | ({"placement": "native"} if name.startswith("placement/") else {})


@functools.cache
def committed_manifest() -> manifest.Manifest:
    """Return the committed manifest of level requirements. Read the file only once."""
    return manifest.load()


@functools.cache
def _real_suite_digest() -> str:
    return _digest_of_suite()


@functools.cache
def _passing_rows_and_totals(level: str, mode: str) -> Leg:
    """Return the part of a leg that is slow to compute: passing rows of all required results, and totals.

    The value is cached, so callers must copy it.
    """
    return with_recounted_totals(
        {
            "left_out": 0,
            "results": [
                passing_row(name)
                for name in committed_manifest().level_requirements(TORCH, mode, level).entries
            ],
        }
    )


def leg(level: str = "bringup", mode: str = "eager", **changes: Any) -> Leg:
    """Return a leg in which every result that the level requires passed. ``changes`` replace keys
    of the leg.
    """
    passed = _passing_rows_and_totals(level, mode)
    digest = dict.fromkeys(("manifest", "target", "expectations", "backend"), "0" * 64)
    leg_record: Leg = {
        "name": f"{TORCH}-{mode}",
        "build": TORCH,
        "torch": TORCH,
        "mode": mode,
        "target": {
            "name": "mine",
            "file": "mine.toml",
            "device": "mydev",
            "precision": "ieee",
            "simulated": False,
            "declared": {
                "dtypes": list(DTYPES),
                "capabilities": {},
                "unsupported": {},
                "operators": {},
                "hooks": ["delay"],
            },
        },
        "level": level,
        "shard": "1/1",
        "selection": None,
        "samples": "default",
        "started": "2026-01-02T03:04:05+00:00",
        "workers": 2,
        "facts": {
            "python": "3.11.7",
            "platform": "Linux-6.1.0-myhost-x86_64-with-glibc2.36",
            "torch": {
                "version": TORCH,
                "revision": "abc",
                "kind": "public",
                "evidence": ["a release"],
                "abi": "1",
                "debug": False,
                "wheel": "1" * 64,
            },
            "backend": {"module": "mydev", "version": "1.0", "digest": "0" * 64},
            "environment": {"OMP_NUM_THREADS": "2"},
            "extra": [],
        },
        "digests": {
            **digest,
            "suite": _real_suite_digest()
            if digests.suite_digest is _digest_of_suite
            else digests.suite_digest(),
            "torch": f"{TORCH} abc",
        },
        "left_out": 0,
        "seconds": 12.5,
        "exit": 0,
        "complete": True,
        "problems": [],
        "missing": {"count": 0, "first": []},
        "oracle": {"checked": 3, "differences": []},
    }
    for key, value in passed.items():
        leg_record[key] = [dict(item) for item in value] if key == "results" else copy.copy(value)
    changed = {**leg_record, **changes}
    return with_recounted_totals(changed) if changes.keys() & {"results", "left_out"} else changed


def with_recounted_totals(leg_record: Leg) -> Leg:
    """Recount the totals and the case verdicts of the leg from its rows, and return the leg."""
    cases: dict[str, set[str]] = {}
    for result_row in leg_record["results"]:
        cases.setdefault(result_row["id"].rpartition("@")[0], set()).add(result_row["verdict"])
    leg_record["cases"] = {
        case: min(verdicts)
        if len(verdicts) == 1
        else Verdict.worst([Verdict(verdict) for verdict in verdicts]).value
        for case, verdicts in cases.items()
    }
    leg_record["case_totals"] = ordered_totals(collections.Counter(leg_record["cases"].values()))
    totals = collections.Counter(result_row["verdict"] for result_row in leg_record["results"])
    totals["skip"] += leg_record["left_out"]
    leg_record["totals"] = ordered_totals(totals)
    leg_record["planned"] = len(leg_record["results"])
    return leg_record


def with_rows(leg_record: Leg, changes: Mapping[str, Mapping[str, Any]]) -> Leg:
    """Change rows of the leg, recount its totals, and return the leg. ``changes``: result id -> changed keys
    of the row.
    """
    assert changes.keys() <= {result_row["id"] for result_row in leg_record["results"]}
    leg_record["results"] = [
        {**result_row, **changes.get(result_row["id"], {})} for result_row in leg_record["results"]
    ]
    return with_recounted_totals(leg_record)


def varied_results() -> dict[str, Any]:
    """Return a results document with a pass, a failure with two attempts, and an unsupported result."""
    leg_record = leg(exit=1)
    leg_record["results"] = leg_record["results"][:3]
    _, wrong, refused = leg_record["results"]
    failures = [{"kind": "value", "message": "2 of 3 elements differ", "sample": 1}]
    once = {"attempt": 1, "verdict": "fail", "kinds": ["value"], "seconds": 0.1}
    wrong |= {"verdict": "fail", "failures": failures, "failure_count": 1}
    wrong |= {"attempts": [once, {**once, "attempt": 2}]}
    refused |= {"verdict": "unsupported", "notes": ["no such thing on this device"]}
    return document.results_document([with_recounted_totals(leg_record)])


def write_output_folder(path: Path, *legs: Leg) -> Path:
    """Write the ``results.json`` of a run with these legs into the folder, and return the folder."""
    path.mkdir(exist_ok=True)
    document.write_results(path / "results.json", document.results_document(list(legs)))
    return path


def rewrite_bundle(
    bundle: Path, destination: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]
) -> Path:
    """Write a copy of the bundle after ``change(certificate, results)``, and return its path."""
    with zipfile.ZipFile(bundle) as file:
        certificate, rows = (json.loads(file.read(name)) for name in ("certificate.json", "results.json"))
    change(certificate, rows)
    with zipfile.ZipFile(destination, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("certificate.json", json.dumps(certificate))
        file.writestr("results.json", json.dumps(rows))
    return destination
