"""Issuing and verifying: from results to a certificate, and from a bundle back to the same one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from conformance.certificate import document
from conformance.certificate.document import Certificate
from conformance.certificate.level_assessment import LevelAssessment, judge
from conformance.errors import UsageError
from conformance.model import digests
from conformance.model.records import Document, Leg
from conformance.plan.levels.manifest import Manifest
from conformance.results import document as result_files
from conformance.results import scrub


def scrubbed(leg: Leg) -> Document:
    """The results document of one leg as a bundle holds it, made on the machine that hands it on."""
    kept = scrub.leg(leg)
    for row in kept["results"]:
        if "failures" in row:
            row["failures"] = scrub.without_host(row["failures"])
        if "notes" in row:
            row["notes"] = scrub.without_host(row["notes"])
    kept["problems"] = scrub.without_host(kept["problems"])
    return result_files.document([kept])


def suite_problem(leg: Leg) -> str | None:
    """The reason why the installed suite cannot judge a leg: another copy of the suite made it."""
    installed, theirs = digests.suite(), leg["digests"]["suite"]
    if theirs == installed:
        return None
    return (
        f"the results were made by another copy of the suite (digest {str(theirs)[:12]}) than the one that "
        f"is installed ({installed[:12]}); install that one, or run again"
    )


def issue(leg: Leg, manifest: Manifest, level: str) -> tuple[LevelAssessment, Certificate, Document]:
    """The entitlement of a leg, its certificate and scrubbed results; the last two are for entitled ones."""
    kept = scrubbed(leg)
    entitlement = judge(kept["legs"][0], manifest, level)
    problem = suite_problem(leg)
    if problem is not None:
        entitlement = dataclasses.replace(entitlement, unfit=(problem, *entitlement.unfit))
    return entitlement, document.certificate(kept, entitlement), kept


@dataclasses.dataclass(frozen=True)
class Verification:
    """The outcome of checking a bundle: its certificate made again, and every difference."""

    found: LevelAssessment
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
    entitlement = judge(leg, manifest, claim["level"])
    recounted = document.certificate(results, entitlement)
    problems = [f"not entitled: {reason}" for reason in entitlement.unfit]
    problems += [
        f"not entitled: {len(names)} results: {reason}" for reason, names in entitlement.missing.items()
    ]
    if not entitlement.passed:
        problems.append("not entitled: no result of the level passed")
    problem = suite_problem(leg)
    if problem is not None:
        problems.append(problem)
    if result_files.document([leg]) != results:
        problems.append("the head of results.json does not follow from its rows")
    if scrub.leg(leg) != leg:
        problems.append("results.json holds what a certificate leaves out: paths, hosts or variables")
    problems += [
        f"{where} is {_short(stated)}, recounted {_short(counted)}"
        for where, stated, counted in differences(certificate, recounted)
    ]
    return Verification(entitlement, recounted, tuple(problems))


def differences(first: Any, second: Any, where: str = "certificate") -> Iterator[tuple[str, Any, Any]]:
    """The places where two JSON values differ, with both values."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in sorted({*first, *second}):
            yield from differences(first.get(key), second.get(key), f"{where}.{key}")
    elif first != second or type(first) is not type(second):
        yield where, first, second


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
