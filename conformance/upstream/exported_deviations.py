"""The deviations of a run: which results upstream's tests should expect to fail, and which they must not run.

A result that fails is expected to fail, so that the test turns red once the backend is right. Only what ends
or blocks the process is skipped, with its reason. A result of which nothing is known is exported as nothing.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from conformance.errors import UsageError
from conformance.model.records import Leg, ResultRow
from conformance.model.verdicts import Kind, ResultId, Verdict, plain
from conformance.model.vocabulary import ANY_DTYPE
from conformance.results import scrub
from conformance.target.file import DTYPES
from conformance.upstream.matching_tests import Counterpart, Databases, stating

_ENDS = (Kind.CRASH.value, Kind.TIMEOUT.value)
#: Why results with these verdicts are not exported.
_UNKNOWN = {
    Verdict.ERROR: "the suite could not check it",
    Verdict.VACUOUS: "nothing was compared",
    Verdict.FLAKY: "it passed and failed, so neither can be expected",
    Verdict.XPASS: "it passes; remove its expectation",
}


@dataclasses.dataclass(frozen=True)
class Deviation:
    """A result that deviates: its verdict, the kinds of its failures, and the first message."""

    id: ResultId
    verdict: str
    kinds: tuple[str, ...]
    message: str

    @property
    def ends(self) -> bool:
        """Return True if it ends or blocks the process."""
        return any(kind in _ENDS for kind in self.kinds)

    @property
    def reason(self) -> str:
        """Its kinds and its message, in one line."""
        return brief(f"{', '.join(self.kinds)}: {self.message}")


@dataclasses.dataclass(frozen=True)
class NotExported:
    """A result that is not exported, and the reason."""

    id: str
    reason: str


@dataclasses.dataclass(frozen=True)
class MatchedDeviation:
    """A deviation with one of the test methods that state the same."""

    test: Counterpart
    deviation: Deviation

    @property
    def subject(self) -> str:
        """The entry of upstream's database."""
        return self.deviation.id.case.subject

    @property
    def dtype(self) -> str | None:
        """The dtype, None if the result does not vary with it."""
        return None if self.deviation.id.dtype == ANY_DTYPE else self.deviation.id.dtype


@dataclasses.dataclass(frozen=True)
class Export:
    """All deviations of a leg: those with tests, those without."""

    device: str
    torch: str
    placed: tuple[MatchedDeviation, ...]
    left: tuple[NotExported, ...]

    @property
    def deviations(self) -> list[Deviation]:
        """The deviations that are exported, each once."""
        return list(dict.fromkeys(each.deviation for each in self.placed))


def leg_of(legs: Sequence[Leg], mode: str) -> Leg:
    """The one leg of a mode; UsageError if there is none or several."""
    found = [leg for leg in legs if leg["mode"] == mode]
    if not found:
        modes = ", ".join(dict.fromkeys(leg["mode"] for leg in legs)) or "none"
        raise UsageError(f"the run has no leg of mode {mode!r}; it has {modes}")
    if len(found) > 1:
        builds = ", ".join(leg["name"] for leg in found)
        raise UsageError(f"the run has {len(found)} legs of mode {mode!r} ({builds}); name the folder of one")
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", found[0]["target"]["device"]):
        raise UsageError(f"the device is called {found[0]['target']['device']!r}, which torch cannot have")
    return found[0]


def export(leg: Leg, known: Databases) -> Export:
    """Find the tests of each deviation of a leg."""
    placed: list[MatchedDeviation] = []
    left: list[NotExported] = []
    for row in leg["results"]:
        found = deviation(row)
        if isinstance(found, NotExported):
            left.append(found)
        elif found is not None:
            tests = stating(found.id.case.property, found.id.case.subject, known)
            placed += [MatchedDeviation(test, found) for test in tests]
            if not tests:
                left.append(NotExported(brief(row["id"]), _without_test(found, known)))
    return Export(leg["target"]["device"], leg["torch"], tuple(placed), tuple(left))


def deviation(row: ResultRow) -> Deviation | NotExported | None:
    """The deviation that a row shows; None if it shows none, or was left out by the user."""
    verdict = Verdict(row["verdict"])
    if verdict in (Verdict.PASS, Verdict.SKIP):
        return None
    if verdict in _UNKNOWN:
        return NotExported(brief(row["id"]), _UNKNOWN[verdict])
    if row.get("intermittent"):
        return NotExported(brief(row["id"]), "it ended in another way when it ran again")
    try:
        name = ResultId.parse(row["id"])
    except ValueError:
        return NotExported(brief(row["id"]), "its id is not one of the suite")
    if name.dtype != ANY_DTYPE and name.dtype not in DTYPES:
        return NotExported(brief(row["id"]), "its dtype is not one of torch")
    failures = row.get("failures", [])
    kinds = [failure["kind"] for failure in failures]
    kinds += [kind for attempt in row.get("attempts", []) for kind in attempt.get("kinds", [])]
    if verdict in (Verdict.CRASH, Verdict.TIMEOUT):
        kinds.insert(0, verdict.value)
    if not kinds and verdict is Verdict.UNSUPPORTED:
        kinds = [Kind.REFUSED.value]
    message = failures[0]["message"] if failures else "; ".join(row.get("notes", []))
    return Deviation(name, verdict.value, tuple(dict.fromkeys(kinds)), brief(message))


def _without_test(found: Deviation, known: Databases) -> str:
    if known.kind(found.id.case.subject) is None:
        return "its subject is not an entry of upstream's databases"
    return "no test method of upstream states its property for each entry"


def brief(text: str) -> str:
    """A text in one line, without private paths, at most some 200 characters long."""
    words = " ".join(plain(scrub.text(text)).split())
    return words if len(words) <= 200 else words[:199] + "…"
