"""Build the certificate of a leg from the leg's results. Anyone who has the results can recompute it."""

from __future__ import annotations

import collections
import hashlib
import json
from typing import TypedDict

import conformance
from conformance.certificate.level_assessment import LevelAssessment
from conformance.model.records import BackendFacts, Digests, Document, Leg, TorchFacts
from conformance.plan.levels.manifest import minor_text
from conformance.plan.levels.mutation_score import MutationScores
from conformance.target import file as target_file

SCHEMA = 1
#: The attestation of a run that no other party has attested.
ATTESTATION = "self-reported"
SIMULATED = "simulated device: no hardware stands behind these results"


class Claim(TypedDict):
    """The claimed level, mode and torch minor, the attestation, and a notice for simulated devices."""

    level: str
    mode: str
    torch: str
    attestation: str
    notice: str | None


class MutationScore(TypedDict):
    """The mutation score of a level.

    ``of`` is the number of mutants, and ``killed`` is the number of killed mutants. ``of_called`` and
    ``killed_called`` count only the mutants whose trigger condition a call met. ``measured_on`` names the
    target, mode and torch of the mutation run.
    """

    killed: int
    of: int
    killed_called: int
    of_called: int
    measured_on: str


class Evidence(TypedDict):
    """The digests and counts of a certificate, which anyone can recompute from the result rows."""

    manifest: str
    results: str
    suite: str | None
    counts: dict[str, int]
    comparisons: int
    waived: list[str]
    not_claimed: dict[str, int]
    placements: dict[str, int]
    detection: MutationScore | None


class TargetStatement(TypedDict):
    """The target, as the run recorded it."""

    name: str
    device: str
    precision: str
    simulated: bool | None


class Statements(TypedDict):
    """Facts that the run recorded about itself. They cannot be recomputed from the rows."""

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
    """``certificate.json`` of a bundle. ``repeat`` lists the steps that reproduce the certificate."""

    schema: int
    suite: str
    claim: Claim
    evidence: Evidence
    statements: Statements
    repeat: list[str]


def canonical_json(data: object) -> bytes:
    """Return ``data`` as canonical JSON. The digest of the results is computed from this form."""
    return (json.dumps(data, separators=(",", ":"), sort_keys=True, ensure_ascii=True) + "\n").encode()


def make_certificate(results: Document, assessment: LevelAssessment) -> Certificate:
    """Return the certificate of a results document that has one leg and is already scrubbed.

    The certificate's ``evidence`` can be recomputed from the rows. Its ``statements`` are facts that the run
    recorded about itself.
    """
    leg = results["legs"][0]
    target, facts = leg["target"], leg["facts"]
    samples = collections.Counter(assessment.placements.values())
    return {
        "schema": SCHEMA,
        "suite": conformance.__version__,
        "claim": {
            "level": assessment.demand.level,
            "mode": assessment.demand.mode,
            "torch": minor_text(assessment.demand.minor),
            "attestation": ATTESTATION,
            "notice": SIMULATED if target.get("simulated") else None,
        },
        "evidence": {
            "manifest": assessment.demand.digest(),
            "results": hashlib.sha256(canonical_json(results)).hexdigest(),
            "suite": leg["digests"]["suite"],
            "counts": assessment.counts(),
            "comparisons": sum(row.get("comparisons", 0) for row in leg["results"]),
            "waived": list(assessment.waived),
            "not_claimed": {reason: len(names) for reason, names in assessment.not_claimed.items()},
            "placements": dict(sorted(samples.items())),
            "detection": _mutation_score(assessment.demand.level, assessment.demand.mode),
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
        "repeat": repeat_steps(leg, assessment.demand.level),
    }


def _mutation_score(level: str, mode: str) -> MutationScore | None:
    """Return the mutation score of a level, or None if the score was not measured in the mode."""
    measured = MutationScores.read()
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


def repeat_steps(leg: Leg, level: str) -> list[str]:
    """Return the steps that reproduce the certificate of a leg."""
    target = leg["target"]
    is_known = target["name"] in target_file.known_targets() and target["file"] == f"{target['name']}.toml"
    target_argument = target["name"] if is_known else target["file"]
    samples = "" if leg["samples"] == "default" else f" --samples {leg['samples']}"
    mode = leg["mode"]
    return [
        f"install torch {leg['torch']} (revision {leg['facts']['torch'].get('revision')}), the backend and "
        f"conformance {conformance.__version__}",
        f"conformance run --target {target_argument} --mode {mode} --level {leg['level']}{samples} -o out",
        f"conformance certify out --level {level} --mode {mode} -o certificate-{level}-{mode}.zip",
    ]
