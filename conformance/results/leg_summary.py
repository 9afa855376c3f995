"""The summary of a leg: its result rows, and the totals and the exit code that are computed from them.

:func:`conformance.results.final_verdicts.judge_leg` creates a summary from the run state, and
:mod:`conformance.results.merge` from the shards of a leg. :meth:`LegSummary.from_leg` recounts the rows of a
finished leg. Certificates and the validation of results files call :meth:`LegSummary.from_leg`, because they
do not trust the totals in a file.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Sequence

from conformance.expectations import entry_states
from conformance.model.records import (
    ExpectationRecord,
    ExpectationReport,
    Leg,
    MissingResults,
    ResultRow,
    Totals,
)
from conformance.model.verdicts import Verdict
from conformance.results import exit_codes

#: A leg lists at most this many ids of missing results, and at most this many reference value differences.
MAX_LISTED = 100


@dataclasses.dataclass(frozen=True)
class LegSummary:
    """The final rows of a leg, its missing results and its expectations. All totals are computed from these
    fields.

    ``left_out`` is the number of results that the user's selection omits. ``complete`` means that no result
    is missing, that the run finished, and that the recheck reproduced the reference values.
    """

    rows: Sequence[ResultRow]
    left_out: int
    missing: MissingResults
    complete: bool
    expectations: ExpectationReport

    @staticmethod
    def from_leg(leg: Leg) -> LegSummary:
        """Return the summary of a finished leg, with all totals recounted from its rows.

        The numbers of omitted and missing results are copied from the leg, because these results have no
        rows.
        """
        return LegSummary(
            rows=leg["results"],
            left_out=leg["left_out"],
            missing=leg["missing"],
            complete=leg["complete"],
            expectations=leg["expectations"]
            if "expectations" in leg
            else expectation_report([], leg["mode"], whole=False),
        )

    @functools.cached_property
    def cases(self) -> dict[str, str]:
        """The worst verdict of each case, in the order of the rows."""
        verdicts: dict[str, list[Verdict]] = {}
        for row in self.rows:
            verdicts.setdefault(row["id"].rpartition("@")[0], []).append(Verdict(row["verdict"]))
        return {case: Verdict.worst(of_case).value for case, of_case in verdicts.items()}

    @functools.cached_property
    def totals(self) -> Totals:
        """Numbers of results by verdict; results that the user's selection omits count as ``skip``."""
        counts = collections.Counter(row["verdict"] for row in self.rows)
        counts[Verdict.SKIP.value] += self.left_out
        return ordered_totals(counts)

    @functools.cached_property
    def case_totals(self) -> Totals:
        """Numbers of cases by verdict."""
        return ordered_totals(collections.Counter(self.cases.values()))

    @property
    def planned_count(self) -> int:
        """The number of planned results."""
        return len(self.rows) + self.missing["count"]

    @property
    def unexpected_count(self) -> int:
        """The number of results with an unexpected verdict."""
        return sum(count for verdict, count in self.totals.items() if Verdict(verdict).unexpected)

    @property
    def exit_code(self) -> int:
        """The exit code of the leg. Problems of expectations count only if the leg is unrestricted."""
        if not self.complete:
            return exit_codes.INCOMPLETE
        wrong = self.expectations["judged"] and bool(self.expectations["problems"])
        return exit_codes.UNEXPECTED if wrong or self.unexpected_count else exit_codes.OK


def expectation_report(records: list[ExpectationRecord], mode: str, *, whole: bool) -> ExpectationReport:
    """Return the report on the expectations of a leg. If ``whole`` is false, only expired entries are
    problems.
    """
    problems = (
        entry_states.entry_problems(records, mode)
        if whole
        else [entry_states.expired_text(record) for record in records if record["expired"]]
    )
    return {"judged": whole, "problems": problems, "entries": records}


def ordered_totals(counts: collections.Counter[str]) -> Totals:
    """Return counts by verdict, the worst first."""
    return {verdict.value: counts[verdict.value] for verdict in Verdict if counts[verdict.value]}
