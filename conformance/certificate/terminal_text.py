"""Format certificates, failed certifications and verifications for a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from conformance.certificate.document import Certificate
from conformance.certificate.level_assessment import LevelAssessment, shard_reason
from conformance.model.records import Leg
from conformance.model.verdicts import ResultId
from conformance.plan.levels import includes_level
from conformance.plan.levels.manifest import minor_text as minor_words
from conformance.plan.levels.mutation_score import LevelScore
from conformance.report.summary import leg_title, repro_command, target_argument

#: The maximum number of displayed groups, and of displayed results per group.
GROUPS = 12
SHOWN = 3


def claim_text(assessment: LevelAssessment) -> str:
    """Return the assessed level, mode and torch, such as ``core in eager on torch 2.13``."""
    demand = assessment.demand
    return f"{demand.level} in {demand.mode} on torch {minor_words(demand.minor)}"


def count_lines(assessment: LevelAssessment) -> Iterator[str]:
    """Yield the numbers of passed, claimed and waived results, and of unclaimed results by reason."""
    counts = assessment.counts()
    share = 100 * counts["claimed"] / counts["due"] if counts["due"] else 0.0
    yield (
        f"  {counts['passed']} of {counts['claimed']} claimed results passed, {counts['waived']} waived; "
        f"{counts['claimed']} of the {counts['due']} results of the level are claimed ({share:.1f} %)"
    )
    for reason, names in list(assessment.not_claimed.items())[:GROUPS]:
        yield f"    not claimed: {len(names)} for {reason}"
    hidden = list(assessment.not_claimed.values())[GROUPS:]
    if hidden:
        yield f"    not claimed: {sum(map(len, hidden))} for {len(hidden)} other reasons"


def refusal_lines(
    leg: Leg, assessment: LevelAssessment, held_level: str | None, narrowest: LevelAssessment | None = None
) -> Iterator[str]:
    """Yield the lines for a leg that does not hold the requested level.

    The lines list the missing results by cause, the level that the leg holds, and the next step.
    ``narrowest`` is the assessment of the narrowest level if the leg holds no level.
    """
    yield f"{leg_title(leg)}: does not hold {claim_text(assessment)}"
    for reason in assessment.unfit:
        yield f"  {reason}"
    yield from count_lines(assessment)
    for reason, names in list(assessment.missing.items())[:GROUPS]:
        yield f"  {len(names)} missing: {reason}"
        for name in names[:SHOWN]:
            yield f"    {name}"
        if len(names) > SHOWN:
            yield f"    and {len(names) - SHOWN} more"
    hidden = list(assessment.missing.values())[GROUPS:]
    if hidden:
        yield f"  {sum(map(len, hidden))} missing for {len(hidden)} other reasons"
    yield f"held: {held_level} in {assessment.demand.mode}" if held_level else "held: no level"
    if narrowest is not None and not narrowest.unfit:
        lost = [name for names in narrowest.missing.values() for name in names]
        yield (
            f"nearest: {narrowest.demand.level}, {len(lost)} of {narrowest.claimed_count} results are "
            f"missing, first {lost[0]}"
        )
    yield from _advice_lines(leg, assessment, held_level)


def _advice_lines(leg: Leg, assessment: LevelAssessment, held_level: str | None) -> Iterator[str]:
    level, mode = assessment.demand.level, assessment.demand.mode
    target = shlex.quote(target_argument(leg))
    if assessment.unfit == (shard_reason(leg),):
        count = leg["shard"].partition("/")[2]
        yield f"next: conformance merge DIR... -o OUT, with the folders of all {count} shards"
        return
    if assessment.unfit:
        yield f"next: conformance run --target {target} --mode {mode} --level {level} -o DIR"
        return
    for reason, names in assessment.missing.items():
        if reason == "no result":
            yield f"next: find out why {names[0]} was not run: the run had a different target or suite"
        elif reason.startswith("placed "):
            operator = ResultId.parse(names[0]).case.subject
            yield f"next: implement a device kernel for {operator}"
        elif reason.startswith("unsupported"):
            yield f"next: level {level} requires {names[0]}; implement it"
        else:
            yield f"next: {repro_command(names[0], target_argument(leg), leg)}"
        break
    if held_level and includes_level(level, held_level) and held_level != level:
        command = f"conformance certify DIR --level {held_level} --mode {mode} -o BUNDLE"
        yield f"or certify the level that the run holds: {command}"


def certificate_lines(assessment: LevelAssessment, certificate: Certificate) -> Iterator[str]:
    """Yield the lines of a certificate."""
    target = certificate["statements"]["target"]
    yield f"{target['name']}: {claim_text(assessment)}, {certificate['claim']['attestation']}"
    if certificate["claim"]["notice"]:
        yield f"  {certificate['claim']['notice']}"
    yield from count_lines(assessment)
    for name in assessment.waived[:SHOWN]:
        yield f"    waived, a failure of torch itself: {name}"
    if len(assessment.waived) > SHOWN:
        yield f"    and {len(assessment.waived) - SHOWN} more waived"
    yield f"  {_mutation_score_text(certificate)}"
    yield f"  manifest {certificate['evidence']['manifest']}"


def evidence_lines(certificate: Certificate) -> Iterator[str]:
    """Yield the recomputed evidence of a certificate, then the statements of the run about itself."""
    counted_again = certificate["evidence"]
    yield "evidence (recounted here from the rows):"
    yield f"  manifest {counted_again['manifest']}, recomputed from the installed suite"
    yield f"  suite    {counted_again['suite']}, the installed suite"
    yield f"  results  {counted_again['results']}"
    yield f"  {counted_again['comparisons']} comparisons in all rows"
    yield f"  placements of operators that must not fall back: {_key_value_text(counted_again['placements'])}"
    yield f"  {_mutation_score_text(certificate)}"
    stated = certificate["statements"]
    yield f"statements ({certificate['claim']['attestation']}: recorded by the run itself, not attested):"
    tables: dict[str, Mapping[str, object]] = {
        "target": stated["target"],
        "torch": stated["torch"],
        "backend": stated["backend"],
        "environment": stated["environment"],
        "digests": stated["digests"],
    }
    for name, table in tables.items():
        yield f"  {name}: {_key_value_text(table)}"
    took = f"started {stated['started']}, {stated['seconds']:.0f} s"
    yield f"  python {stated['python']}, {stated['system']}, {took}"
    yield "to repeat the run:"
    for line in certificate["repeat"]:
        yield f"  {line}"


def _mutation_score_text(certificate: Certificate) -> str:
    """Return the line with the mutation score of the suite that issued the certificate."""
    detection = certificate["evidence"]["detection"]
    if detection is None:
        return f"mutation score of the suite: not measured in mode {certificate['claim']['mode']}"
    power = LevelScore(
        detection["killed"], detection["of"], detection["killed_called"], detection["of_called"]
    )
    return f"mutation score of the level: {power.describe()} (measured on {detection['measured_on']})"


def _key_value_text(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items()) or "none"
