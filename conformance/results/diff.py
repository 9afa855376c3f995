"""The differences between two runs, leg by leg: regressed, changed failures, fixed, new, vanished."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Literal, TypedDict

from conformance.errors import UsageError
from conformance.expectations import entry_states
from conformance.expectations.aliases import Aliases
from conformance.model.messages import message_shape
from conformance.model.records import Digests, Leg, ResultRow, TargetRecord
from conformance.model.verdicts import ResultId, Verdict
from conformance.results.merge import spoken

#: The distance of a verdict from a pass. A step up is a regression, even if an expectation or a declaration
#: announces it: that says why, not that it works.
_DISTANCE = {
    Verdict.PASS: 0,
    Verdict.XPASS: 0,
    Verdict.SKIP: 0,
    Verdict.UNSUPPORTED: 1,
    Verdict.XFAIL: 2,
}
_FAILS = 3
#: Verdicts of results that fail in one way, which a later run may compare with its own.
_FAILING = frozenset(
    {Verdict.FAIL, Verdict.CRASH, Verdict.TIMEOUT, Verdict.ERROR, Verdict.VACUOUS, Verdict.XFAIL}
)
#: Samples of a changed failure that are named.
_NAMED = 5
#: What must agree between two legs for a result that is gone to count.
_SAME: tuple[Literal["level", "shard", "selection", "samples"], ...] = (
    "level",
    "shard",
    "selection",
    "samples",
)


@dataclasses.dataclass(frozen=True)
class ResultChange:
    """One result in both runs; a verdict is None if the run does not have it.

    ``how`` says in words how a failure changed.
    """

    id: str
    old: str | None
    new: str | None
    row: ResultRow
    how: str = ""

    def words(self) -> str:
        """The verdicts before and after."""
        return f"{self.old or 'absent'} → {self.new or 'absent'}"


@dataclasses.dataclass
class Difference:
    """Two legs of the same mode, and each result by how it changed."""

    old: Leg
    new: Leg
    regressed: list[ResultChange] = dataclasses.field(default_factory=list)
    #: Results that fail in both runs, but not in the same way: a new defect may stand behind an old one.
    changed: list[ResultChange] = dataclasses.field(default_factory=list)
    fixed: list[ResultChange] = dataclasses.field(default_factory=list)
    excused: list[ResultChange] = dataclasses.field(default_factory=list)
    still_failing: list[ResultChange] = dataclasses.field(default_factory=list)
    added: list[ResultChange] = dataclasses.field(default_factory=list)
    vanished: list[ResultChange] = dataclasses.field(default_factory=list)
    unchanged: int = 0
    notes: list[str] = dataclasses.field(default_factory=list)
    #: The reason for which results that are gone do not count, or the empty string if they do.
    excuse: str = ""

    @property
    def counted(self) -> list[ResultChange]:
        """The results that are worse: regressed, failing in another way, or gone without a reason."""
        return [*self.regressed, *self.changed, *(() if self.excuse else self.vanished)]

    @property
    def worse(self) -> bool:
        """True if any result is worse."""
        return bool(self.counted)


@dataclasses.dataclass
class Report:
    """All pairs of legs, and the legs that only one of the runs has."""

    pairs: list[Difference]
    notes: list[str]

    @property
    def worse(self) -> bool:
        """True if any pair of legs is worse."""
        return any(pair.worse for pair in self.pairs)


def compare(old: Sequence[Leg], new: Sequence[Leg], aliases: Aliases | None = None) -> Report:
    """Compare the legs of two runs; UsageError if they have no mode in common."""
    known = Aliases.load() if aliases is None else aliases
    pairs, notes = _pairs(old, new)
    if not pairs:
        have = [", ".join(sorted({leg["mode"] for leg in legs})) or "no leg" for legs in (old, new)]
        raise UsageError(
            f"the runs have no leg in common (the old one has {have[0]}, the new one {have[1]}); compare "
            "runs of one mode"
        )
    return Report([_difference(*pair, known) for pair in pairs], notes)


def _pairs(old: Sequence[Leg], new: Sequence[Leg]) -> tuple[list[tuple[Leg, Leg]], list[str]]:
    """Legs that belong together: of one target, mode and build, else the only two of a mode that are left."""
    keys = (
        lambda leg: (leg["target"]["name"], leg["name"]),
        lambda leg: (leg["target"]["name"], leg["mode"]),
        lambda leg: (leg["mode"],),
    )
    before, after = list(old), list(new)
    pairs = []
    for key in keys:
        for leg in list(before):
            fitting = [candidate for candidate in after if key(candidate) == key(leg)]
            rivals = [candidate for candidate in before if key(candidate) == key(leg)]
            if len(fitting) == len(rivals) == 1:
                pairs.append((leg, fitting[0]))
                before.remove(leg)
                after.remove(fitting[0])
    order = [id(leg) for leg in new]
    pairs.sort(key=lambda pair: order.index(id(pair[1])))
    notes = [f"{_title(leg)} is only in the old run and is not compared" for leg in before]
    notes += [f"{_title(leg)} is only in the new run and is not compared" for leg in after]
    return pairs, notes


def _title(leg: Leg) -> str:
    return f"leg {leg['name']} of {leg['target']['name']}"


def fails(verdict: str | None) -> bool:
    """Return True if a verdict is an unexpected failure."""
    return verdict is not None and _distance(verdict) == _FAILS


def _distance(verdict: str) -> int:
    return _DISTANCE.get(Verdict(verdict), _FAILS)


def _difference(old: Leg, new: Leg, aliases: Aliases) -> Difference:
    difference = Difference(old, new)
    difference.notes = list(_notes(old, new))
    difference.excuse = _excuse(old, new)
    same_suite = old["digests"].get("suite") == new["digests"].get("suite")
    same_samples = old["samples"] == new["samples"] and _minor(old["torch"]) == _minor(new["torch"])
    before = {aliases.resolve(row["id"]): row for row in old["results"]}
    after = {aliases.resolve(row["id"]): row for row in new["results"]}
    for name, row in after.items():
        was = before.get(name)
        change = ResultChange(name, was and was["verdict"], row["verdict"], row)
        if was is None:
            difference.added.append(change)
            continue
        start, end = _distance(was["verdict"]), _distance(row["verdict"])
        if start == end and (
            how := changed_failure(was, row, same_suite=same_suite, same_samples=same_samples)
        ):
            difference.changed.append(dataclasses.replace(change, how=how))
        elif end > start:
            difference.regressed.append(change)
        elif end < start:
            (difference.excused if end else difference.fixed).append(change)
        elif end == _FAILS:
            difference.still_failing.append(change)
        else:
            difference.unchanged += 1
    difference.vanished = [
        ResultChange(name, row["verdict"], None, row) for name, row in before.items() if name not in after
    ]
    return difference


def changed_failure(
    old: ResultRow, new: ResultRow, *, same_suite: bool = True, same_samples: bool = True
) -> str:
    """Return how a failure is another one, in words; empty if it is the same, or nothing can be compared.

    Kinds of failure always compare. Another version of the suite may word a message differently and number
    its samples differently; another torch has other samples.
    """
    if any(Verdict(row["verdict"]) not in _FAILING or row.get("intermittent") for row in (old, new)):
        return ""
    kinds = [sorted(entry_states.failure_kinds(row)) for row in (old, new)]
    if kinds[0] != kinds[1]:
        return f"kinds {', '.join(kinds[0]) or 'none'} → {', '.join(kinds[1]) or 'none'}"
    if not same_suite:
        return ""
    if same_samples:
        samples = [set(row.get("failed_samples", ())) for row in (old, new)]
        if more := samples[1] - samples[0]:
            return f"samples that did not fail before: {_some(sorted(more))}"
        if fewer := samples[0] - samples[1]:
            return f"samples that do not fail any more: {_some(sorted(fewer))}"
    said = [_shapes(row) for row in (old, new)]
    if added := [words for words in said[1] if words not in said[0]]:
        return f"it says: {added[0]}"
    gone = [words for words in said[0] if words not in said[1]]
    return f"it does not say any more: {gone[0]}" if gone else ""


def _shapes(row: ResultRow) -> list[str]:
    subject = ResultId.parse(row["id"]).case.subject
    return [
        f"{failure['kind']}: {message_shape(failure['message'], subject)}"
        for failure in row.get("failures", ())
    ]


def _some(numbers: list[int]) -> str:
    named = ", ".join(map(str, numbers[:_NAMED]))
    return named if len(numbers) <= _NAMED else f"{named} and {len(numbers) - _NAMED} more"


def _notes(old: Leg, new: Leg) -> list[str]:
    """Notes on what else differs between two legs."""
    notes = []
    if old["torch"] != new["torch"]:
        notes.append(f"torch {old['torch']}, now {new['torch']}")
    if old["target"]["name"] != new["target"]["name"]:
        notes.append(f"target {old['target']['name']}, now {new['target']['name']}")
    words = {"suite": "the suite", "target": "the target file", "expectations": "the expectations"}
    for word, what in words.items():
        if old["digests"].get(word) != new["digests"].get(word):
            notes.append(f"{what} is another one" if word != "expectations" else f"{what} are other ones")
    if old["digests"].get("backend") != new["digests"].get("backend"):
        notes.append("the backend is another build")
    for word in _SAME:
        if old[word] != new[word]:
            notes.append(f"{word} {spoken(word, old[word])}, now {spoken(word, new[word])}")
    for leg, which in ((old, "old"), (new, "new")):
        if not leg["complete"]:
            notes.append(f"the {which} run is incomplete ({leg['missing']['count']} results are missing)")
    return notes


def _excuse(old: Leg, new: Leg) -> str:
    """The reason for which a result that is gone from the new leg is not a regression; empty if it is one.

    If suite, torch, level, shard, selection and samples agree, the same results were due: what is missing
    was lost, or was taken out of the target file. Otherwise a different set of results may have been due.
    """
    if not new["complete"] and all(old[word] == new[word] for word in _SAME):
        return ""
    if _minor(old["torch"]) != _minor(new["torch"]):
        return "torch is another one"
    if old["digests"].get("suite") != new["digests"].get("suite"):
        return "the suite is another one"
    differ = [word for word in _SAME if old[word] != new[word]]
    return f"{' and '.join(differ)} differ" if differ else ""


def _minor(version: str) -> str:
    match = re.match(r"\d+\.\d+", version)
    return match.group() if match else version


class _LegHead(TypedDict):
    name: str
    mode: str
    torch: str
    target: TargetRecord
    digests: Digests


def _head(leg: Leg) -> _LegHead:
    return {
        "name": leg["name"],
        "mode": leg["mode"],
        "torch": leg["torch"],
        "target": leg["target"],
        "digests": leg["digests"],
    }


def to_json(report: Report) -> dict[str, object]:
    """Everything about a comparison, for programs."""
    lists = ("regressed", "changed", "fixed", "excused", "still_failing", "added", "vanished")
    return {
        "schema": 1,
        "exit": int(report.worse),
        "notes": report.notes,
        "legs": [
            {
                "old": _head(pair.old),
                "new": _head(pair.new),
                "notes": pair.notes,
                "vanished_count": not pair.excuse,
                "unchanged": pair.unchanged,
                **{
                    key: [
                        {
                            **{"id": change.id, "old": change.old, "new": change.new},
                            **({"how": change.how} if change.how else {}),
                        }
                        for change in getattr(pair, key)
                    ]
                    for key in lists
                },
            }
            for pair in report.pairs
        ],
    }
