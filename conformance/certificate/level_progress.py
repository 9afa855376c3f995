"""The way of a run's legs to their levels, counted from their rows, for the opening of a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.certificate import level_assessment
from conformance.errors import UsageError
from conformance.model.records import Leg
from conformance.model.vocabulary import LEVELS
from conformance.plan.levels import manifest
from conformance.plan.levels.manifest import Manifest
from conformance.report import causes
from conformance.report.headline import LevelProgress, blockers


def of(legs: Sequence[Leg]) -> list[LevelProgress]:
    """For each leg the broadest level that it holds, if any, and the next that its run can give.

    A leg on a torch that the manifest does not know, or of level smoke, has none.
    """
    known = manifest.load()
    return [one for number, leg in enumerate(legs) for one in _leg(number, legs, known)]


def _leg(number: int, legs: Sequence[Leg], known: Manifest) -> Iterator[LevelProgress]:
    held: LevelProgress | None = None
    for level in LEVELS:
        if not level_assessment.levels_within(legs[number]["level"], level):
            break
        try:
            progress = _level(number, legs, known, level)
        except UsageError:
            return
        if progress is None:
            continue
        if not progress.holds:
            if held is not None:
                yield held
            yield progress
            return
        held = progress
    if held is not None:
        yield held


def _level(number: int, legs: Sequence[Leg], known: Manifest, level: str) -> LevelProgress | None:
    leg = legs[number]
    found = level_assessment.judge(leg, known, level)
    if not found.due:
        return None
    missing = {name for names in found.missing.values() for name in names}
    there = [(number, row) for row in leg["results"] if row["id"] in missing]
    absent = sorted(missing - {row["id"] for _, row in there})
    return LevelProgress(
        number,
        level,
        found.due,
        len(found.passed),
        len(missing),
        found.entitled,
        found.unfit,
        blockers(causes.grouped(there, legs), absent),
    )
