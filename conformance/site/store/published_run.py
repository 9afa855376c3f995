"""One run of one leg as the site keeps it: the leg without its results, its sums, and where it came from."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Mapping, Sequence
from typing import Any, cast

from conformance.certificate import leg_status, level_assessment
from conformance.errors import UsageError
from conformance.model.records import Leg, ResultRow
from conformance.plan.levels import manifest
from conformance.results import diff
from conformance.site.build_columns import Build
from conformance.site.provenance import Provenance
from conformance.site.submissions import Submission

_GOOD = ("pass", "xfail")
#: Regressed results that are named; all are counted.
_NAMED = 1000
#: Problems of a leg that are kept, and the characters of each.
_PROBLEMS, _PROBLEM = 10, 500


@dataclasses.dataclass(frozen=True)
class PublishedRun:
    """A leg in figures. ``leg`` has no results; ``level`` is the broadest level that it held.

    ``passed`` and ``claimed`` count among the ``planned`` results of its own level. ``regressed`` are the ids
    that regressed since the run ``compared_with``, at most a thousand of ``regressed_count``.
    """

    run: str
    build: Build
    leg: Leg
    provenance: Provenance
    started: datetime.datetime
    level: str | None
    passed: int
    planned: int
    claimed: int
    status: str
    regressed: tuple[str, ...] = ()
    regressed_count: int = 0
    compared_with: str | None = None

    @property
    def when(self) -> datetime.datetime:
        """The time by which runs are ordered and aged: for our own workflow its clock, which no backend can
        set.
        """
        return self.provenance.received if self.provenance.channel == "our-workflow" else self.started

    @property
    def mode(self) -> str:
        """The mode of the leg."""
        return str(self.leg["mode"])

    @property
    def share(self) -> float:
        """The share of planned results that passed."""
        return self.passed / self.planned if self.planned else 0.0

    @property
    def share_claimed(self) -> float:
        """The share of planned results that the target claims."""
        return self.claimed / self.planned if self.planned else 0.0

    @property
    def ran(self) -> bool:
        """True if the leg ran to its end, so that a later one can be compared with it."""
        return self.status in ("passed", "failed")

    @staticmethod
    def of(submission: Submission) -> PublishedRun:
        """Sum up a run."""
        leg = submission.leg
        totals, planned = leg["totals"], int(leg["planned"])
        return PublishedRun(
            run=submission.run,
            build=Build.of(leg),
            leg=_leg_without_results(leg),
            provenance=submission.provenance,
            started=submission.started,
            level=_broadest_level_held(leg),
            passed=sum(int(totals.get(verdict, 0)) for verdict in _GOOD),
            planned=planned,
            claimed=planned - int(totals.get("unsupported", 0)),
            status=leg_status.leg_status(leg)[0],
        )

    def compared(
        self, rows: Sequence[ResultRow], before: PublishedRun, rows_before: Sequence[ResultRow]
    ) -> PublishedRun:
        """Return the same night with what regressed since one before it."""
        old = cast("Leg", {**before.leg, "results": rows_before})
        new = cast("Leg", {**self.leg, "results": rows})
        try:
            report = diff.compare([old], [new])
        except UsageError:  # nothing in common
            return self
        regressed = tuple(change.id for pair in report.pairs for change in pair.counted)
        return dataclasses.replace(
            self, regressed=regressed[:_NAMED], regressed_count=len(regressed), compared_with=before.run
        )

    def comparable(self, earlier: PublishedRun) -> bool:
        """Return True if an earlier night ran whole, on the same level and samples."""
        same = (self.leg["level"], self.leg["samples"]) == (earlier.leg["level"], earlier.leg["samples"])
        return same and self.ran and earlier.ran

    def to_json(self) -> dict[str, Any]:
        """An object that :meth:`from_json` reads."""
        return {
            **{name: getattr(self, name) for name in _SIMPLE_FIELDS},
            "build": dataclasses.asdict(self.build),
            "provenance": {
                **dataclasses.asdict(self.provenance),
                "received": self.provenance.received.isoformat(),
            },
            "started": self.started.isoformat(),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> PublishedRun:
        """The inverse of :meth:`to_json`."""
        origin = data["provenance"]
        received = datetime.datetime.fromisoformat(origin["received"])
        simple_fields = {name: data[name] for name in _SIMPLE_FIELDS}
        simple_fields["regressed"] = tuple(simple_fields["regressed"])
        return PublishedRun(
            **simple_fields,
            build=Build(**data["build"]),
            provenance=Provenance(**{**origin, "received": received}),
            started=datetime.datetime.fromisoformat(data["started"]),
        )


_SIMPLE_FIELDS = (
    *("run", "leg", "level", "passed", "planned", "claimed", "status"),
    *("regressed", "regressed_count", "compared_with"),
)


def _leg_without_results(leg: Leg) -> Leg:
    """The leg without its results, and without what the site does not show."""
    fields = {key: value for key, value in leg.items() if key not in ("results", "cases", "expectations")}
    fields["problems"] = [text[:_PROBLEM] for text in leg["problems"][:_PROBLEMS]]
    fields["facts"] = {key: value for key, value in leg["facts"].items() if key != "environment"}
    return cast("Leg", {**fields, "results": [], "cases": {}})


@functools.cache
def _manifest() -> manifest.Manifest:
    return manifest.load()


def _broadest_level_held(leg: Leg) -> str | None:
    """Return the broadest level that a leg holds, or None, also if the manifest does not know its torch."""
    try:
        return level_assessment.broadest_level_held(leg, _manifest())
    except UsageError:
        return None
