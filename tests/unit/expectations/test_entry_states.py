"""Entries judged by a whole run."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import pytest
from expecttest import assert_expected_inline

from conformance.expectations import entry_states
from conformance.results.merge import merge
from tests.support.sample_legs import DAY, expected, judged, leg, row


def test_a_whole_run_finds_entries_that_have_rotted() -> None:
    entries = [
        expected("p/good@d", "value"), expected("p/*@d", "value"), expected("p/bad@d", "value", "2029-01-01"),
        expected("p/other@d", "message"), expected("p/bad*@d", "value"),
        dataclasses.replace(expected("q/*@d", "value"), modes=("eager",)), expected("q/*@d", "value"),
    ]  # fmt: skip
    found = judged(entries, {"good": "pass", "bad": "fail", "other": "unsupported"})
    assert_expected_inline(
        "\n".join(found["problems"]),
        """\
expectation p/good@d (value) in file.toml is stale: its result does not fail in that way in mode eager; remove it, or name the modes that need it
expectation p/*@d (value) in file.toml is over-broad: 1 of the 3 results that it matches pass, such as p/good@d; 'conformance expect update' writes narrower ones
expectation p/bad@d (value) in file.toml expired on 2029-01-01 and 1 results still fail in that way; see https://example.org and set a later day, or fix them
expectation p/other@d (message) in file.toml is stale: its result does not fail in that way in mode eager; remove it, or name the modes that need it
expectation q/*@d (value) in file.toml is stale: it matches no result in mode eager; remove 'eager' from its modes""",  # noqa: E501
    )
    assert found["exit"] == 1


@pytest.mark.parametrize("entry", ["p/bad*@d", "p/*@d", "p/good@d"])
def test_what_is_wrong_with_entries_makes_a_whole_run_exit_with_1(entry: str) -> None:
    verdicts = {"good": "pass", "bad": "unsupported", "bad2": "pass"}
    entries = [expected(entry, "value")]
    assert judged(entries, verdicts)["exit"] == 1
    assert judged([], verdicts)["exit"] == 0
    assert judged([expected("p/bad@d", "value", "2029-01-01")], verdicts)["exit"] == 1


@pytest.mark.parametrize(
    "part", [{"level": "core"}, {"selection": "bad"}, {"shard": "1/2"}, {"samples": "3"}, {"missing": 1}]
)
def test_a_part_of_a_run_judges_nothing(part: dict[str, Any]) -> None:
    entries = [expected("p/*@d", "value"), expected("p/bad@d", "message")]
    found = judged(entries, {"good": "pass", "bad": "fail"}, **part)
    assert (found["expectations"]["judged"], found["problems"]) == (False, [])
    assert found["exit"] == (3 if "missing" in part else 0)
    assert [entry["fails"] for entry in found["expectations"]["entries"]] == [1, 0]


def test_a_pattern_is_obsolete_only_where_all_of_its_results_ran() -> None:
    entries = [expected("p/*@d", "value")]
    few = judged(entries, {"good": "pass"}, selection="good", reach={"p/*@d": 2})
    assert (few["results"][0]["verdict"], few["exit"]) == ("pass", 0)
    all_of_it = judged(entries, {"good": "pass"}, level="core", reach={"p/*@d": 1})
    assert (all_of_it["results"][0]["verdict"], all_of_it["exit"]) == ("xpass", 1)
    one = judged([expected("p/good@d", "value")], {"good": "pass"}, selection="good")
    assert one["results"][0]["verdict"] == "xpass"
    few_samples = judged([expected("p/good@d", "value")], {"good": "pass"}, samples="1")
    assert few_samples["results"][0]["verdict"] == "pass"


def test_merged_shards_are_judged_as_the_whole_that_they_are() -> None:
    entries = [expected("p/*@d", "value"), expected("p/gone*@d", "value")]
    parts = [
        ("a", judged(entries, {"good": "pass"}, shard="1/2")),
        ("b", judged(entries, {"bad": "fail"}, shard="2/2")),
    ]
    (whole,) = merge(parts)
    assert [problem.partition(" is ")[2][:10] for problem in whole["problems"]] == ["over-broad"]
    assert (whole["exit"], whole["expectations"]["judged"]) == (1, True)
    (part,) = merge(parts[:1])
    assert not part["expectations"]["judged"]


def test_states_of_results() -> None:
    assert entry_states.state_of_result(row("p/a@d", "xfail", "value"), "value") == "fails"
    assert entry_states.state_of_result(row("p/a@d", "fail", "message"), "value") == "other"
    assert entry_states.state_of_result(row("p/a@d", "flaky", "value"), "value") == "unclear"
    assert entry_states.state_of_result(row("p/a@d", "crash", "crash"), "value") == "unclear"
    assert entry_states.state_of_result(row("p/a@d", "xpass"), "value") == "passes"
    assert datetime.date.fromisoformat("2030-01-01") == DAY
    assert leg()["expectations"]["entries"] == []


def test_an_entry_about_some_processors_is_not_stale_where_its_result_passes() -> None:
    entry = dataclasses.replace(expected("p/s@d", "value"), processor="with AVX-512")
    record = entry_states._record(entry, [row("p/s@d", "pass")], False)
    assert (record["passes"], record["unclear"]) == (0, 1)
    assert entry_states.entry_problems([record], "eager") == []
    plain = entry_states._record(expected("p/s@d", "value"), [row("p/s@d", "pass")], False)
    assert "is stale" in entry_states.entry_problems([plain], "eager")[0]
