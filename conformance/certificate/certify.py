"""Issue the certificate of a leg, and verify a certificate by recomputing it from its results."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from conformance.certificate import document
from conformance.certificate.document import Certificate
from conformance.certificate.level_assessment import LevelAssessment, assess_level
from conformance.errors import UsageError
from conformance.model import digests
from conformance.model.records import Document, Leg
from conformance.plan.levels.manifest import Manifest
from conformance.results import document as result_files
from conformance.results import scrub


def scrubbed_document(leg: Leg) -> Document:
    """Return the results document of one leg without paths, host names and unlisted variables.

    The function runs on the machine that issues the certificate, because it removes the name of that machine.
    """
    scrubbed_leg = scrub.scrub_leg(leg)
    for row in scrubbed_leg["results"]:
        if "failures" in row:
            row["failures"] = scrub.without_host_name(row["failures"])
        if "notes" in row:
            row["notes"] = scrub.without_host_name(row["notes"])
    scrubbed_leg["problems"] = scrub.without_host_name(scrubbed_leg["problems"])
    return result_files.results_document([scrubbed_leg])


def suite_mismatch_problem(leg: Leg) -> str | None:
    """Return an error text if a different copy of the suite produced the leg, else None."""
    installed, theirs = digests.suite_digest(), leg["digests"]["suite"]
    if theirs == installed:
        return None
    return (
        f"the results come from a different copy of the suite (digest {str(theirs)[:12]}) than the installed "
        f"suite ({installed[:12]}); install that copy, or run the suite again"
    )


def issue_certificate(
    leg: Leg, manifest: Manifest, level: str
) -> tuple[LevelAssessment, Certificate, Document]:
    """Return the level assessment of a leg, its certificate and its scrubbed results.

    The certificate is valid only if the leg holds the level, which the caller must check in the assessment.
    """
    results = scrubbed_document(leg)
    assessment = assess_level(results["legs"][0], manifest, level)
    problem = suite_mismatch_problem(leg)
    if problem is not None:
        assessment = dataclasses.replace(assessment, unfit=(problem, *assessment.unfit))
    return assessment, document.make_certificate(results, assessment), results


@dataclasses.dataclass(frozen=True)
class Verification:
    """The outcome of a verification: the recomputed assessment and certificate, and the problems."""

    assessment: LevelAssessment
    certificate: Certificate
    problems: tuple[str, ...]


def verify_certificate(certificate: Certificate, results: Document, manifest: Manifest) -> Verification:
    """Recompute the certificate of a bundle from its result rows, and compare it with ``certificate``."""
    if len(results["legs"]) != 1:
        raise UsageError(
            f"the results of the bundle contain {len(results['legs'])} legs; a certificate covers one leg"
        )
    leg = results["legs"][0]
    claim = certificate["claim"]
    assessment = assess_level(leg, manifest, claim["level"])
    recounted = document.make_certificate(results, assessment)
    problems = [f"level not held: {reason}" for reason in assessment.unfit]
    problems += [
        f"level not held: {len(names)} results: {reason}" for reason, names in assessment.missing.items()
    ]
    if not assessment.passed:
        problems.append("level not held: no result of the level passed")
    problem = suite_mismatch_problem(leg)
    if problem is not None:
        problems.append(problem)
    if result_files.results_document([leg]) != results:
        problems.append("the summary fields of results.json do not match its rows")
    if scrub.scrub_leg(leg) != leg:
        problems.append(
            "results.json contains paths, host names or variables that a certificate must not contain"
        )
    problems += [
        f"{where} is {_shorten_repr(stated)}, but the rows give {_shorten_repr(counted)}"
        for where, stated, counted in json_differences(certificate, recounted)
    ]
    return Verification(assessment, recounted, tuple(problems))


def json_differences(first: Any, second: Any, where: str = "certificate") -> Iterator[tuple[str, Any, Any]]:
    """Yield the path, the first and the second value of each difference between two JSON values."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in sorted({*first, *second}):
            yield from json_differences(first.get(key), second.get(key), f"{where}.{key}")
    elif first != second or type(first) is not type(second):
        yield where, first, second


def _shorten_repr(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
