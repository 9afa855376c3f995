"""Entitlement: whether the rows of a leg hold a level in its mode. Everything is counted from rows."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from conformance.certificate.target_declaration import Declaration
from conformance.model.records import Leg, ResultRow
from conformance.model.verdicts import Placement, Verdict, seed_of
from conformance.model.vocabulary import LEVELS
from conformance.plan import levels
from conformance.plan.levels.manifest import Entry, LevelRequirements, Manifest, words
from conformance.results import exit_codes, merge
from conformance.results.leg_summary import Judgement

_RAN_ON_THE_DEVICE = (Placement.NATIVE.value, Placement.COMPOSITE.value)
#: Verdicts that a waiver can answer for: a failure that was seen, once or each time.
_WAIVABLE = (Verdict.FAIL.value, Verdict.XFAIL.value, Verdict.CRASH.value, Verdict.TIMEOUT.value)


@dataclasses.dataclass(frozen=True)
class LevelAssessment:
    """The rows of a leg, sorted by what they mean for a level.

    ``unfit`` are reasons for which the run as a whole yields no level; ``missing`` are results by what is
    wrong with them, ``not_claimed`` by what the target file does not declare, all sorted.
    """

    demand: LevelRequirements
    passed: tuple[str, ...]
    waived: tuple[str, ...]
    missing: Mapping[str, tuple[str, ...]]
    not_claimed: Mapping[str, tuple[str, ...]]
    placements: Mapping[str, str]
    unfit: tuple[str, ...]

    @property
    def entitled(self) -> bool:
        """True if the leg holds the level."""
        return not self.unfit and not self.missing and bool(self.passed)

    @property
    def due(self) -> int:
        """The number of results that the level requires."""
        return len(self.demand.entries)

    @property
    def claimed(self) -> int:
        """The number of them that the target claims."""
        return self.due - sum(map(len, self.not_claimed.values()))

    def counts(self) -> dict[str, int]:
        """The counts that a certificate prints."""
        return {
            "due": self.due,
            "claimed": self.claimed,
            "passed": len(self.passed),
            "waived": len(self.waived),
            "not_claimed": self.due - self.claimed,
            "missing": sum(map(len, self.missing.values())),
        }


#: Verdicts of a result that a target declares unsupported and keeps its word about.
_REFUSED = (Verdict.PASS.value, Verdict.UNSUPPORTED.value)


def judge(leg: Leg, manifest: Manifest, level: str) -> LevelAssessment:
    """Hold a leg against a level; UsageError if the manifest does not know its torch."""
    demand = manifest.demand(leg["torch"], leg["mode"], level)
    declaration = Declaration.of(leg)
    unfit = list(whole(leg))
    if not levels_within(leg["level"], level):
        unfit.append(f"the run was of level {leg['level']}, which does not take all of {level}")
    if not demand.entries:
        unfit.append(
            f"the manifest of torch {words(demand.minor)} has nothing of level {level} in mode {demand.mode}"
        )
    rows: dict[str, ResultRow] = {}
    twice: set[str] = set()
    for each in leg["results"]:
        if each["id"] in rows:
            twice.add(each["id"])
        rows[each["id"]] = each
    unfit += [f"{name} has two rows" for name in sorted(twice)[:5]]
    passed, waived = [], []
    missing: dict[str, list[str]] = collections.defaultdict(list)
    not_claimed: dict[str, list[str]] = collections.defaultdict(list)
    for name, entry in demand.entries.items():
        removed = declaration.removes(entry)
        if removed is not None:
            row = rows.get(name)
            # A pattern of [unsupported] is claimed to be refused cleanly; what else shows there is a failure.
            refused = row is None or row["verdict"] in _REFUSED or _excused(row, demand, name)
            if refused or not removed.startswith("unsupported "):
                not_claimed[removed].append(name)
            else:
                shown = row["verdict"] if row is not None else "no result"
                missing[f"declared unsupported, yet not refused cleanly: {shown}"].append(name)
            continue
        row = rows.get(name)
        beyond = _left_out(row, declaration)
        wrong = _wrong(row, demand, entry)
        if beyond is not None:
            not_claimed[f"dtype {beyond}"].append(name)
        elif wrong is None:
            passed.append(name)
        elif row is not None and _excused(row, demand, name):
            waived.append(name)
        else:
            missing[wrong].append(name)
    placements = dict(_placements(rows, demand))
    for name, place in placements.items():
        if place not in _RAN_ON_THE_DEVICE:
            missing[f"placed {place}, although a device must run it itself"].append(name)
    return LevelAssessment(
        demand,
        tuple(sorted(passed)),
        tuple(sorted(waived)),
        _sorted(missing),
        _sorted(not_claimed),
        placements,
        tuple(unfit),
    )


def levels_within(run: str, level: str) -> bool:
    """Return True if a run of one level includes all of another; level smoke includes none."""
    return run != levels.SMOKE and levels.includes(run, level)


def whole(leg: Leg) -> Iterator[str]:
    """Reasons for which a leg yields no level at all, whatever its rows are."""
    count = leg["missing"]["count"]
    lost = not leg["complete"] or count or leg["exit"] not in (exit_codes.OK, exit_codes.UNEXPECTED)
    # A leg that lacks only other shards gets that reason below.
    if lost and not (merge.absent(leg) and merge.alone(leg)["complete"] and not count):
        yield f"the run is not complete{f', {count} results are missing' if count else ''}"
    if leg["selection"] is not None:
        yield f"the run was narrowed with -k {leg['selection']!r}"
    if leg["left_out"]:
        yield f"the run left out {leg['left_out']} results"
    if leg["shard"] != "1/1":
        yield part(leg)
    samples = leg["samples"]
    if samples not in ("default", "all"):
        # Another number chooses other samples, and may leave out some that the default takes.
        yield f"the run took --samples {samples}; run it with the default, or with all"
    extra = leg["facts"].get("extra")
    if extra:
        yield f"the run had extra modules ({', '.join(map(str, extra))}), which can change any verdict"
    if leg["level"] == levels.SMOKE:
        yield "level smoke is a quick choice and certifies nothing"
    yield from _consistent(leg)


def part(leg: Leg) -> str:
    """The reason for which a shard yields no level."""
    return f"the run is shard {leg['shard']}; merge all shards first"


def _consistent(leg: Leg) -> Iterator[str]:
    """Reasons for which the sums of a leg do not follow from its rows."""
    judgement = Judgement.of(leg)
    if leg["planned"] != len(judgement.rows):
        yield f"{leg['planned']} results were planned and {len(judgement.rows)} rows are there"
    if leg["totals"] != judgement.totals:
        yield "the totals do not follow from the rows"
    if leg["cases"] != judgement.cases:
        yield "the verdicts of cases do not follow from the rows"
    if leg["oracle"]["differences"]:
        yield f"the oracle gave other values when it was asked again: {leg['oracle']['differences'][0]}"


def _wrong(row: ResultRow | None, demand: LevelRequirements, entry: Entry) -> str | None:
    """The fault of the row of a claimed result, in words to group by; None if it passes."""
    if row is None:
        return "no result"
    verdict = str(row["verdict"])
    if verdict == Verdict.PASS.value:
        if row.get("failures") or row.get("failure_count") or not row.get("comparisons"):
            return "pass, although the row shows failures or compared nothing"
        if row.get("seed", 0) != seed_of(entry.id.case.subject, entry.id.dtype):
            return "pass, of samples from another seed"
        return None
    kinds = sorted({failure["kind"] for failure in row.get("failures", ())})
    shown = f"{verdict} ({', '.join(kinds)})" if kinds else verdict
    if entry.floor and verdict == Verdict.UNSUPPORTED.value:
        return f"{shown}, in the floor of {demand.level}"
    return shown


def _left_out(row: ResultRow | None, declaration: Declaration) -> str | None:
    """Return a dtype that the target does not declare and without which nothing of a result is left.

    The result may be in the floor of a level: ``value/double@float32`` needs float64, whatever the level asks
    of float32.
    """
    if row is None or row["verdict"] != Verdict.UNSUPPORTED.value:
        return None
    return next((name for name in row.get("undeclared", ()) if name not in declaration.dtypes), None)


def _excused(row: ResultRow, demand: LevelRequirements, name: str) -> bool:
    """Return True if torch itself is known to cause every kind of failure that the row shows."""
    kinds = {failure["kind"] for failure in row.get("failures", ())}
    return row["verdict"] in _WAIVABLE and bool(kinds) and kinds <= demand.waived.get(name, frozenset())


def _placements(rows: Mapping[str, ResultRow], demand: LevelRequirements) -> Iterator[tuple[str, str]]:
    """The placement of each operator that must not fall back; an unknown one counts as fallback."""
    native = frozenset(demand.native)
    for name, entry in demand.entries.items():
        if entry.id.case.property == levels.PLACEMENT and entry.id.case.subject in native and name in rows:
            yield name, str(rows[name].get("placement", Placement.UNKNOWN.value))


def _sorted(groups: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """The largest groups first."""
    order = sorted(groups, key=lambda reason: (-len(groups[reason]), reason))
    return {reason: tuple(sorted(groups[reason])) for reason in order}


def held(leg: Leg, manifest: Manifest) -> str | None:
    """The broadest level that a leg holds, or None."""
    for level in reversed(LEVELS):
        if levels_within(leg["level"], level) and judge(leg, manifest, level).entitled:
            return level
    return None
