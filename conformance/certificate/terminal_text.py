"""Certificates, refusals and verifications as text for a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from conformance.certificate.document import Certificate
from conformance.certificate.level_assessment import LevelAssessment, part
from conformance.model.records import Leg
from conformance.model.verdicts import ResultId
from conformance.plan.levels import includes
from conformance.plan.levels.manifest import words as minor_words
from conformance.plan.levels.mutation_score import LevelScore
from conformance.report.summary import repeat, target_word, title

#: Groups that are shown, and results of each.
GROUPS = 12
SHOWN = 3


def claim(entitlement: LevelAssessment) -> str:
    """``core in eager on torch 2.13``."""
    demand = entitlement.demand
    return f"{demand.level} in {demand.mode} on torch {minor_words(demand.minor)}"


def counted(entitlement: LevelAssessment) -> Iterator[str]:
    """The counts of an entitlement: what passed, and beside it what is not claimed."""
    counts = entitlement.counts()
    share = 100 * counts["claimed"] / counts["due"] if counts["due"] else 0.0
    yield (
        f"  {counts['passed']} of {counts['claimed']} claimed results passed, {counts['waived']} waived; "
        f"{counts['claimed']} of the {counts['due']} results of the level are claimed ({share:.1f} %)"
    )
    for reason, names in list(entitlement.not_claimed.items())[:GROUPS]:
        yield f"    not claimed: {len(names)} for {reason}"
    hidden = list(entitlement.not_claimed.values())[GROUPS:]
    if hidden:
        yield f"    not claimed: {sum(map(len, hidden))} for {len(hidden)} other reasons"


def refused(
    leg: Leg, entitlement: LevelAssessment, held: str | None, narrowest: LevelAssessment | None = None
) -> Iterator[str]:
    """A refusal: what the leg lacks of a level, by cause, the level that it holds, and what to do next.

    ``narrowest`` is its entitlement to the narrowest level, if it holds none.
    """
    yield f"{title(leg)}: not entitled to {claim(entitlement)}"
    for reason in entitlement.unfit:
        yield f"  {reason}"
    yield from counted(entitlement)
    for reason, names in list(entitlement.missing.items())[:GROUPS]:
        yield f"  {len(names)} missing: {reason}"
        for name in names[:SHOWN]:
            yield f"    {name}"
        if len(names) > SHOWN:
            yield f"    and {len(names) - SHOWN} more"
    hidden = list(entitlement.missing.values())[GROUPS:]
    if hidden:
        yield f"  {sum(map(len, hidden))} missing for {len(hidden)} other reasons"
    yield f"held: {held} in {entitlement.demand.mode}" if held else "held: no level"
    if narrowest is not None and not narrowest.unfit:
        lost = [name for names in narrowest.missing.values() for name in names]
        yield (
            f"nearest: {narrowest.demand.level}, which lacks {len(lost)} of {narrowest.claimed} results, "
            f"first {lost[0]}"
        )
    yield from _advice(leg, entitlement, held)


def _advice(leg: Leg, entitlement: LevelAssessment, held: str | None) -> Iterator[str]:
    level, mode = entitlement.demand.level, entitlement.demand.mode
    target = shlex.quote(target_word(leg))
    if entitlement.unfit == (part(leg),):
        count = leg["shard"].partition("/")[2]
        yield f"next: conformance merge DIR... -o OUT, with the folders of all {count} shards"
        return
    if entitlement.unfit:
        yield f"next: conformance run --target {target} --mode {mode} --level {level} -o DIR"
        return
    for reason, names in entitlement.missing.items():
        if reason == "no result":
            yield f"next: find out why {names[0]} was not run: the run's target or suite is another"
        elif reason.startswith("placed "):
            operator = ResultId.parse(names[0]).case.subject
            yield f"next: give the device a kernel of its own for {operator}"
        elif reason.startswith("unsupported"):
            yield f"next: {level} cannot do without {names[0]}; make it work"
        else:
            yield f"next: {repeat(names[0], target_word(leg), leg)}"
        break
    if held and includes(level, held) and held != level:
        yield f"or certify what is held: conformance certify DIR --level {held} --mode {mode} -o BUNDLE"


def granted(entitlement: LevelAssessment, certificate: Certificate) -> Iterator[str]:
    """The lines of a certificate."""
    target = certificate["statements"]["target"]
    yield f"{target['name']}: {claim(entitlement)}, {certificate['claim']['attestation']}"
    if certificate["claim"]["notice"]:
        yield f"  {certificate['claim']['notice']}"
    yield from counted(entitlement)
    for name in entitlement.waived[:SHOWN]:
        yield f"    waived, torch itself is at fault: {name}"
    if len(entitlement.waived) > SHOWN:
        yield f"    and {len(entitlement.waived) - SHOWN} more waived"
    yield f"  {_detection(certificate)}"
    yield f"  manifest {certificate['evidence']['manifest']}"


def evidence(certificate: Certificate) -> Iterator[str]:
    """The evidence, which was counted again, and apart from it the run's own statements."""
    counted_again = certificate["evidence"]
    yield "evidence (recounted here from the rows):"
    yield f"  manifest {counted_again['manifest']}, recomputed from the installed suite"
    yield f"  suite    {counted_again['suite']}, the installed one"
    yield f"  results  {counted_again['results']}"
    yield f"  {counted_again['comparisons']} comparisons in all rows"
    yield f"  placements of operators that must not fall back: {_table(counted_again['placements'])}"
    yield f"  {_detection(certificate)}"
    stated = certificate["statements"]
    yield f"statements ({certificate['claim']['attestation']}: the run's own words, which no one attests):"
    tables: dict[str, Mapping[str, object]] = {
        "target": stated["target"],
        "torch": stated["torch"],
        "backend": stated["backend"],
        "environment": stated["environment"],
        "digests": stated["digests"],
    }
    for name, table in tables.items():
        yield f"  {name}: {_table(table)}"
    took = f"started {stated['started']}, {stated['seconds']:.0f} s"
    yield f"  python {stated['python']}, {stated['system']}, {took}"
    yield "repeat it:"
    for line in certificate["repeat"]:
        yield f"  {line}"


def _detection(certificate: Certificate) -> str:
    """The line about what the suite that issued the certificate can see."""
    found = certificate["evidence"]["detection"]
    if found is None:
        return f"detection power of the suite: not measured in mode {certificate['claim']['mode']}"
    power = LevelScore(found["killed"], found["of"], found["killed_called"], found["of_called"])
    return f"detection power of the level: {power.words()} (measured on {found['measured_on']})"


def _table(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items()) or "none"
