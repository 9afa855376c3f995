"""The certificate: a document that follows from results, so that whoever has these can make it again."""

from __future__ import annotations

import collections
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import conformance
from conformance.certificate.entitlement import Entitlement
from conformance.plan.levels.manifest import words
from conformance.target import file as target_file

SCHEMA = 1
#: What a certificate is without anybody who vouches for the run.
ATTESTATION = "self-reported"
SIMULATED = "simulated device: no hardware stands behind these results"


def canonical(data: Any) -> bytes:
    """JSON in the one form of which digests are taken."""
    return (json.dumps(data, separators=(",", ":"), sort_keys=True, ensure_ascii=True) + "\n").encode()


def certificate(results: Mapping[str, Any], found: Entitlement) -> dict[str, Any]:
    """The certificate of the only leg of some results, which must be scrubbed already.

    ``evidence`` is what anyone can count again from the rows; ``statements`` are what the run says of itself.
    """
    leg = results["legs"][0]
    target, facts = leg["target"], leg["facts"]
    samples = collections.Counter(found.placements.values())
    return {
        "schema": SCHEMA,
        "suite": conformance.__version__,
        "claim": {
            "level": found.demand.level,
            "mode": found.demand.mode,
            "torch": words(found.demand.minor),
            "attestation": ATTESTATION,
            "notice": SIMULATED if target.get("simulated") else None,
        },
        "evidence": {
            "manifest": found.demand.digest(),
            "results": hashlib.sha256(canonical(results)).hexdigest(),
            "suite": leg["digests"]["suite"],
            "counts": found.counts(),
            "comparisons": sum(row.get("comparisons", 0) for row in leg["results"]),
            "waived": list(found.waived),
            "not_claimed": {reason: len(names) for reason, names in found.not_claimed.items()},
            "placements": dict(sorted(samples.items())),
        },
        "statements": {
            "target": {key: target.get(key) for key in ("name", "device", "precision", "simulated")},
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
        "repeat": repeat(leg, found.demand.level),
    }


def repeat(leg: Mapping[str, Any], level: str) -> list[str]:
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
