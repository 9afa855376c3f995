"""Entitlement to a level: counted from rows, reported in words."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.certificate import level_assessment
from conformance.certificate.level_assessment import LevelAssessment
from conformance.plan import levels
from tests.support import sample_passing_leg
from tests.support.sample_passing_leg import Leg


def judged(leg: Leg, level: str | None = None) -> LevelAssessment:
    return level_assessment.assess_level(leg, sample_passing_leg.known(), level or leg["level"])


def declaring(leg: Leg, **changes: Any) -> Leg:
    leg["target"]["declared"] |= changes
    return leg


def test_all_passes_hold_the_level_and_every_narrower_one() -> None:
    leg = sample_passing_leg.leg("core")
    found = judged(leg)
    assert found.holds and found.counts()["passed"] == found.counts()["due"] == len(leg["results"])
    assert judged(leg, "bringup").holds
    assert not judged(leg, "training").holds
    assert level_assessment.broadest_level_held(leg, sample_passing_leg.known()) == "core"


@pytest.mark.parametrize(
    "verdict", ["fail", "xfail", "flaky", "xpass", "unsupported", "vacuous", "crash", "error"]
)
def test_nothing_but_pass_counts(verdict: str) -> None:
    kinds = {} if verdict in ("unsupported", "xpass") else {"failures": [{"kind": "value", "message": "off"}]}
    leg = sample_passing_leg.with_rows(
        sample_passing_leg.leg(), {"value/add@float32": {"verdict": verdict, **kinds}}
    )
    found = judged(leg)
    assert not found.holds
    assert list(found.missing.values()) == [("value/add@float32",)]


def test_a_result_without_a_row_is_missing() -> None:
    leg = sample_passing_leg.leg()
    leg["results"] = [row for row in leg["results"] if row["id"] != "value/add@float32"]
    found = judged(sample_passing_leg.summed(leg))
    assert dict(found.missing) == {"no result": ("value/add@float32",)} and not found.holds


def test_two_rows_of_one_result_yield_no_level() -> None:
    leg = sample_passing_leg.leg()
    leg["results"].append(dict(leg["results"][0]))
    found = judged(sample_passing_leg.summed(leg))
    assert not found.holds and found.unfit == (f"{leg['results'][0]['id']} has two rows",)


UNFIT: list[tuple[dict[str, Any], str]] = [
    ({"selection": "add"}, "narrowed with -k 'add'"),
    ({"left_out": 3}, "left out 3 results"),
    ({"shard": "1/4"}, "shard 1/4; merge all shards"),
    ({"shard": "1,2/4"}, "shard 1,2/4"),
    ({"samples": "4"}, "--samples 4"),
    ({"complete": False, "exit": 3}, "not complete"),
    ({"exit": 3}, "not complete"),
    ({"exit": 2}, "not complete"),
    ({"missing": {"count": 2, "first": []}}, "2 results are missing"),
    ({"level": "smoke"}, "smoke is a quick choice"),
    ({"oracle": {"checked": 3, "differences": ["add@float32: other"]}}, "oracle gave other values"),
]


@pytest.mark.parametrize(("change", "words"), UNFIT, ids=lambda value: str(value)[:40])
def test_a_run_that_is_not_whole_yields_no_level(change: dict[str, Any], words: str) -> None:
    leg = sample_passing_leg.summed(sample_passing_leg.leg() | change)
    found = judged(leg, "bringup")
    assert not found.holds
    assert any(words in reason for reason in found.unfit), found.unfit
    assert level_assessment.broadest_level_held(leg, sample_passing_leg.known()) is None


def test_extra_modules_and_sums_that_do_not_follow_yield_no_level() -> None:
    leg = sample_passing_leg.leg()
    leg["facts"]["extra"] = ["mine"]
    assert "extra modules (mine)" in judged(leg).unfit[0]
    leg = sample_passing_leg.leg()
    leg["totals"] = {"pass": 1}
    assert judged(leg).unfit == ("the totals do not follow from the rows",)
    leg = sample_passing_leg.leg()
    leg["cases"]["value/add"] = "fail"
    assert judged(leg).unfit == ("the verdicts of cases do not follow from the rows",)
    leg = sample_passing_leg.leg()
    leg["planned"] += 1
    assert "were planned" in judged(leg).unfit[0]


def test_the_default_samples_or_all_will_do_and_no_number() -> None:
    assert judged(sample_passing_leg.leg(samples="all")).holds
    for samples in ("8", "32", "100"):
        assert "--samples" in judged(sample_passing_leg.leg(samples=samples)).unfit[0]


@pytest.mark.parametrize("verdict", ["fail", "crash", "timeout", "xfail"])
def test_what_is_declared_unsupported_must_be_refused(verdict: str) -> None:
    leg = declaring(sample_passing_leg.leg("core"), unsupported={"value/ad*@float16": "slow"})
    found = judged(sample_passing_leg.with_rows(leg, {"value/add@float16": {"verdict": verdict}}))
    assert not found.holds
    assert any("not refused cleanly" in reason for reason in found.missing)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"comparisons": 0}, "compared nothing"),
        ({"failure_count": 1}, "shows failures"),
        ({"failures": [{"kind": "value", "message": "off"}]}, "shows failures"),
        ({"seed": 1}, "another seed"),
    ],
)
def test_a_pass_that_its_row_contradicts_does_not_count(change: dict[str, Any], words: str) -> None:
    found = judged(sample_passing_leg.with_rows(sample_passing_leg.leg(), {"value/add@float32": change}))
    (reason,) = found.missing
    assert words in reason and not found.holds


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
    found = judged(leg)
    assert found.holds and name in found.not_claimed[reason]
    assert found.claimed == found.due - sum(map(len, found.not_claimed.values())) == len(found.passed)
    # It is not counted as passed even if it passes.
    other = judged(declaring(sample_passing_leg.leg("core"), **declared))
    assert other.counts() == found.counts()
    # And claimed, it is missing.
    assert not judged(
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
    found = judged(sample_passing_leg.with_rows(leg, {name: {"verdict": "unsupported"}}))
    assert dict(found.missing) == {"unsupported, in the floor of core": (name,)} and not found.holds


@pytest.mark.parametrize(("mode", "word"), [("compile", "compile"), ("graph", "graphs")])
def test_nobody_holds_a_mode_by_not_declaring_it(mode: str, word: str) -> None:
    leg = declaring(sample_passing_leg.leg(mode=mode), capabilities={word: False})
    assert judged(leg).holds  # all of it works: the declaration is too modest
    leg["results"] = [{**row, "verdict": "unsupported"} for row in leg["results"]]
    assert not judged(sample_passing_leg.summed(leg)).holds


def test_a_hook_that_the_file_does_not_name_is_not_claimed() -> None:
    leg = declaring(sample_passing_leg.leg("full"), hooks=[])
    leg["results"] = [row for row in leg["results"] if row["id"] != "no_host_wait/Stream@any"]
    found = judged(sample_passing_leg.summed(leg))
    assert found.holds and found.not_claimed["hook delay"] == ("no_host_wait/Stream@any",)


@pytest.mark.parametrize("placement", ["fallback", "unknown", "refused", None])
def test_listed_operators_must_not_fall_back(placement: str | None) -> None:
    leg = sample_passing_leg.with_rows(
        sample_passing_leg.leg("core"), {"placement/mm@float32": {"placement": placement}}
    )
    for row in leg["results"]:
        if row.get("placement", "") is None:
            del row["placement"]
    found = judged(leg)
    words = f"placed {placement or 'unknown'}, although a device must run it itself"
    assert dict(found.missing) == {words: ("placement/mm@float32",)} and not found.holds
    assert judged(leg, "bringup").holds
    assert levels.load("core").native == found.demand.native


def test_composites_of_kernels_on_the_device_will_do() -> None:
    leg = sample_passing_leg.with_rows(
        sample_passing_leg.leg("core"), {"placement/mm@float32": {"placement": "composite"}}
    )
    assert judged(leg).holds


@pytest.mark.parametrize("verdict", ["fail", "xfail"])
def test_what_torch_itself_breaks_is_waived_for_everyone(verdict: str) -> None:
    name = "out/nn.functional.gelu@float32"
    off = {"verdict": verdict, "failures": [{"kind": "value", "message": "off"}], "failure_count": 1}
    found = judged(sample_passing_leg.with_rows(sample_passing_leg.leg("core"), {name: off}))
    assert found.holds and found.waived == (name,) and name not in found.passed
    # Of its own kind of failure, and no other.
    off["failures"] = [{"kind": "value", "message": "off"}, {"kind": "crash", "message": "and worse"}]
    assert not judged(sample_passing_leg.with_rows(sample_passing_leg.leg("core"), {name: off})).holds
    # And only failures that were seen: flaky is not what torch breaks.
    off |= {"verdict": "flaky", "failures": [{"kind": "value", "message": "off"}]}
    assert not judged(sample_passing_leg.with_rows(sample_passing_leg.leg("core"), {name: off})).holds


def test_what_needs_an_undeclared_dtype_is_not_claimed_in_the_floor_either() -> None:
    name = "value/float_power@float32"
    row = {"verdict": "unsupported", "comparisons": 0, "undeclared": ["float64"]}
    leg = sample_passing_leg.with_rows(sample_passing_leg.leg("core"), {name: row})
    # The target declares it, so that there was no reason to leave it out.
    assert not judged(leg).holds
    dtypes = [word for word in leg["target"]["declared"]["dtypes"] if word != "float64"]
    found = judged(declaring(leg, dtypes=dtypes))
    assert name in found.not_claimed["dtype float64"] and found.holds
    # A refusal of something else remains one.
    row["undeclared"] = []
    leg = sample_passing_leg.with_rows(sample_passing_leg.leg("core"), {name: row})
    assert not judged(declaring(leg, dtypes=dtypes)).holds
