"""An unrestricted leg determines the state of each expectation, and reports stale, over-broad and expired
entries.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import pytest
from expecttest import assert_expected_inline

from conformance.expectations import entry_states
from conformance.results.merge import merge_legs
from tests.support.sample_legs import DAY, expectation, leg, leg_with_expectations, row


def test_an_unrestricted_run_reports_stale_over_broad_and_expired_entries() -> None:
    entries = [
        expectation("p/good@d", "value"), expectation("p/*@d", "value"),
        expectation("p/bad@d", "value", "2029-01-01"),
        expectation("p/other@d", "message"), expectation("p/bad*@d", "value"),
        dataclasses.replace(expectation("q/*@d", "value"), modes=("eager",)), expectation("q/*@d", "value"),
    ]  # fmt: skip
    judged_leg = leg_with_expectations(entries, {"good": "pass", "bad": "fail", "other": "unsupported"})
    assert_expected_inline(
        "\n".join(judged_leg["problems"]),
        """\
expectation p/good@d (value) in file.toml is stale: its result does not fail in that way in mode eager; remove it, or name the modes that need it
expectation p/*@d (value) in file.toml is over-broad: 1 of the 3 results that it matches pass, such as p/good@d; 'conformance expect update' writes narrower ones
expectation p/bad@d (value) in file.toml expired on 2029-01-01 and 1 results still fail in that way; see https://example.org and set a later day, or fix them
expectation p/other@d (message) in file.toml is stale: its result does not fail in that way in mode eager; remove it, or name the modes that need it
expectation q/*@d (value) in file.toml is stale: it matches no result in mode eager; remove 'eager' from its modes""",  # noqa: E501
    )
    assert judged_leg["exit"] == 1


@pytest.mark.parametrize("entry", ["p/bad*@d", "p/*@d", "p/good@d"])
def test_a_wrong_entry_makes_an_unrestricted_run_exit_with_1(entry: str) -> None:
    verdicts = {"good": "pass", "bad": "unsupported", "bad2": "pass"}
    entries = [expectation(entry, "value")]
    assert leg_with_expectations(entries, verdicts)["exit"] == 1
    assert leg_with_expectations([], verdicts)["exit"] == 0
    assert leg_with_expectations([expectation("p/bad@d", "value", "2029-01-01")], verdicts)["exit"] == 1


@pytest.mark.parametrize(
    "part", [{"level": "core"}, {"selection": "bad"}, {"shard": "1/2"}, {"samples": "3"}, {"missing": 1}]
)
def test_a_restricted_run_does_not_judge_entries(part: dict[str, Any]) -> None:
    entries = [expectation("p/*@d", "value"), expectation("p/bad@d", "message")]
    judged_leg = leg_with_expectations(entries, {"good": "pass", "bad": "fail"}, **part)
    assert (judged_leg["expectations"]["judged"], judged_leg["problems"]) == (False, [])
    assert judged_leg["exit"] == (3 if "missing" in part else 0)
    assert [entry["fails"] for entry in judged_leg["expectations"]["entries"]] == [1, 0]


def test_a_passing_pattern_is_xpass_only_if_all_its_results_ran() -> None:
    entries = [expectation("p/*@d", "value")]
    few = leg_with_expectations(entries, {"good": "pass"}, selection="good", reach={"p/*@d": 2})
    assert (few["results"][0]["verdict"], few["exit"]) == ("pass", 0)
    all_of_it = leg_with_expectations(entries, {"good": "pass"}, level="core", reach={"p/*@d": 1})
    assert (all_of_it["results"][0]["verdict"], all_of_it["exit"]) == ("xpass", 1)
    judged_leg = leg_with_expectations([expectation("p/good@d", "value")], {"good": "pass"}, selection="good")
    assert judged_leg["results"][0]["verdict"] == "xpass"
    few_samples = leg_with_expectations([expectation("p/good@d", "value")], {"good": "pass"}, samples="1")
    assert few_samples["results"][0]["verdict"] == "pass"


def test_merged_shards_are_judged_as_an_unrestricted_run() -> None:
    entries = [expectation("p/*@d", "value"), expectation("p/gone*@d", "value")]
    parts = [
        ("a", leg_with_expectations(entries, {"good": "pass"}, shard="1/2")),
        ("b", leg_with_expectations(entries, {"bad": "fail"}, shard="2/2")),
    ]
    (whole,) = merge_legs(parts)
    assert [problem.partition(" is ")[2][:10] for problem in whole["problems"]] == ["over-broad"]
    assert (whole["exit"], whole["expectations"]["judged"]) == (1, True)
    (part,) = merge_legs(parts[:1])
    assert not part["expectations"]["judged"]


def test_the_state_of_a_result_for_a_failure_kind() -> None:
    assert entry_states.state_of_result(row("p/a@d", "xfail", "value"), "value") == "fails"
    assert entry_states.state_of_result(row("p/a@d", "fail", "message"), "value") == "other"
    assert entry_states.state_of_result(row("p/a@d", "flaky", "value"), "value") == "unclear"
    assert entry_states.state_of_result(row("p/a@d", "crash", "crash"), "value") == "unclear"
    assert entry_states.state_of_result(row("p/a@d", "xpass"), "value") == "passes"
    assert datetime.date.fromisoformat("2030-01-01") == DAY
    assert leg()["expectations"]["entries"] == []


def test_an_entry_for_some_processors_is_not_stale_if_its_result_passes() -> None:
    entry = dataclasses.replace(expectation("p/s@d", "value"), processor="with AVX-512")
    record = entry_states._entry_record(entry, [row("p/s@d", "pass")], False)
    assert (record["passes"], record["unclear"]) == (0, 1)
    assert entry_states.entry_problems([record], "eager") == []
    state_record = entry_states._entry_record(expectation("p/s@d", "value"), [row("p/s@d", "pass")], False)
    assert "is stale" in entry_states.entry_problems([state_record], "eager")[0]
