"""The opening of a report: the level that each leg holds, the way to the next, and what has changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from conformance.report import causes
from conformance.results.diff import Report, ResultChange

#: Causes, and changes of one sort, that the page names.
_NAMED = 12


@dataclasses.dataclass(frozen=True)
class Blocker:
    """Results that keep a leg from a level and have one cause, or no row at all.

    Attributes:
        name: of what fails, as in `groups.Group.name`.
        count: number of results.
        said: the first line of the example's message.
        example: the id of the result to look at first.
    """

    name: str
    count: int
    said: str
    example: str


@dataclasses.dataclass(frozen=True)
class LevelProgress:
    """A leg on its way to a level.

    Attributes:
        leg: number of the leg.
        level: its name.
        due: results that the level requires.
        passed: of them.
        missing: of them that fail, are not there or ran at another place than the device.
        holds: the leg holds the level.
        unfit: reasons for which the run as a whole yields no level.
        blockers: the missing ones by cause, the largest first.
    """

    leg: int
    level: str
    due: int
    passed: int
    missing: int
    holds: bool
    unfit: tuple[str, ...]
    blockers: tuple[Blocker, ...]

    def to_json(self) -> dict[str, object]:
        """The fields as JSON; blockers beyond the first dozen are counted only."""
        fields = dataclasses.asdict(self)
        fields["blockers"] = [dataclasses.asdict(blocker) for blocker in self.blockers[:_NAMED]]
        fields["more"] = len(self.blockers[_NAMED:])
        return fields


@dataclasses.dataclass(frozen=True)
class Opening:
    """The opening of a report.

    Attributes:
        levels: for each leg the broadest level that it holds, if any, and the next.
        changes: against the run before, if there was one in the same folder.
    """

    levels: Sequence[LevelProgress]
    changes: Report | None = None

    def to_json(self) -> dict[str, object]:
        """The opening as the page embeds it."""
        return {
            "levels": [progress.to_json() for progress in self.levels],
            "changes": None if self.changes is None else _changes(self.changes),
        }


def blockers_of(groups_of_rows: Sequence[causes.Cause], absent: Sequence[str]) -> tuple[Blocker, ...]:
    """Name what keeps a leg from a level.

    Args:
        groups_of_rows: the results that are there, by cause.
        absent: ids of results without a row.
    """
    named_blockers = []
    for group in groups_of_rows:
        _, row = group.example
        first_line = next(iter(causes.kind_and_message(row)[1].splitlines()), "")[:300]
        named_blockers.append(Blocker(group.name(), group.count, group.pattern() or first_line, row["id"]))
    if absent:
        named_blockers.append(Blocker("not run", len(absent), "the run has no such result", absent[0]))
    return tuple(sorted(named_blockers, key=lambda blocker: -blocker.count))


def _changes(report: Report) -> dict[str, object]:
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
                    {"id": change.id, "words": change.words() + (f": {change.how}" if change.how else "")}
                    for change in changes[:_NAMED]
                ],
            }
            for name, changes in sorts.items()
        },
    }
