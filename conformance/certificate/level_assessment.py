"""Assess whether a leg holds a level in its mode. Every count is recomputed from the result rows."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from conformance.certificate.target_declaration import TargetDeclaration
from conformance.model import seeds
from conformance.model.records import Leg, ResultRow
from conformance.model.verdicts import Basis, Placement, Verdict, seed_of
from conformance.model.vocabulary import LEVELS
from conformance.plan import levels
from conformance.plan.levels.manifest import LevelRequirements, Manifest, RequiredResult, minor_text
from conformance.results import exit_codes, final_verdicts, merge
from conformance.results.leg_summary import LegSummary

_RAN_ON_THE_DEVICE = (Placement.NATIVE.value, Placement.COMPOSITE.value)
#: Verdicts of failures, which a waiver can excuse.
_WAIVABLE = (Verdict.FAIL.value, Verdict.XFAIL.value, Verdict.CRASH.value, Verdict.TIMEOUT.value)


@dataclasses.dataclass(frozen=True)
class LevelAssessment:
    """The required results of a level, sorted by their outcome in a leg.

    ``unfit`` lists the reasons why the leg supports no level at all. ``missing`` maps a defect to the ids of
    the results that do not pass because of it. ``not_claimed`` maps a declaration of the target file to the
    ids of the results that the declaration excludes. Both mappings start with their largest groups.
    """

    demand: LevelRequirements
    passed: tuple[str, ...]
    waived: tuple[str, ...]
    missing: Mapping[str, tuple[str, ...]]
    not_claimed: Mapping[str, tuple[str, ...]]
    placements: Mapping[str, str]
    unfit: tuple[str, ...]

    @property
    def holds_level(self) -> bool:
        """True if the leg holds the level."""
        return not self.unfit and not self.missing and bool(self.passed)

    @property
    def required_count(self) -> int:
        """The number of results that the level requires."""
        return len(self.demand.entries)

    @property
    def claimed_count(self) -> int:
        """The number of required results that the target claims."""
        return self.required_count - sum(map(len, self.not_claimed.values()))

    def counts(self) -> dict[str, int]:
        """Return the numbers of required, claimed, passed and other results for the certificate."""
        return {
            "due": self.required_count,
            "claimed": self.claimed_count,
            "passed": len(self.passed),
            "waived": len(self.waived),
            "not_claimed": self.required_count - self.claimed_count,
            "missing": sum(map(len, self.missing.values())),
        }


#: Verdicts that agree with an ``[unsupported]`` declaration of the target file.
_REFUSED = (Verdict.PASS.value, Verdict.PARITY.value, Verdict.UNSUPPORTED.value)


def assess_level(leg: Leg, manifest: Manifest, level: str) -> LevelAssessment:
    """Assess a leg against the requirements of a level.

    Raise UsageError if the manifest has no entry for the torch minor of the leg.
    """
    demand = manifest.level_requirements(leg["torch"], leg["mode"], level)
    declaration = TargetDeclaration.from_leg(leg)
    unfit = list(reasons_unfit(leg))
    if not run_level_includes(leg["level"], level):
        unfit.append(f"the run was of level {leg['level']}, which does not include all of {level}")
    if not demand.entries:
        unfit.append(
            f"the manifest of torch {minor_text(demand.minor)} has no results of level {level} "
            f"in mode {demand.mode}"
        )
    rows: dict[str, ResultRow] = {}
    twice: set[str] = set()
    for row_of_leg in leg["results"]:
        if row_of_leg["id"] in rows:
            twice.add(row_of_leg["id"])
        rows[row_of_leg["id"]] = row_of_leg
    unfit += [f"{name} has two rows" for name in sorted(twice)[:5]]
    passed, waived = [], []
    missing: dict[str, list[str]] = collections.defaultdict(list)
    not_claimed: dict[str, list[str]] = collections.defaultdict(list)
    for name, entry in demand.entries.items():
        reason = declaration.reason_not_claimed(entry)
        if reason is not None:
            row = rows.get(name)
            # A result under ``[unsupported]`` may pass or refuse cleanly. Any other verdict is a defect.
            refused = row is None or row["verdict"] in _REFUSED or _is_covered_by_waivers(row, demand, name)
            if refused or not reason.startswith("unsupported "):
                not_claimed[reason].append(name)
            else:
                verdict_text = row["verdict"] if row is not None else "no result"
                missing[f"declared unsupported, but not refused cleanly: {verdict_text}"].append(name)
            continue
        row = rows.get(name)
        undeclared_dtype = _undeclared_dtype(row, declaration)
        defect = _defect_of_result(row, demand, entry)
        if undeclared_dtype is not None:
            not_claimed[f"dtype {undeclared_dtype}"].append(name)
        elif defect is None:
            passed.append(name)
        elif row is not None and _is_covered_by_waivers(row, demand, name):
            waived.append(name)
        else:
            missing[defect].append(name)
    placements = dict(_placements_of_native_operators(rows, demand))
    for name, placement in placements.items():
        if placement not in _RAN_ON_THE_DEVICE:
            missing[f"placed {placement}, but the device must run the operator itself"].append(name)
    return LevelAssessment(
        demand,
        tuple(sorted(passed)),
        tuple(sorted(waived)),
        _sorted_by_group_size(missing),
        _sorted_by_group_size(not_claimed),
        placements,
        tuple(unfit),
    )


def run_level_includes(run_level: str, level: str) -> bool:
    """Return True if a run of level ``run_level`` includes all results of ``level``.

    A run of level smoke includes no level.
    """
    return run_level != levels.SMOKE and levels.includes_level(run_level, level)


def reasons_unfit(leg: Leg) -> Iterator[str]:
    """Yield the reasons why a leg supports no level at all, independent of its rows."""
    count = leg["missing"]["count"]
    lost = not leg["complete"] or count or leg["exit"] not in (exit_codes.OK, exit_codes.UNEXPECTED)
    # If only results of other shards are missing, ``shard_reason`` reports this below.
    if lost and not (
        merge.missing_shards(leg) and merge.leg_without_merge_problem(leg)["complete"] and not count
    ):
        yield f"the run is not complete{f', {count} results are missing' if count else ''}"
    if leg["selection"] is not None:
        yield f"the run was restricted with -k {leg['selection']!r}"
    if leg["left_out"]:
        yield f"the run omitted {leg['left_out']} results"
    if leg["shard"] != "1/1":
        yield shard_reason(leg)
    samples = leg["samples"]
    if samples not in ("default", "all"):
        # A different limit chooses different samples and can omit samples that the default includes.
        yield f"the run used --samples {samples}; use the default, or --samples all"
    if leg.get("seed", seeds.RELEASE_SEED) != seeds.RELEASE_SEED:
        yield f"the run used --seed {leg['seed']}; use the default, the seed of the release"
    extra = leg["facts"].get("extra")
    if extra:
        yield f"the run loaded extra modules ({', '.join(map(str, extra))}), which can change any verdict"
    if leg["level"] == levels.SMOKE:
        yield "level smoke is a quick selection and cannot be certified"
    yield from _summary_errors(leg)


def shard_reason(leg: Leg) -> str:
    """Return the reason ``the run is shard I/N…`` for a leg that is one shard of a run."""
    return f"the run is shard {leg['shard']}; merge all shards first"


def _summary_errors(leg: Leg) -> Iterator[str]:
    """Yield an error for each count of the leg's summary that differs from the count of its rows."""
    judgement = LegSummary.from_leg(leg)
    if leg["planned"] != len(judgement.rows):
        yield f"{leg['planned']} results were planned, but the leg has {len(judgement.rows)} rows"
    if leg["totals"] != judgement.totals:
        yield "the totals do not follow from the rows"
    if leg["cases"] != judgement.cases:
        yield "the verdicts of cases do not follow from the rows"
    if leg["oracle"]["differences"]:
        yield f"the oracle returned different values when it was run again: {leg['oracle']['differences'][0]}"


def _defect_of_result(row: ResultRow | None, demand: LevelRequirements, entry: RequiredResult) -> str | None:
    """Return the defect of a claimed result, or None if the result passes. Equal texts form one group."""
    if row is None:
        return "no result"
    verdict = str(row["verdict"])
    is_parity = _differs_in_parity_only(row)
    if verdict == Verdict.PARITY.value and not is_parity:
        return "parity, but the row has no failure, or a failure of another basis"
    if verdict == Verdict.PASS.value or is_parity:
        failures = 0 if is_parity else row.get("failures") or row.get("failure_count")
        if failures or not row.get("comparisons"):
            return f"{verdict}, but the row has failures or no comparisons"
        if row.get("seed", 0) != seed_of(entry.id.case.subject, entry.id.dtype, seeds.RELEASE_SEED):
            return f"{verdict}, but with samples from a different seed"
        return None
    kinds = sorted({failure["kind"] for failure in row.get("failures", ())})
    text = f"{verdict} ({', '.join(kinds)})" if kinds else verdict
    if entry.floor and verdict == Verdict.UNSUPPORTED.value:
        return f"{text}, in the floor of {demand.level}"
    return text


def _differs_in_parity_only(row: ResultRow) -> bool:
    """Return True if all deviations of a row have basis parity. A level does not demand parity, so this
    result counts as passed, even in a run with ``--parity strict``.
    """
    verdicts = (Verdict.FAIL.value, Verdict.PARITY.value)
    return row["verdict"] in verdicts and final_verdicts.failure_bases(row) == {Basis.PARITY.value}


def _undeclared_dtype(row: ResultRow | None, declaration: TargetDeclaration) -> str | None:
    """Return the undeclared dtype because of which the suite checked nothing of a result, or None.

    This also applies to results that the level requires independently of declarations:
    ``value/double@float32`` needs float64, although the level requires only float32.
    """
    if row is None or row["verdict"] != Verdict.UNSUPPORTED.value:
        return None
    return next((name for name in row.get("undeclared", ()) if name not in declaration.dtypes), None)


def _is_covered_by_waivers(row: ResultRow, demand: LevelRequirements, name: str) -> bool:
    """Return True if a waiver covers every failure kind of a row, because torch itself causes these
    failures.
    """
    kinds = {failure["kind"] for failure in row.get("failures", ())}
    return row["verdict"] in _WAIVABLE and bool(kinds) and kinds <= demand.waived.get(name, frozenset())


def _placements_of_native_operators(
    rows: Mapping[str, ResultRow], demand: LevelRequirements
) -> Iterator[tuple[str, str]]:
    """Yield the result id and the placement of each operator that must not fall back.

    The placement is ``unknown`` if the row has none.
    """
    native = frozenset(demand.native)
    for name, entry in demand.entries.items():
        if entry.id.case.property == levels.PLACEMENT and entry.id.case.subject in native and name in rows:
            yield name, str(rows[name].get("placement", Placement.UNKNOWN.value))


def _sorted_by_group_size(groups: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return the groups as sorted tuples, the largest group first."""
    order = sorted(groups, key=lambda reason: (-len(groups[reason]), reason))
    return {reason: tuple(sorted(groups[reason])) for reason in order}


def broadest_level_held(leg: Leg, manifest: Manifest) -> str | None:
    """Return the broadest level that a leg holds, or None."""
    for level in reversed(LEVELS):
        if run_level_includes(leg["level"], level) and assess_level(leg, manifest, level).holds_level:
            return level
    return None
