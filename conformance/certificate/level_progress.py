"""Compute the progress of each leg toward its next level, which a report shows at its top."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.certificate import level_assessment
from conformance.errors import UsageError
from conformance.model.records import Leg
from conformance.model.vocabulary import LEVELS
from conformance.plan.levels import manifest
from conformance.plan.levels.manifest import Manifest
from conformance.report import causes
from conformance.report.headline import LevelProgress, blockers_of


def level_progress_of(legs: Sequence[Leg]) -> list[LevelProgress]:
    """Return, for each leg, the broadest level that it holds, and the next level that its run can reach.

    A leg of level smoke, or on a torch minor without an entry in the manifest, has no progress.
    """
    loaded_manifest = manifest.load()
    return [
        progress
        for number, leg in enumerate(legs)
        for progress in _progress_of_leg(number, legs, loaded_manifest)
    ]


def _progress_of_leg(number: int, legs: Sequence[Leg], loaded_manifest: Manifest) -> Iterator[LevelProgress]:
    held_progress: LevelProgress | None = None
    for level in LEVELS:
        if not level_assessment.run_level_includes(legs[number]["level"], level):
            break
        try:
            progress = _progress_to_level(number, legs, loaded_manifest, level)
        except UsageError:
            return
        if progress is None:
            continue
        if not progress.holds:
            if held_progress is not None:
                yield held_progress
            yield progress
            return
        held_progress = progress
    if held_progress is not None:
        yield held_progress


def _progress_to_level(
    number: int, legs: Sequence[Leg], loaded_manifest: Manifest, level: str
) -> LevelProgress | None:
    leg = legs[number]
    assessment = level_assessment.assess_level(leg, loaded_manifest, level)
    if not assessment.required_count:
        return None
    missing = {name for names in assessment.missing.values() for name in names}
    present_rows = [(number, row) for row in leg["results"] if row["id"] in missing]
    absent = sorted(missing - {row["id"] for _, row in present_rows})
    return LevelProgress(
        number,
        level,
        assessment.required_count,
        len(assessment.passed),
        len(missing),
        assessment.holds_level,
        assessment.unfit,
        blockers_of(causes.group_by_cause(present_rows, legs), absent),
    )
