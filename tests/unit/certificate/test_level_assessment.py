"""``certificate.level_assessment`` determines from the result rows of a leg whether the leg holds a level."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.certificate import level_assessment
from conformance.certificate.level_assessment import LevelAssessment
from conformance.plan import levels
from tests.support import sample_passing_leg
from tests.support.sample_passing_leg import Leg


def assessment_of(leg: Leg, level: str | None = None) -> LevelAssessment:
    return level_assessment.assess_level(leg, sample_passing_leg.committed_manifest(), level or leg["level"])


def with_declaration(leg: Leg, **changes: Any) -> Leg:
    leg["target"]["declared"] |= changes
    return leg


def test_a_leg_that_passes_holds_the_level_and_all_narrower_levels() -> None:
    leg = sample_passing_leg.leg("core")
    assessment = assessment_of(leg)
    assert assessment.holds_level and assessment.counts()["passed"] == assessment.counts()["due"] == len(
        leg["results"]
    )
    assert assessment_of(leg, "bringup").holds_level
    assert not assessment_of(leg, "training").holds_level
    assert level_assessment.broadest_level_held(leg, sample_passing_leg.committed_manifest()) == "core"


@pytest.mark.parametrize(
    "verdict", ["fail", "xfail", "flaky", "xpass", "unsupported", "vacuous", "crash", "error"]
)
def test_only_the_verdict_pass_counts(verdict: str) -> None:
    kinds = {} if verdict in ("unsupported", "xpass") else {"failures": [{"kind": "value", "message": "off"}]}
    leg = sample_passing_leg.with_rows(
        sample_passing_leg.leg(), {"value/add@float32": {"verdict": verdict, **kinds}}
    )
    assessment = assessment_of(leg)
    assert not assessment.holds_level
    assert list(assessment.missing.values()) == [("value/add@float32",)]


def test_a_result_without_a_row_is_missing() -> None:
    leg = sample_passing_leg.leg()
    leg["results"] = [row for row in leg["results"] if row["id"] != "value/add@float32"]
    assessment = assessment_of(sample_passing_leg.with_recounted_totals(leg))
    assert dict(assessment.missing) == {"no result": ("value/add@float32",)} and not assessment.holds_level


def test_duplicate_rows_yield_no_level() -> None:
    leg = sample_passing_leg.leg()
    leg["results"].append(dict(leg["results"][0]))
    assessment = assessment_of(sample_passing_leg.with_recounted_totals(leg))
    assert not assessment.holds_level and assessment.unfit == (f"{leg['results'][0]['id']} has two rows",)


UNFIT: list[tuple[dict[str, Any], str]] = [
    ({"selection": "add"}, "restricted with -k 'add'"),
    ({"left_out": 3}, "omitted 3 results"),
    ({"shard": "1/4"}, "shard 1/4; merge all shards"),
    ({"shard": "1,2/4"}, "shard 1,2/4"),
    ({"samples": "4"}, "--samples 4"),
    ({"seed": 7}, "--seed 7"),
    ({"complete": False, "exit": 3}, "not complete"),
    ({"exit": 3}, "not complete"),
    ({"exit": 2}, "not complete"),
    ({"missing": {"count": 2, "first": []}}, "2 results are missing"),
    ({"level": "smoke"}, "smoke is a quick selection"),
    ({"oracle": {"checked": 3, "differences": ["add@float32: other"]}}, "oracle returned different values"),
]


@pytest.mark.parametrize(("change", "unfit_text"), UNFIT, ids=lambda value: str(value)[:40])
def test_a_restricted_or_incomplete_run_yields_no_level(change: dict[str, Any], unfit_text: str) -> None:
    leg = sample_passing_leg.with_recounted_totals(sample_passing_leg.leg() | change)
    assessment = assessment_of(leg, "bringup")
    assert not assessment.holds_level
    assert any(unfit_text in reason for reason in assessment.unfit), assessment.unfit
    assert level_assessment.broadest_level_held(leg, sample_passing_leg.committed_manifest()) is None


def test_extra_modules_and_wrong_totals_yield_no_level() -> None:
    leg = sample_passing_leg.leg()
    leg["facts"]["extra"] = ["mine"]
    assert "extra modules (mine)" in assessment_of(leg).unfit[0]
    leg = sample_passing_leg.leg()
    leg["totals"] = {"pass": 1}
    assert assessment_of(leg).unfit == ("the totals do not follow from the rows",)
    leg = sample_passing_leg.leg()
    leg["cases"]["value/add"] = "fail"
    assert assessment_of(leg).unfit == ("the verdicts of cases do not follow from the rows",)
    leg = sample_passing_leg.leg()
    leg["planned"] += 1
    assert "were planned" in assessment_of(leg).unfit[0]


def test_a_level_needs_the_default_samples_or_all_samples() -> None:
    assert assessment_of(sample_passing_leg.leg(samples="all")).holds_level
    for samples in ("8", "32", "100"):
        assert "--samples" in assessment_of(sample_passing_leg.leg(samples=samples)).unfit[0]


@pytest.mark.parametrize("verdict", ["fail", "crash", "timeout", "xfail"])
def test_a_result_declared_unsupported_must_be_refused(verdict: str) -> None:
    leg = with_declaration(sample_passing_leg.leg("core"), unsupported={"value/ad*@float16": "slow"})
    assessment = assessment_of(sample_passing_leg.with_rows(leg, {"value/add@float16": {"verdict": verdict}}))
    assert not assessment.holds_level
    assert any("not refused cleanly" in reason for reason in assessment.missing)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"comparisons": 0}, "has failures or no comparisons"),
        ({"failure_count": 1}, "has failures"),
        ({"failures": [{"kind": "value", "message": "off"}]}, "has failures"),
        ({"seed": 1}, "different seed"),
    ],
)
def test_a_pass_that_its_row_contradicts_does_not_count(change: dict[str, Any], message: str) -> None:
    assessment = assessment_of(
        sample_passing_leg.with_rows(sample_passing_leg.leg(), {"value/add@float32": change})
    )
    (reason,) = assessment.missing
    assert message in reason and not assessment.holds_level


DECLARED: list[tuple[dict[str, Any], str, str]] = [
    ({"dtypes": ["float32", "int64", "bool"]}, "dtype float16", "value/add@float16"),
    ({"operators": {"add": ["float32"]}}, "operators.add", "value/add@float16"),
    ({"unsupported": {"value/ad*@float16": "slow"}}, "unsupported value/ad*@float16", "value/add@float16"),
    ({"capabilities": {"fake_tensors": False}}, "capability fake_tensors", "fake/add@float32"),
    ({"capabilities": {"random": False}}, "capability random", "value/bernoulli@float32"),
]


@pytest.mark.parametrize(("declared", "reason", "name"), DECLARED, ids=[entry[1] for entry in DECLARED])
def test_undeclared_results_are_not_claimed(declared: dict[str, Any], reason: str, name: str) -> None:
    leg = with_declaration(sample_passing_leg.leg("core"), **declared)
    leg = sample_passing_leg.with_rows(leg, {name: {"verdict": "unsupported"}})
    assessment = assessment_of(leg)
    assert assessment.holds_level and name in assessment.not_claimed[reason]
    assert (
        assessment.claimed_count
        == assessment.required_count - sum(map(len, assessment.not_claimed.values()))
        == len(assessment.passed)
    )
    # A passing result that is not claimed is not counted as passed.
    unrestricted = assessment_of(with_declaration(sample_passing_leg.leg("core"), **declared))
    assert unrestricted.counts() == assessment.counts()
    # If the target claims the result, an unsupported result counts as missing.
    assert not assessment_of(
        sample_passing_leg.with_rows(sample_passing_leg.leg("core"), {name: {"verdict": "unsupported"}})
    ).holds_level


FLOOR: list[tuple[dict[str, Any], str]] = [
    ({"dtypes": ["float16"]}, "value/add@float32"),
    ({"operators": {"add": []}}, "value/add@float32"),
    ({"unsupported": {"*/*@*": "not yet"}}, "value/add@int64"),
    ({"capabilities": {"views": False}}, "views/view@float32"),
    ({"capabilities": {"out_variants": False}}, "out/add@float32"),
]


@pytest.mark.parametrize(("declared", "name"), FLOOR, ids=lambda value: str(value)[:40])
def test_the_floor_of_a_level_cannot_be_declared_away(declared: dict[str, Any], name: str) -> None:
    leg = with_declaration(sample_passing_leg.leg("core"), **declared)
    assessment = assessment_of(sample_passing_leg.with_rows(leg, {name: {"verdict": "unsupported"}}))
    assert (
        dict(assessment.missing) == {"unsupported, in the floor of core": (name,)}
        and not assessment.holds_level
    )


@pytest.mark.parametrize(("mode", "capability"), [("compile", "compile"), ("graph", "graphs")])
def test_a_mode_cannot_be_held_by_not_declaring_its_capability(mode: str, capability: str) -> None:
    leg = with_declaration(sample_passing_leg.leg(mode=mode), capabilities={capability: False})
    assert assessment_of(
        leg
    ).holds_level  # all results pass, although the target does not declare the capability
    leg["results"] = [{**row, "verdict": "unsupported"} for row in leg["results"]]
    assert not assessment_of(sample_passing_leg.with_recounted_totals(leg)).holds_level


def test_results_of_an_undeclared_hook_are_not_claimed() -> None:
    leg = with_declaration(sample_passing_leg.leg("full"), hooks=[])
    leg["results"] = [row for row in leg["results"] if row["id"] != "no_host_wait/Stream@any"]
    assessment = assessment_of(sample_passing_leg.with_recounted_totals(leg))
    assert assessment.holds_level and assessment.not_claimed["hook delay"] == ("no_host_wait/Stream@any",)


@pytest.mark.parametrize("placement", ["fallback", "unknown", "refused", None])
def test_listed_operators_must_not_fall_back(placement: str | None) -> None:
    leg = sample_passing_leg.with_rows(
        sample_passing_leg.leg("core"), {"placement/mm@float32": {"placement": placement}}
    )
    for row in leg["results"]:
        if row.get("placement", "") is None:
            del row["placement"]
    assessment = assessment_of(leg)
    problem = f"placed {placement or 'unknown'}, but the device must run the operator itself"
    assert dict(assessment.missing) == {problem: ("placement/mm@float32",)} and not assessment.holds_level
    assert assessment_of(leg, "bringup").holds_level
    assert levels.load("core").native == assessment.demand.native


def test_placement_composite_is_accepted() -> None:
    leg = sample_passing_leg.with_rows(
        sample_passing_leg.leg("core"), {"placement/mm@float32": {"placement": "composite"}}
    )
    assert assessment_of(leg).holds_level


@pytest.mark.parametrize("verdict", ["fail", "xfail"])
def test_a_fault_of_torch_is_waived_for_every_backend(verdict: str) -> None:
    name = "out/nn.functional.gelu@float32"
    off = {"verdict": verdict, "failures": [{"kind": "value", "message": "off"}], "failure_count": 1}
    assessment = assessment_of(sample_passing_leg.with_rows(sample_passing_leg.leg("core"), {name: off}))
    assert assessment.holds_level and assessment.waived == (name,) and name not in assessment.passed
    # A waiver covers one kind of failure only.
    off["failures"] = [{"kind": "value", "message": "off"}, {"kind": "crash", "message": "and worse"}]
    assert not assessment_of(
        sample_passing_leg.with_rows(sample_passing_leg.leg("core"), {name: off})
    ).holds_level
    # A waiver covers failures only: a flaky result is not a fault of torch.
    off |= {"verdict": "flaky", "failures": [{"kind": "value", "message": "off"}]}
    assert not assessment_of(
        sample_passing_leg.with_rows(sample_passing_leg.leg("core"), {name: off})
    ).holds_level


def test_a_result_of_an_undeclared_dtype_is_not_claimed_even_in_the_floor() -> None:
    name = "value/float_power@float32"
    row = {"verdict": "unsupported", "comparisons": 0, "undeclared": ["float64"]}
    leg = sample_passing_leg.with_rows(sample_passing_leg.leg("core"), {name: row})
    # The target declares float64, so the result must not be omitted because of float64.
    assert not assessment_of(leg).holds_level
    dtypes = [dtype_name for dtype_name in leg["target"]["declared"]["dtypes"] if dtype_name != "float64"]
    assessment = assessment_of(with_declaration(leg, dtypes=dtypes))
    assert name in assessment.not_claimed["dtype float64"] and assessment.holds_level
    # Without an undeclared dtype, an unsupported result counts as missing.
    row["undeclared"] = []
    leg = sample_passing_leg.with_rows(sample_passing_leg.leg("core"), {name: row})
    assert not assessment_of(with_declaration(leg, dtypes=dtypes)).holds_level


@pytest.mark.parametrize(("verdict", "bases", "holds"), [
    ("parity", ["parity"], True),
    ("fail", ["parity", "parity"], True),
    ("fail", ["parity", "consistency"], False),
    ("parity", ["documented"], False),
    ("parity", [], False),
])  # fmt: skip
def test_a_level_does_not_demand_parity(verdict: str, bases: list[str], holds: bool) -> None:
    failures = [{"kind": "value", "message": "off", "basis": basis} for basis in bases]
    change = {"verdict": verdict, "failures": failures, "failure_count": len(failures)}
    assessment = assessment_of(
        sample_passing_leg.with_rows(sample_passing_leg.leg(), {"value/add@float32": change})
    )
    assert assessment.holds_level == holds
