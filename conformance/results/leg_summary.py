"""The judgement of a leg: the final verdicts of its results, and everything that follows from them.

:func:`conformance.results.final_verdicts.judge` makes it from the events of a run, :mod:`conformance.results.merge`
from the shards of a leg, and :meth:`Judgement.of` counts a finished leg again, for readers that do not trust
its sums: the check of a results file, and certificates.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Sequence

from conformance.expectations import entry_states
from conformance.model.records import ExpectationRecord, ExpectationReport, Leg, Missing, ResultRow, Totals
from conformance.model.verdicts import Verdict
from conformance.results import exit_codes

#: A leg keeps this many ids of missing results, and differences of the oracle.
SHOWN = 100


@dataclasses.dataclass(frozen=True)
class Judgement:
    """The rows of a leg with their final verdicts, the results that it lacks, and its expectations.

    ``left_out`` is the number of results that the user's selection left out. ``complete`` is not only that
    nothing is missing: the run came to its end, and the oracle gave the same values again.
    """

    rows: Sequence[ResultRow]
    left_out: int
    missing: Missing
    complete: bool
    expectations: ExpectationReport

    @staticmethod
    def of(leg: Leg) -> Judgement:
        """Count the rows of a leg again; nothing that it says in sum is used but what rows cannot show."""
        return Judgement(
            rows=leg["results"],
            left_out=leg["left_out"],
            missing=leg["missing"],
            complete=leg["complete"],
            expectations=leg["expectations"]
            if "expectations" in leg
            else report([], leg["mode"], whole=False),
        )

    @functools.cached_property
    def cases(self) -> dict[str, str]:
        """The worst verdict of each case, in the order of its rows."""
        verdicts: dict[str, list[Verdict]] = {}
        for row in self.rows:
            verdicts.setdefault(row["id"].rpartition("@")[0], []).append(Verdict(row["verdict"]))
        return {case: Verdict.worst(of_case).value for case, of_case in verdicts.items()}

    @functools.cached_property
    def totals(self) -> Totals:
        """Numbers of results by verdict; what the user's selection left out counts as ``skip``."""
        counts = collections.Counter(row["verdict"] for row in self.rows)
        counts[Verdict.SKIP.value] += self.left_out
        return ordered(counts)

    @functools.cached_property
    def case_totals(self) -> Totals:
        """Numbers of cases by verdict."""
        return ordered(collections.Counter(self.cases.values()))

    @property
    def planned(self) -> int:
        """The number of results that were due."""
        return len(self.rows) + self.missing["count"]

    @property
    def unexpected(self) -> int:
        """The number of results whose verdict is an unexpected one."""
        return sum(count for verdict, count in self.totals.items() if Verdict(verdict).unexpected)

    @property
    def exit(self) -> int:
        """The exit code of the leg. Wrong expectations count only if they could be judged."""
        if not self.complete:
            return exit_codes.INCOMPLETE
        wrong = self.expectations["judged"] and bool(self.expectations["problems"])
        return exit_codes.UNEXPECTED if wrong or self.unexpected else exit_codes.OK


def report(records: list[ExpectationRecord], mode: str, *, whole: bool) -> ExpectationReport:
    """The expectations of a leg. Of a part of one, only expired entries are problems."""
    problems = (
        entry_states.entry_problems(records, mode)
        if whole
        else [entry_states.expired_text(record) for record in records if record["expired"]]
    )
    return {"judged": whole, "problems": problems, "entries": records}


def ordered(counts: collections.Counter[str]) -> Totals:
    """Counts by verdict, the worst first."""
    return {verdict.value: counts[verdict.value] for verdict in Verdict if counts[verdict.value]}
