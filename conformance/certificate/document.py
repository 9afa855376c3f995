"""The certificate: a document that follows from results, so that whoever has these can make it again."""

from __future__ import annotations

import collections
import hashlib
import json
from typing import TypedDict

import conformance
from conformance.certificate.level_assessment import LevelAssessment
from conformance.model.records import BackendFacts, Digests, Document, Leg, TorchFacts
from conformance.plan.levels.manifest import words
from conformance.plan.levels.mutation_score import Detection
from conformance.target import file as target_file

SCHEMA = 1
#: What a certificate is without anybody who vouches for the run.
ATTESTATION = "self-reported"
SIMULATED = "simulated device: no hardware stands behind these results"


class Claim(TypedDict):
    """The claim of a certificate, and who vouches for it."""

    level: str
    mode: str
    torch: str
    attestation: str
    notice: str | None


class DetectionPower(TypedDict):
    """The planted faults that the results of the level saw, and the run that counted them."""

    killed: int
    of: int
    killed_called: int
    of_called: int
    measured_on: str


class Evidence(TypedDict):
    """Digests and numbers of results that anyone can count again from the rows."""

    manifest: str
    results: str
    suite: str | None
    counts: dict[str, int]
    comparisons: int
    waived: list[str]
    not_claimed: dict[str, int]
    placements: dict[str, int]
    detection: DetectionPower | None


class TargetStatement(TypedDict):
    """The target as the run states it."""

    name: str
    device: str
    precision: str
    simulated: bool | None


class Statements(TypedDict):
    """The run's own statements, which no one else attests."""

    target: TargetStatement
    torch: TorchFacts
    backend: BackendFacts
    python: str
    system: str
    environment: dict[str, str]
    digests: Digests
    started: str
    seconds: float
    workers: int
    level_of_the_run: str
    samples: str


class Certificate(TypedDict):
    """``certificate.json`` of a bundle; ``repeat`` are the steps that make it again."""

    schema: int
    suite: str
    claim: Claim
    evidence: Evidence
    statements: Statements
    repeat: list[str]


def canonical(data: object) -> bytes:
    """JSON in the one form of which digests are taken."""
    return (json.dumps(data, separators=(",", ":"), sort_keys=True, ensure_ascii=True) + "\n").encode()


def certificate(results: Document, entitlement: LevelAssessment) -> Certificate:
    """The certificate of the only leg of some results, which must be scrubbed already.

    ``evidence`` is what anyone can count again from the rows; ``statements`` are what the run says of itself.
    """
    leg = results["legs"][0]
    target, facts = leg["target"], leg["facts"]
    samples = collections.Counter(entitlement.placements.values())
    return {
        "schema": SCHEMA,
        "suite": conformance.__version__,
        "claim": {
            "level": entitlement.demand.level,
            "mode": entitlement.demand.mode,
            "torch": words(entitlement.demand.minor),
            "attestation": ATTESTATION,
            "notice": SIMULATED if target.get("simulated") else None,
        },
        "evidence": {
            "manifest": entitlement.demand.digest(),
            "results": hashlib.sha256(canonical(results)).hexdigest(),
            "suite": leg["digests"]["suite"],
            "counts": entitlement.counts(),
            "comparisons": sum(row.get("comparisons", 0) for row in leg["results"]),
            "waived": list(entitlement.waived),
            "not_claimed": {reason: len(names) for reason, names in entitlement.not_claimed.items()},
            "placements": dict(sorted(samples.items())),
            "detection": _detection(entitlement.demand.level, entitlement.demand.mode),
        },
        "statements": {
            "target": {
                "name": target["name"],
                "device": target["device"],
                "precision": target["precision"],
                "simulated": target.get("simulated"),
            },
            "torch": facts["torch"],
            "backend": facts["backend"],
            "python": facts["python"],
            "system": facts["platform"],
            "environment": facts["environment"],
            "digests": {key: leg["digests"][key] for key in ("target", "expectations", "backend")},
            "started": leg["started"],
            "seconds": leg["seconds"],
            "workers": leg["workers"],
            "level_of_the_run": leg["level"],
            "samples": leg["samples"],
        },
        "repeat": repeat(leg, entitlement.demand.level),
    }


def _detection(level: str, mode: str) -> DetectionPower | None:
    """Return the power of the installed suite; None in a mode in which it was not measured."""
    measured = Detection.read()
    power = measured.of(level, mode)
    if power is None:
        return None
    return {
        "killed": power.killed,
        "of": power.of,
        "killed_called": power.killed_called,
        "of_called": power.of_called,
        "measured_on": f"{measured.target} in {measured.mode} on torch {measured.torch}",
    }


def repeat(leg: Leg, level: str) -> list[str]:
    """The steps that make such a certificate again."""
    target = leg["target"]
    known = target["name"] in target_file.known_targets() and target["file"] == f"{target['name']}.toml"
    where = target["name"] if known else target["file"]
    samples = "" if leg["samples"] == "default" else f" --samples {leg['samples']}"
    mode = leg["mode"]
    return [
        f"install torch {leg['torch']} (revision {leg['facts']['torch'].get('revision')}), the backend and "
        f"conformance {conformance.__version__}",
        f"conformance run --target {where} --mode {mode} --level {leg['level']}{samples} -o out",
        f"conformance certify out --level {level} --mode {mode} -o certificate-{level}-{mode}.zip",
    ]
