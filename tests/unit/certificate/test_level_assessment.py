"""Level assessments, counted from the result rows of a leg."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.certificate import level_assessment
from conformance.certificate.level_assessment import LevelAssessment
from conformance.plan import levels
from tests.support import sample_passing_leg
from tests.support.sample_passing_leg import Leg


def assessed(leg: Leg, level: str | None = None) -> LevelAssessment:
    return level_assessment.assess_level(leg, sample_passing_leg.known(), level or leg["level"])


def declaring(leg: Leg, **changes: Any) -> Leg:
    leg["target"]["declared"] |= changes
    return leg


def test_all_passes_hold_the_level_and_every_narrower_one() -> None:
    leg = sample_passing_leg.leg("core")
    assessment = assessed(leg)
    assert assessment.holds and assessment.counts()["passed"] == assessment.counts()["due"] == len(
        leg["results"]
    )
    assert assessed(leg, "bringup").holds
    assert not assessed(leg, "training").holds
    assert level_assessment.broadest_level_held(leg, sample_passing_leg.known()) == "core"


@pytest.mark.parametrize(
    "verdict", ["fail", "xfail", "flaky", "xpass", "unsupported", "vacuous", "crash", "error"]
)
def test_nothing_but_pass_counts(verdict: str) -> None:
    kinds = {} if verdict in ("unsupported", "xpass") else {"failures": [{"kind": "value", "message": "off"}]}
    leg = sample_passing_leg.with_rows(
        sample_passing_leg.leg(), {"value/add@float32": {"verdict": verdict, **kinds}}
    )
    assessment = assessed(leg)
    assert not assessment.holds
    assert list(assessment.missing.values()) == [("value/add@float32",)]


def test_a_result_without_a_row_is_missing() -> None:
    leg = sample_passing_leg.leg()
    leg["results"] = [row for row in leg["results"] if row["id"] != "value/add@float32"]
    assessment = assessed(sample_passing_leg.with_recounted_totals(leg))
    assert dict(assessment.missing) == {"no result": ("value/add@float32",)} and not assessment.holds


def test_two_rows_of_one_result_yield_no_level() -> None:
    leg = sample_passing_leg.leg()
    leg["results"].append(dict(leg["results"][0]))
    assessment = assessed(sample_passing_leg.with_recounted_totals(leg))
    assert not assessment.holds and assessment.unfit == (f"{leg['results'][0]['id']} has two rows",)


UNFIT: list[tuple[dict[str, Any], str]] = [
    ({"selection": "add"}, "restricted with -k 'add'"),
    ({"left_out": 3}, "omitted 3 results"),
    ({"shard": "1/4"}, "shard 1/4; merge all shards"),
    ({"shard": "1,2/4"}, "shard 1,2/4"),
    ({"samples": "4"}, "--samples 4"),
    ({"complete": False, "exit": 3}, "not complete"),
    ({"exit": 3}, "not complete"),
    ({"exit": 2}, "not complete"),
    ({"missing": {"count": 2, "first": []}}, "2 results are missing"),
    ({"level": "smoke"}, "smoke is a quick selection"),
    ({"oracle": {"checked": 3, "differences": ["add@float32: other"]}}, "oracle returned different values"),
]


@pytest.mark.parametrize(("change", "unfit_text"), UNFIT, ids=lambda value: str(value)[:40])
def test_a_run_that_is_not_whole_yields_no_level(change: dict[str, Any], unfit_text: str) -> None:
    leg = sample_passing_leg.with_recounted_totals(sample_passing_leg.leg() | change)
    assessment = assessed(leg, "bringup")
    assert not assessment.holds
    assert any(unfit_text in reason for reason in assessment.unfit), assessment.unfit
    assert level_assessment.broadest_level_held(leg, sample_passing_leg.known()) is None


def test_extra_modules_and_sums_that_do_not_follow_yield_no_level() -> None:
    leg = sample_passing_leg.leg()
    leg["facts"]["extra"] = ["mine"]
    assert "extra modules (mine)" in assessed(leg).unfit[0]
    leg = sample_passing_leg.leg()
    leg["totals"] = {"pass": 1}
    assert assessed(leg).unfit == ("the totals do not follow from the rows",)
    leg = sample_passing_leg.leg()
    leg["cases"]["value/add"] = "fail"
    assert assessed(leg).unfit == ("the verdicts of cases do not follow from the rows",)
    leg = sample_passing_leg.leg()
    leg["planned"] += 1
    assert "were planned" in assessed(leg).unfit[0]


def test_the_default_samples_or_all_will_do_and_no_number() -> None:
    assert assessed(sample_passing_leg.leg(samples="all")).holds
    for samples in ("8", "32", "100"):
        assert "--samples" in assessed(sample_passing_leg.leg(samples=samples)).unfit[0]


@pytest.mark.parametrize("verdict", ["fail", "crash", "timeout", "xfail"])
def test_what_is_declared_unsupported_must_be_refused(verdict: str) -> None:
    leg = declaring(sample_passing_leg.leg("core"), unsupported={"value/ad*@float16": "slow"})
    assessment = assessed(sample_passing_leg.with_rows(leg, {"value/add@float16": {"verdict": verdict}}))
    assert not assessment.holds
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
    assessment = assessed(
        sample_passing_leg.with_rows(sample_passing_leg.leg(), {"value/add@float32": change})
    )
    (reason,) = assessment.missing
    assert message in reason and not assessment.holds


DECLARED: list[tuple[dict[str, Any], str, str]] = [
    ({"dtypes": ["float32", "int64", "bool"]}, "dtype float16", "value/add@float16"),
    ({"operators": {"add": ["float32"]}}, "operators.add", "value/add@float16"),
    ({"unsupported": {"value/ad*@float16": "slow"}}, "unsupported value/ad*@float16", "value/add@float16"),
    ({"capabilities": {"fake_tensors": False}}, "capability fake_tensors", "fake/add@float32"),
    ({"capabilities": {"random": False}}, "capability random", "value/bernoulli@float32"),
]


@pytest.mark.parametrize(("declared", "reason", "name"), DECLARED, ids=[entry[1] for entry in DECLARED])
def test_what_is_not_declared_is_not_claimed(declared: dict[str, Any], reason: str, name: str) -> None:
    leg = declaring(sample_passing_leg.leg("core"), **declared)
    leg = sample_passing_leg.with_rows(leg, {name: {"verdict": "unsupported"}})
    assessment = assessed(leg)
    assert assessment.holds and name in assessment.not_claimed[reason]
    assert (
        assessment.claimed
        == assessment.required - sum(map(len, assessment.not_claimed.values()))
        == len(assessment.passed)
    )
    # A passing result that is not claimed is not counted as passed.
    unrestricted = assessed(declaring(sample_passing_leg.leg("core"), **declared))
    assert unrestricted.counts() == assessment.counts()
    # If the result is claimed, it is missing.
    assert not assessed(
        sample_passing_leg.with_rows(sample_passing_leg.leg("core"), {name: {"verdict": "unsupported"}})
    ).holds


FLOOR: list[tuple[dict[str, Any], str]] = [
    ({"dtypes": ["float16"]}, "value/add@float32"),
    ({"operators": {"add": []}}, "value/add@float32"),
    ({"unsupported": {"*/*@*": "not yet"}}, "value/add@int64"),
    ({"capabilities": {"views": False}}, "views/view@float32"),
    ({"capabilities": {"out_variants": False}}, "out/add@float32"),
]


@pytest.mark.parametrize(("declared", "name"), FLOOR, ids=lambda value: str(value)[:40])
def test_no_declaration_removes_the_floor(declared: dict[str, Any], name: str) -> None:
    leg = declaring(sample_passing_leg.leg("core"), **declared)
    assessment = assessed(sample_passing_leg.with_rows(leg, {name: {"verdict": "unsupported"}}))
    assert dict(assessment.missing) == {"unsupported, in the floor of core": (name,)} and not assessment.holds


@pytest.mark.parametrize(("mode", "capability"), [("compile", "compile"), ("graph", "graphs")])
def test_nobody_holds_a_mode_by_not_declaring_it(mode: str, capability: str) -> None:
    leg = declaring(sample_passing_leg.leg(mode=mode), capabilities={capability: False})
    assert assessed(leg).holds  # everything works: the target declares less than the device supports
    leg["results"] = [{**row, "verdict": "unsupported"} for row in leg["results"]]
    assert not assessed(sample_passing_leg.with_recounted_totals(leg)).holds


def test_a_hook_that_the_file_does_not_name_is_not_claimed() -> None:
    leg = declaring(sample_passing_leg.leg("full"), hooks=[])
    leg["results"] = [row for row in leg["results"] if row["id"] != "no_host_wait/Stream@any"]
    assessment = assessed(sample_passing_leg.with_recounted_totals(leg))
    assert assessment.holds and assessment.not_claimed["hook delay"] == ("no_host_wait/Stream@any",)


@pytest.mark.parametrize("placement", ["fallback", "unknown", "refused", None])
def test_listed_operators_must_not_fall_back(placement: str | None) -> None:
    leg = sample_passing_leg.with_rows(
        sample_passing_leg.leg("core"), {"placement/mm@float32": {"placement": placement}}
    )
    for row in leg["results"]:
        if row.get("placement", "") is None:
            del row["placement"]
    assessment = assessed(leg)
    problem = f"placed {placement or 'unknown'}, but the device must run the operator itself"
    assert dict(assessment.missing) == {problem: ("placement/mm@float32",)} and not assessment.holds
    assert assessed(leg, "bringup").holds
    assert levels.load("core").native == assessment.demand.native


def test_composites_of_kernels_on_the_device_will_do() -> None:
    leg = sample_passing_leg.with_rows(
        sample_passing_leg.leg("core"), {"placement/mm@float32": {"placement": "composite"}}
    )
    assert assessed(leg).holds


@pytest.mark.parametrize("verdict", ["fail", "xfail"])
def test_what_torch_itself_breaks_is_waived_for_everyone(verdict: str) -> None:
    name = "out/nn.functional.gelu@float32"
    off = {"verdict": verdict, "failures": [{"kind": "value", "message": "off"}], "failure_count": 1}
    assessment = assessed(sample_passing_leg.with_rows(sample_passing_leg.leg("core"), {name: off}))
    assert assessment.holds and assessment.waived == (name,) and name not in assessment.passed
    # A waiver covers one kind of failure only.
    off["failures"] = [{"kind": "value", "message": "off"}, {"kind": "crash", "message": "and worse"}]
    assert not assessed(sample_passing_leg.with_rows(sample_passing_leg.leg("core"), {name: off})).holds
    # A waiver covers failures only: an unstable result is not a fault of torch.
    off |= {"verdict": "flaky", "failures": [{"kind": "value", "message": "off"}]}
    assert not assessed(sample_passing_leg.with_rows(sample_passing_leg.leg("core"), {name: off})).holds


def test_what_needs_an_undeclared_dtype_is_not_claimed_in_the_floor_either() -> None:
    name = "value/float_power@float32"
    row = {"verdict": "unsupported", "comparisons": 0, "undeclared": ["float64"]}
    leg = sample_passing_leg.with_rows(sample_passing_leg.leg("core"), {name: row})
    # The target declares the dtype, so there was no reason to omit the result.
    assert not assessed(leg).holds
    dtypes = [dtype_name for dtype_name in leg["target"]["declared"]["dtypes"] if dtype_name != "float64"]
    assessment = assessed(declaring(leg, dtypes=dtypes))
    assert name in assessment.not_claimed["dtype float64"] and assessment.holds
    # A refusal for a different reason remains a refusal.
    row["undeclared"] = []
    leg = sample_passing_leg.with_rows(sample_passing_leg.leg("core"), {name: row})
    assert not assessed(declaring(leg, dtypes=dtypes)).holds
