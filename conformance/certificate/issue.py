"""Issuing and verifying: from results to a certificate, and from a bundle back to the same one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from conformance.certificate import document
from conformance.certificate.document import Certificate
from conformance.certificate.entitlement import Entitlement, judge
from conformance.errors import UsageError
from conformance.model import digests
from conformance.model.records import Document, Leg
from conformance.plan.levels.manifest import Manifest
from conformance.results import document as result_files
from conformance.results import privacy


def scrubbed(leg: Leg) -> Document:
    """The results document of one leg as a bundle holds it, made on the machine that hands it on."""
    kept = privacy.leg(leg)
    for row in kept["results"]:
        if "failures" in row:
            row["failures"] = privacy.without_host(row["failures"])
        if "notes" in row:
            row["notes"] = privacy.without_host(row["notes"])
    kept["problems"] = privacy.without_host(kept["problems"])
    return result_files.document([kept])


def suite_problem(leg: Leg) -> str | None:
    """The reason why the installed suite cannot judge a leg: another copy of the suite made it."""
    own, other = digests.suite(), leg["digests"]["suite"]
    if other == own:
        return None
    return (
        f"the results were made by another copy of the suite (digest {str(other)[:12]}) than the one that is "
        f"installed ({own[:12]}); install that one, or run again"
    )


def issue(leg: Leg, manifest: Manifest, level: str) -> tuple[Entitlement, Certificate, Document]:
    """The entitlement of a leg, its certificate and scrubbed results; the last two are for entitled ones."""
    kept = scrubbed(leg)
    found = judge(kept["legs"][0], manifest, level)
    problem = suite_problem(leg)
    if problem is not None:
        found = dataclasses.replace(found, unfit=(problem, *found.unfit))
    return found, document.certificate(kept, found), kept


@dataclasses.dataclass(frozen=True)
class Verification:
    """The outcome of checking a bundle: its certificate made again, and every difference."""

    found: Entitlement
    certificate: Certificate
    problems: tuple[str, ...]


def verify(certificate: Certificate, results: Document, manifest: Manifest) -> Verification:
    """Make the certificate of a bundle again from its rows, and hold it against the one in the bundle."""
    if len(results["legs"]) != 1:
        raise UsageError(
            f"the results of the bundle hold {len(results['legs'])} legs; a certificate is of one"
        )
    leg = results["legs"][0]
    claim = certificate["claim"]
    found = judge(leg, manifest, claim["level"])
    made = document.certificate(results, found)
    problems = [f"not entitled: {reason}" for reason in found.unfit]
    problems += [f"not entitled: {len(names)} results: {reason}" for reason, names in found.missing.items()]
    if not found.passed:
        problems.append("not entitled: no result of the level passed")
    problem = suite_problem(leg)
    if problem is not None:
        problems.append(problem)
    if result_files.document([leg]) != results:
        problems.append("the head of results.json does not follow from its rows")
    if privacy.leg(leg) != leg:
        problems.append("results.json holds what a certificate leaves out: paths, hosts or variables")
    problems += [
        f"{where} is {_short(one)}, recounted {_short(other)}"
        for where, one, other in differences(certificate, made)
    ]
    return Verification(found, made, tuple(problems))


def differences(one: Any, other: Any, where: str = "certificate") -> Iterator[tuple[str, Any, Any]]:
    """The places where two JSON values differ, with both values."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other}):
            yield from differences(one.get(key), other.get(key), f"{where}.{key}")
    elif one != other or type(one) is not type(other):
        yield where, one, other


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
