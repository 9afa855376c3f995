"""Compare two runs leg by leg: regressed, differently failing, fixed, new and vanished results."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Literal, TypedDict

from conformance.errors import UsageError
from conformance.expectations import entry_states
from conformance.expectations.aliases import Aliases
from conformance.model import seeds
from conformance.model.messages import message_pattern
from conformance.model.records import Digests, Leg, ResultRow, TargetRecord
from conformance.model.verdicts import ResultId, Verdict
from conformance.results.merge import describe_option

#: The distance of a verdict from a pass. A larger distance in the new run is a regression, even if an
#: expectation or a declaration of the target covers the failure: such a declaration explains a failure and
#: does not remove it.
_DISTANCE = {
    Verdict.PASS: 0,
    Verdict.XPASS: 0,
    Verdict.SKIP: 0,
    Verdict.PARITY: 0,
    Verdict.UNSUPPORTED: 1,
    Verdict.XFAIL: 2,
}
_FAILS = 3
#: Verdicts of failing results. If a result has one of these verdicts in both runs, its failures are compared.
_FAILING = frozenset(
    {Verdict.FAIL, Verdict.CRASH, Verdict.TIMEOUT, Verdict.ERROR, Verdict.VACUOUS, Verdict.XFAIL}
)
#: Maximum number of samples in the description of a changed failure.
_MAX_SAMPLES = 5
#: Fields of a leg. A vanished result is a regression only if all of them agree between the two legs.
_SAME: tuple[Literal["level", "shard", "selection", "samples"], ...] = (
    "level",
    "shard",
    "selection",
    "samples",
)


@dataclasses.dataclass(frozen=True)
class ResultChange:
    """One result with its verdicts in the two runs. A verdict is None if the run does not have the result.

    ``how`` describes how the failure changed.
    """

    id: str
    old: str | None
    new: str | None
    row: ResultRow
    how: str = ""

    def verdicts(self) -> str:
        """Return the verdicts in the old and the new run as text, such as ``pass → fail``."""
        return f"{self.old or 'absent'} → {self.new or 'absent'}"


@dataclasses.dataclass
class LegComparison:
    """The comparison of two legs of one mode: their results, grouped by how they changed."""

    old: Leg
    new: Leg
    regressed: list[ResultChange] = dataclasses.field(default_factory=list)
    #: Results that fail in both runs, but differently: an old defect may hide a new one.
    changed: list[ResultChange] = dataclasses.field(default_factory=list)
    fixed: list[ResultChange] = dataclasses.field(default_factory=list)
    excused: list[ResultChange] = dataclasses.field(default_factory=list)
    still_failing: list[ResultChange] = dataclasses.field(default_factory=list)
    added: list[ResultChange] = dataclasses.field(default_factory=list)
    vanished: list[ResultChange] = dataclasses.field(default_factory=list)
    #: Results that passed and now have the verdict ``parity``.
    parity: list[ResultChange] = dataclasses.field(default_factory=list)
    unchanged: int = 0
    notes: list[str] = dataclasses.field(default_factory=list)
    #: The reason why vanished results are not regressions; empty if vanished results are regressions.
    excuse: str = ""

    @property
    def worse_results(self) -> list[ResultChange]:
        """The results that are worse: regressed, failing differently, or vanished without a reason."""
        return [*self.regressed, *self.changed, *(() if self.excuse else self.vanished)]

    @property
    def has_worse_results(self) -> bool:
        """True if any result is worse."""
        return bool(self.worse_results)


@dataclasses.dataclass
class RunComparison:
    """The comparison of two runs: the compared pairs of legs, and notes on legs that only one run has."""

    pairs: list[LegComparison]
    notes: list[str]

    @property
    def has_worse_results(self) -> bool:
        """True if any pair of legs is worse."""
        return any(pair.has_worse_results for pair in self.pairs)

    @property
    def missing_counts(self) -> tuple[int, int]:
        """The numbers of planned results that are missing in the old and in the new run."""
        return (
            sum(pair.old["missing"]["count"] for pair in self.pairs),
            sum(pair.new["missing"]["count"] for pair in self.pairs),
        )

    @property
    def exit_code(self) -> int:
        """1 if a leg is worse, otherwise 3 if results are missing in one of the runs, otherwise 0."""
        if self.has_worse_results:
            return 1
        return 3 if any(self.missing_counts) else 0


def compare_runs(old: Sequence[Leg], new: Sequence[Leg], aliases: Aliases | None = None) -> RunComparison:
    """Compare the legs of two runs; raise UsageError if they have no mode in common."""
    alias_table = Aliases.load() if aliases is None else aliases
    pairs, notes = _corresponding_legs(old, new)
    if not pairs:
        have = [", ".join(sorted({leg["mode"] for leg in legs})) or "no leg" for legs in (old, new)]
        raise UsageError(
            f"the runs have no leg in common (the old one has {have[0]}, the new one {have[1]}); compare "
            "runs of one mode"
        )
    return RunComparison([_compare_legs(*pair, alias_table) for pair in pairs], notes)


def _corresponding_legs(old: Sequence[Leg], new: Sequence[Leg]) -> tuple[list[tuple[Leg, Leg]], list[str]]:
    """Return pairs of corresponding legs, and notes on legs without a partner.

    Legs with the same target, mode and build are paired first. If each run has exactly one unpaired leg with
    the same target and mode, these legs are paired next. Then the same is done by mode alone.
    """
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
    notes = [f"{_leg_title(leg)} is only in the old run and is not compared" for leg in before]
    notes += [f"{_leg_title(leg)} is only in the new run and is not compared" for leg in after]
    return pairs, notes


def _leg_title(leg: Leg) -> str:
    return f"leg {leg['name']} of {leg['target']['name']}"


def is_failure(verdict: str | None) -> bool:
    """Return True if a verdict is an unexpected failure; ``xfail`` and ``unsupported`` are not."""
    return verdict is not None and _distance_from_pass(verdict) == _FAILS


def _distance_from_pass(verdict: str) -> int:
    return _DISTANCE.get(Verdict(verdict), _FAILS)


def _seed_of_run(leg: Leg) -> int:
    return leg.get("seed", seeds.RELEASE_SEED)


def _compare_legs(old: Leg, new: Leg, aliases: Aliases) -> LegComparison:
    difference = LegComparison(old, new)
    difference.notes = list(_other_differences(old, new))
    difference.excuse = _reason_to_ignore_vanished(old, new)
    same_suite = old["digests"].get("suite") == new["digests"].get("suite")
    same_samples = (
        old["samples"] == new["samples"]
        and _seed_of_run(old) == _seed_of_run(new)
        and _minor(old["torch"]) == _minor(new["torch"])
    )
    before = {aliases.resolve(row["id"]): row for row in old["results"]}
    after = {aliases.resolve(row["id"]): row for row in new["results"]}
    for name, row in after.items():
        old_row = before.get(name)
        change = ResultChange(name, old_row and old_row["verdict"], row["verdict"], row)
        if old_row is None:
            difference.added.append(change)
            continue
        start, end = _distance_from_pass(old_row["verdict"]), _distance_from_pass(row["verdict"])
        if start == end and (
            how := changed_failure(old_row, row, same_suite=same_suite, same_samples=same_samples)
        ):
            difference.changed.append(dataclasses.replace(change, how=how))
        elif end > start:
            difference.regressed.append(change)
        elif end < start:
            (difference.excused if end else difference.fixed).append(change)
        elif row["verdict"] == Verdict.PARITY.value and old_row["verdict"] != row["verdict"]:
            difference.parity.append(change)
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
    """Return a description of how a failure changed; empty if it has not changed or cannot be compared.

    Kinds of failure are always compared. Messages and sample indices are compared only within one version of
    the suite, samples only within one torch minor.
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
            return f"samples that did not fail before: {_first_numbers_text(sorted(more))}"
        if fewer := samples[0] - samples[1]:
            return f"samples that do not fail any more: {_first_numbers_text(sorted(fewer))}"
    messages = [_message_patterns(row) for row in (old, new)]
    if added := [text for text in messages[1] if text not in messages[0]]:
        return f"new message: {added[0]}"
    removed = [text for text in messages[0] if text not in messages[1]]
    return f"message that no longer occurs: {removed[0]}" if removed else ""


def _message_patterns(row: ResultRow) -> list[str]:
    subject = ResultId.parse(row["id"]).case.subject
    return [
        f"{failure['kind']}: {message_pattern(failure['message'], subject)}"
        for failure in row.get("failures", ())
    ]


def _first_numbers_text(numbers: list[int]) -> str:
    named = ", ".join(map(str, numbers[:_MAX_SAMPLES]))
    return named if len(numbers) <= _MAX_SAMPLES else f"{named} and {len(numbers) - _MAX_SAMPLES} more"


def _other_differences(old: Leg, new: Leg) -> list[str]:
    """Return notes on differences between two legs in versions, files and options, and on incomplete legs."""
    notes = []
    if old["torch"] != new["torch"]:
        notes.append(f"torch {old['torch']}, now {new['torch']}")
    if old["target"]["name"] != new["target"]["name"]:
        notes.append(f"target {old['target']['name']}, now {new['target']['name']}")
    parities = [leg.get("parity", "strict") for leg in (old, new)]
    if parities[0] != parities[1]:
        notes.append(f"parity {parities[0]}, now {parities[1]}")
    if _seed_of_run(old) != _seed_of_run(new):
        notes.append(f"seed {_seed_of_run(old)}, now {_seed_of_run(new)}: the samples differ")
    labels = {"suite": "the suite", "target": "the target file", "expectations": "the expectations"}
    for field, label in labels.items():
        if old["digests"].get(field) != new["digests"].get(field):
            notes.append(f"{label} {'has' if field != 'expectations' else 'have'} changed")
    if old["digests"].get("backend") != new["digests"].get("backend"):
        notes.append("the backend is a different build")
    for field in _SAME:
        if old[field] != new[field]:
            notes.append(
                f"{field} {describe_option(field, old[field])}, now {describe_option(field, new[field])}"
            )
    for leg, run_name in ((old, "old"), (new, "new")):
        if not leg["complete"]:
            notes.append(f"the {run_name} run is incomplete ({leg['missing']['count']} results are missing)")
    return notes


def _reason_to_ignore_vanished(old: Leg, new: Leg) -> str:
    """Return the reason why a result that is missing in the new leg is not a regression, or an empty text.

    If suite, torch, level, shard, selection and samples agree, both runs planned the same results. A missing
    result is then a regression: it was lost, or the target file now excludes it. Otherwise the plans may
    differ, so that a missing result is not a regression.
    """
    if not new["complete"] and all(old[field] == new[field] for field in _SAME):
        return ""
    if _minor(old["torch"]) != _minor(new["torch"]):
        return "torch is a different minor version"
    if old["digests"].get("suite") != new["digests"].get("suite"):
        return "the suite has changed"
    changed_fields = [field for field in _SAME if old[field] != new[field]]
    return f"{' and '.join(changed_fields)} differ" if changed_fields else ""


def _minor(version: str) -> str:
    match = re.match(r"\d+\.\d+", version)
    return match.group() if match else version


class _LegHead(TypedDict):
    name: str
    mode: str
    torch: str
    target: TargetRecord
    digests: Digests


def _leg_identity(leg: Leg) -> _LegHead:
    return {
        "name": leg["name"],
        "mode": leg["mode"],
        "torch": leg["torch"],
        "target": leg["target"],
        "digests": leg["digests"],
    }


def to_json(report: RunComparison) -> dict[str, object]:
    """Return the comparison as a JSON object for ``conformance diff --json``."""
    lists = ("regressed", "changed", "fixed", "excused", "still_failing", "added", "vanished")
    return {
        "schema": 1,
        "exit": report.exit_code,
        "notes": report.notes,
        "legs": [
            {
                "old": _leg_identity(pair.old),
                "new": _leg_identity(pair.new),
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
