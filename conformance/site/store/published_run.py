"""A published run: one leg without its result rows, with its counts and its provenance."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Mapping, Sequence
from typing import Any, cast

from conformance.certificate import level_assessment
from conformance.certificate.leg_status import LegStatus, leg_status
from conformance.errors import UsageError
from conformance.model import seeds
from conformance.model.records import Leg, ResultRow
from conformance.plan.levels import manifest
from conformance.results import diff
from conformance.site.build_columns import Build
from conformance.site.provenance import Provenance
from conformance.site.submissions import Submission

_GOOD = ("pass", "xfail", "parity")
#: The maximum number of stored ids of regressed results. All regressions are counted.
_NAMED = 1000
#: The maximum number of stored problems of a leg, and the maximum number of characters of a problem.
_PROBLEMS, _PROBLEM = 10, 500


@dataclasses.dataclass(frozen=True)
class PublishedRun:
    """A leg of a published run, with its counts. The data of the site calls it a night.

    ``leg`` has no result rows. ``level`` is the broadest level that the leg holds. ``planned`` is the number
    of results at the level of the run: ``passed`` of these results passed, and the target claims ``claimed``
    of them. ``regressed`` lists ids of results that regressed since the run ``compared_with``: at most a
    thousand of the ``regressed_count`` results.
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
    status: LegStatus
    regressed: tuple[str, ...] = ()
    regressed_count: int = 0
    compared_with: str | None = None

    @property
    def time_for_order(self) -> datetime.datetime:
        """The time that determines the order and the age of runs.

        For a run of this project's workflow, this is the time of receipt, which a backend cannot set. For
        every other run, this is the start of the run.
        """
        return self.provenance.received if self.provenance.channel == "our-workflow" else self.started

    @property
    def mode(self) -> str:
        """The mode of the leg."""
        return str(self.leg["mode"])

    @property
    def passed_share(self) -> float:
        """The share of planned results that passed."""
        return self.passed / self.planned if self.planned else 0.0

    @property
    def claimed_share(self) -> float:
        """The share of planned results that the target claims."""
        return self.claimed / self.planned if self.planned else 0.0

    @property
    def is_complete(self) -> bool:
        """True if the leg is complete, so that it can be compared with other runs."""
        return self.status in (LegStatus.PASSED, LegStatus.FAILED)

    @staticmethod
    def from_submission(submission: Submission) -> PublishedRun:
        """Return the published run of a submission."""
        leg = submission.leg
        totals, planned = leg["totals"], int(leg["planned"])
        return PublishedRun(
            run=submission.run,
            build=Build.from_leg(leg),
            leg=_leg_without_results(leg),
            provenance=submission.provenance,
            started=submission.started,
            level=_broadest_level_held(leg),
            passed=sum(int(totals.get(verdict, 0)) for verdict in _GOOD),
            planned=planned,
            claimed=planned - int(totals.get("unsupported", 0)),
            status=leg_status(leg)[0],
        )

    def with_regressions_since(
        self, rows: Sequence[ResultRow], before: PublishedRun, rows_before: Sequence[ResultRow]
    ) -> PublishedRun:
        """Return this run with the results that regressed since the run ``before``.

        ``rows`` and ``rows_before`` are the result rows of the two runs.
        """
        old = cast("Leg", {**before.leg, "results": rows_before})
        new = cast("Leg", {**self.leg, "results": rows})
        try:
            report = diff.compare_runs([old], [new])
        except UsageError:  # the runs have no leg in common
            return self
        regressed = tuple(change.id for pair in report.pairs for change in pair.worse_results)
        return dataclasses.replace(
            self, regressed=regressed[:_NAMED], regressed_count=len(regressed), compared_with=before.run
        )

    def is_comparable_with(self, earlier: PublishedRun) -> bool:
        """Return True if both runs are complete and have the same level, samples and seed."""
        options = [
            (run.leg["level"], run.leg["samples"], run.leg.get("seed", seeds.RELEASE_SEED))
            for run in (self, earlier)
        ]
        same = options[0] == options[1]
        return same and self.is_complete and earlier.is_complete

    def to_json(self) -> dict[str, Any]:
        """Return the run as JSON."""
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
        """Return the run that :meth:`to_json` converted to ``data``."""
        origin = data["provenance"]
        received = datetime.datetime.fromisoformat(origin["received"])
        simple_fields = {name: data[name] for name in _SIMPLE_FIELDS}
        simple_fields["status"] = LegStatus(simple_fields["status"])
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
    """Return the leg without its result rows and without the fields that the site does not display."""
    fields = {key: value for key, value in leg.items() if key not in ("results", "cases", "expectations")}
    fields["problems"] = [text[:_PROBLEM] for text in leg["problems"][:_PROBLEMS]]
    fields["facts"] = {key: value for key, value in leg["facts"].items() if key != "environment"}
    return cast("Leg", {**fields, "results": [], "cases": {}})


@functools.cache
def _manifest() -> manifest.Manifest:
    return manifest.load()


def _broadest_level_held(leg: Leg) -> str | None:
    """Return the broadest level that a leg holds.

    Return None if it holds no level, or the manifest has no entry for its torch minor.
    """
    try:
        return level_assessment.broadest_level_held(leg, _manifest())
    except UsageError:
        return None
