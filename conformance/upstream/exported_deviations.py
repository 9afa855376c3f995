"""Find the deviations of a run that can be exported for upstream tests.

A failing result is exported as an expected failure, so that the upstream test fails when the backend is
fixed. Results that end or block the process are exported as skips instead. Inconclusive results are not
exported.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from conformance.errors import UsageError
from conformance.model.records import Leg, ResultRow
from conformance.model.verdicts import Kind, ResultId, Verdict, printable
from conformance.model.vocabulary import ANY_DTYPE
from conformance.results import scrub
from conformance.target.file import DTYPES
from conformance.upstream.matching_tests import Databases, UpstreamMethod, methods_for_property

_ENDS = (Kind.CRASH.value, Kind.TIMEOUT.value)
#: The reasons why results with these verdicts are not exported.
_UNKNOWN = {
    Verdict.ERROR: "the suite could not check it",
    Verdict.VACUOUS: "nothing was compared",
    Verdict.FLAKY: "it passed and failed, so neither outcome can be expected",
    Verdict.XPASS: "it passes; remove its expectation",
}


@dataclasses.dataclass(frozen=True)
class DeviatingResult:
    """A deviating result: its verdict, the kinds of its failures, and the first message."""

    id: ResultId
    verdict: str
    kinds: tuple[str, ...]
    message: str

    @property
    def ends_process(self) -> bool:
        """True if the deviation ends or blocks the process."""
        return any(kind in _ENDS for kind in self.kinds)

    @property
    def reason(self) -> str:
        """The failure kinds and the message in one line."""
        return one_line(f"{', '.join(self.kinds)}: {self.message}")


@dataclasses.dataclass(frozen=True)
class NotExported:
    """A result that is not exported, and the reason."""

    id: str
    reason: str


@dataclasses.dataclass(frozen=True)
class MatchedDeviation:
    """A deviation with an upstream test method that tests the same requirement."""

    test: UpstreamMethod
    deviation: DeviatingResult

    @property
    def subject(self) -> str:
        """The name of the entry in upstream's database."""
        return self.deviation.id.case.subject

    @property
    def dtype(self) -> str | None:
        """The dtype, or None if the result does not depend on a dtype."""
        return None if self.deviation.id.dtype == ANY_DTYPE else self.deviation.id.dtype


@dataclasses.dataclass(frozen=True)
class LegExport:
    """All deviations of a leg, with and without a matching upstream test."""

    device: str
    torch: str
    matched: tuple[MatchedDeviation, ...]
    not_exported: tuple[NotExported, ...]

    @property
    def deviations(self) -> list[DeviatingResult]:
        """The exported deviations without duplicates."""
        return list(dict.fromkeys(each.deviation for each in self.matched))


def leg_to_export(legs: Sequence[Leg], mode: str) -> Leg:
    """Return the leg of a mode. Raise UsageError unless the run has exactly one leg of this mode."""
    matching_legs = [leg for leg in legs if leg["mode"] == mode]
    if not matching_legs:
        modes = ", ".join(dict.fromkeys(leg["mode"] for leg in legs)) or "none"
        raise UsageError(f"the run has no leg of mode {mode!r}; it has {modes}")
    if len(matching_legs) > 1:
        builds = ", ".join(leg["name"] for leg in matching_legs)
        raise UsageError(
            f"the run has {len(matching_legs)} legs of mode {mode!r} ({builds}); give the folder of one leg"
        )
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", matching_legs[0]["target"]["device"]):
        raise UsageError(
            f"the device is called {matching_legs[0]['target']['device']!r}, which is not a valid device "
            "name in torch"
        )
    return matching_legs[0]


def export_leg(leg: Leg, databases: Databases) -> LegExport:
    """Return all deviations of a leg, matched with upstream tests."""
    matched: list[MatchedDeviation] = []
    not_exported: list[NotExported] = []
    for row in leg["results"]:
        row_deviation = deviation_of(row)
        if isinstance(row_deviation, NotExported):
            not_exported.append(row_deviation)
        elif row_deviation is not None:
            tests = methods_for_property(
                row_deviation.id.case.property, row_deviation.id.case.subject, databases
            )
            matched += [MatchedDeviation(test, row_deviation) for test in tests]
            if not tests:
                not_exported.append(
                    NotExported(one_line(row["id"]), _reason_without_test(row_deviation, databases))
                )
    return LegExport(leg["target"]["device"], leg["torch"], tuple(matched), tuple(not_exported))


def deviation_of(row: ResultRow) -> DeviatingResult | NotExported | None:
    """Return the deviation of a row, or the reason why it is not exported.

    Return None if the result passed, or the user skipped it.
    """
    verdict = Verdict(row["verdict"])
    if verdict in (Verdict.PASS, Verdict.SKIP):
        return None
    if verdict in _UNKNOWN:
        return NotExported(one_line(row["id"]), _UNKNOWN[verdict])
    if row.get("intermittent"):
        return NotExported(one_line(row["id"]), "it had a different outcome when it ran again")
    try:
        name = ResultId.parse(row["id"])
    except ValueError:
        return NotExported(one_line(row["id"]), "its id is not a result id of the suite")
    if name.dtype != ANY_DTYPE and name.dtype not in DTYPES:
        return NotExported(one_line(row["id"]), "its dtype is not a dtype of torch")
    failures = row.get("failures", [])
    kinds = [failure["kind"] for failure in failures]
    kinds += [kind for attempt in row.get("attempts", []) for kind in attempt.get("kinds", [])]
    if verdict in (Verdict.CRASH, Verdict.TIMEOUT):
        kinds.insert(0, verdict.value)
    if not kinds and verdict is Verdict.UNSUPPORTED:
        kinds = [Kind.REFUSED.value]
    message = failures[0]["message"] if failures else "; ".join(row.get("notes", []))
    return DeviatingResult(name, verdict.value, tuple(dict.fromkeys(kinds)), one_line(message))


def _reason_without_test(row_deviation: DeviatingResult, databases: Databases) -> str:
    if databases.kind(row_deviation.id.case.subject) is None:
        return "its subject is not an entry of upstream's databases"
    return "no upstream test method covers its property for each database entry"


def one_line(text: str) -> str:
    """Return a text in one line of at most 200 characters, without private paths."""
    line = " ".join(printable(scrub.scrub_text(text)).split())
    return line if len(line) <= 200 else line[:199] + "…"
