"""The opening of a report: the level that each leg holds, its progress to the next level, and the changes
since the previous run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from conformance.report import causes
from conformance.results.diff import ResultChange, RunComparison

#: The maximum number of displayed causes, and of displayed changes of one kind.
_NAMED = 12


@dataclasses.dataclass(frozen=True)
class LevelBlocker:
    """A group of results that prevent a leg from holding a level: all have one cause, or none has a row.

    Attributes:
        name: the name of the cause, as in ``causes.Cause.name``.
        count: the number of results.
        failure_text: the sample pattern, or the first line of the example's message.
        example: the id of the result to inspect first.
    """

    name: str
    count: int
    failure_text: str
    example: str


@dataclasses.dataclass(frozen=True)
class LevelProgress:
    """The progress of a leg toward a level.

    Attributes:
        leg: the index of the leg.
        level: the name of the level.
        due: the number of results that the level requires.
        passed: the number of required results that passed.
        missing: the number of required results that fail, have no row, or did not run on the device.
        holds: True if the leg holds the level.
        unfit: the reasons why the leg supports no level at all.
        blockers: the missing results by cause, the largest cause first.
    """

    leg: int
    level: str
    due: int
    passed: int
    missing: int
    holds: bool
    unfit: tuple[str, ...]
    blockers: tuple[LevelBlocker, ...]

    def to_json(self) -> dict[str, object]:
        """Return the fields as JSON. Blockers beyond the first dozen are only counted, as ``more``."""
        fields = dataclasses.asdict(self)
        fields["blockers"] = [dataclasses.asdict(blocker) for blocker in self.blockers[:_NAMED]]
        fields["more"] = len(self.blockers[_NAMED:])
        return fields


@dataclasses.dataclass(frozen=True)
class ReportOpening:
    """The opening of a report.

    Attributes:
        levels: for each leg, the broadest level that it holds, if any, and the next level.
        changes: the comparison with the previous run in the same folder, if any.
    """

    levels: Sequence[LevelProgress]
    changes: RunComparison | None = None

    def to_json(self) -> dict[str, object]:
        """Return the data that the report page embeds."""
        return {
            "levels": [progress.to_json() for progress in self.levels],
            "changes": None if self.changes is None else _changed_results_json(self.changes),
        }


def blockers_of(groups_of_rows: Sequence[causes.Cause], absent: Sequence[str]) -> tuple[LevelBlocker, ...]:
    """Return the blockers of a level, the largest first.

    Args:
        groups_of_rows: the missing results that have a row, by cause.
        absent: the ids of results without a row.
    """
    named_blockers = []
    for group in groups_of_rows:
        _, row = group.example
        first_line = next(iter(causes.kind_and_message(row)[1].splitlines()), "")[:300]
        named_blockers.append(
            LevelBlocker(group.name(), group.count, group.sample_pattern_sentence() or first_line, row["id"])
        )
    if absent:
        named_blockers.append(
            LevelBlocker("not run", len(absent), "the run has no row of this result", absent[0])
        )
    return tuple(sorted(named_blockers, key=lambda blocker: -blocker.count))


def _changed_results_json(report: RunComparison) -> dict[str, object]:
    sorts: dict[str, list[ResultChange]] = {"regressed": [], "changed": [], "fixed": [], "vanished": []}
    for pair in report.pairs:
        sorts["regressed"] += pair.regressed
        sorts["changed"] += pair.changed
        sorts["fixed"] += pair.fixed
        sorts["vanished"] += [] if pair.excuse else pair.vanished
    return {
        "notes": list(
            dict.fromkeys([*report.notes, *(note for pair in report.pairs for note in pair.notes)])
        ),
        "sorts": {
            name: {
                "count": len(changes),
                "first": [
                    {"id": change.id, "words": change.verdicts() + (f": {change.how}" if change.how else "")}
                    for change in changes[:_NAMED]
                ],
            }
            for name, changes in sorts.items()
        },
    }
