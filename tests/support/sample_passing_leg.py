"""Results that hold a level, made up row by row, for tests of certificates."""

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
from conformance.results.leg_summary import ordered
from conformance.target.file import DTYPES

Leg = dict[str, Any]
TORCH = "2.13.0+cpu"
SUITE = "5" * 64
_digest_of_suite = digests.suite_digest


@contextlib.contextmanager
def settled() -> Iterator[None]:
    """Within it the suite's digest stays one, however long a test takes and whatever is edited meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digests, "suite_digest", lambda: SUITE)
        yield


def row(name: str) -> dict[str, Any]:
    """A row that passed."""
    subject, _, dtype = name.partition("/")[2].rpartition("@")
    found = {"id": name, "verdict": "pass", "seconds": 0.1, "comparisons": 7, "seed": seed_of(subject, dtype)}
    return found | ({"placement": "native"} if name.startswith("placement/") else {})


@functools.cache
def known() -> manifest.Manifest:
    """The committed manifest, read once."""
    return manifest.load()


@functools.cache
def _suite() -> str:
    return _digest_of_suite()


@functools.cache
def _passed(level: str, mode: str) -> Leg:
    """The rows of a leg in which everything passed, with their sums; whoever takes them copies them."""
    return summed(
        {"left_out": 0, "results": [row(name) for name in known().demand(TORCH, mode, level).entries]}
    )


def leg(level: str = "bringup", mode: str = "eager", **changes: Any) -> Leg:
    """A leg in which everything that a level asks for passed."""
    passed = _passed(level, mode)
    digest = dict.fromkeys(("manifest", "target", "expectations", "backend"), "0" * 64)
    found: Leg = {
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
            "suite": _suite() if digests.suite_digest is _digest_of_suite else digests.suite_digest(),
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
        found[key] = [dict(one) for one in value] if key == "results" else copy.copy(value)
    changed = {**found, **changes}
    return summed(changed) if changes.keys() & {"results", "left_out"} else changed


def summed(found: Leg) -> Leg:
    """A leg with its sums made to follow from its rows."""
    cases: dict[str, set[str]] = {}
    for one in found["results"]:
        cases.setdefault(one["id"].rpartition("@")[0], set()).add(one["verdict"])
    found["cases"] = {
        case: min(seen) if len(seen) == 1 else Verdict.worst([Verdict(one) for one in seen]).value
        for case, seen in cases.items()
    }
    found["case_totals"] = ordered(collections.Counter(found["cases"].values()))
    totals = collections.Counter(one["verdict"] for one in found["results"])
    totals["skip"] += found["left_out"]
    found["totals"] = ordered(totals)
    found["planned"] = len(found["results"])
    return found


def with_rows(found: Leg, changes: Mapping[str, Mapping[str, Any]]) -> Leg:
    """A leg with other rows of these ids, its sums following."""
    assert changes.keys() <= {one["id"] for one in found["results"]}
    found["results"] = [{**one, **changes.get(one["id"], {})} for one in found["results"]]
    return summed(found)


def varied_results() -> dict[str, Any]:
    """A small document with a pass, a failure that was tried twice, and a refusal."""
    found = leg(exit=1)
    found["results"] = found["results"][:3]
    _, wrong, refused = found["results"]
    failures = [{"kind": "value", "message": "2 of 3 elements differ", "sample": 1}]
    once = {"attempt": 1, "verdict": "fail", "kinds": ["value"], "seconds": 0.1}
    wrong |= {"verdict": "fail", "failures": failures, "failure_count": 1}
    wrong |= {"attempts": [once, {**once, "attempt": 2}]}
    refused |= {"verdict": "unsupported", "notes": ["no such thing on this device"]}
    return document.document([summed(found)])


def folder(path: Path, *legs: Leg) -> Path:
    """The output folder of a run with these legs."""
    path.mkdir(exist_ok=True)
    document.write(path / "results.json", document.document(list(legs)))
    return path


def rewritten(bundle: Path, other: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
    """A copy of a bundle after somebody changed its certificate and its results."""
    with zipfile.ZipFile(bundle) as file:
        certificate, rows = (json.loads(file.read(name)) for name in ("certificate.json", "results.json"))
    change(certificate, rows)
    with zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("certificate.json", json.dumps(certificate))
        file.writestr("results.json", json.dumps(rows))
    return other
