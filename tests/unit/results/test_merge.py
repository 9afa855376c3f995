"""``results.merge`` merges legs of several modes, builds and shards, and rejects legs that do not belong
together.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.errors import UsageError
from conformance.report import output_files
from conformance.results import document as results
from conformance.results.merge import merge_legs, missing_shards
from tests.support.sample_legs import leg


def test_legs_of_different_modes_and_builds_stay_separate() -> None:
    legs = [leg("eager"), leg("lazy", "pass", "fail", build="2.13.0+git1", digests={"manifest": "other"})]
    merged = merge_legs([("a", legs[0]), ("b", legs[1])])
    assert merged == legs
    document = results.results_document(merged)
    assert (document["exit"], document["complete"], document["totals"]) == (1, True, {"fail": 1, "pass": 2})


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            leg("eager"),
            leg("lazy", digests={"suite": "b" * 64}),
            r"2\.13\.0\+cpu-eager of a and 2\.13\.0\+cpu-lazy of b cannot be merged, "
            r"their digests of suite differ \(.* and bbbbbbbbbbbb\); use one version",
        ),
        (leg("eager"), leg("lazy", digests={"expectations": "other"}), "digests of expectations differ"),
        (leg("eager"), leg("lazy", digests={"target": "other"}), "digests of target differ"),
        (
            leg("eager", shard="1/2"),
            leg("eager", shard="2/2", digests={"manifest": "other"}),
            r"the two parts of leg 2\.13\.0\+cpu-eager, a and b, cannot be merged, their digests of manifest",
        ),
        (
            leg("eager", shard="1/2"),
            leg("eager", shard="2/2", digests={"backend": "other"}),
            "of backend differ",
        ),
        (leg("eager", shard="1/2"), leg("eager", shard="2/2", level="core"), "their level differs"),
        (
            leg("eager"),
            leg("eager", level="core", selection="add", digests={"manifest": "other"}),
            r"their level differs \(full and core\) and their selection differs \(the whole level and add\); "
            "leave one out",
        ),
        (leg("eager"), leg("eager"), r"shard 1/1 of leg 2\.13\.0\+cpu-eager is in a and in b; leave one out"),
        (leg("eager", shard="1/2"), leg("eager", shard="1/3"), "are shards 1/2 and 1/3"),
    ],
)
def test_legs_that_do_not_belong_together_are_rejected(
    first: dict[str, Any], second: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        merge_legs([("a", first), ("b", second)])


def test_legs_of_different_builds_may_have_different_backends() -> None:
    other_backend = leg("eager", build="2.13.0+git1", digests={"backend": "other", "torch": "other"})
    assert len(merge_legs([("a", leg("eager")), ("b", other_backend)])) == 2


def test_shards_become_one_leg_which_is_incomplete_without_all_shards() -> None:
    parts = [leg("eager", "pass", "fail", shard="1/3"), leg("eager", "pass", shard="3/3")]
    (merged,) = merge_legs([(str(index), part) for index, part in enumerate(parts)])
    assert (merged["shard"], merged["exit"], merged["complete"], merged["planned"]) == ("1,3/3", 3, False, 3)
    assert merged["totals"] == {"fail": 1, "pass": 2}
    assert merged["problems"][-1] == "shard 2/3 is missing; merge what is missing too"
    (whole,) = merge_legs([("a", merged), ("b", leg("eager", "pass", shard="2/3"))])
    assert (whole["shard"], whole["planned"], whole["exit"], whole["complete"]) == ("1/1", 4, 1, True)
    assert whole["problems"] == []


def test_an_empty_shard_is_not_missing_but_all_shards_must_not_be_empty() -> None:
    nothing = {"results": [], "cases": {}, "totals": {}, "case_totals": {}, "planned": 0}
    empty = [leg("eager", shard=f"{number}/2", **nothing) for number in (1, 2)]
    (merged,) = merge_legs([("a", leg("eager", shard="1/2")), ("b", empty[1])])
    assert (merged["exit"], merged["complete"], merged["planned"]) == (0, True, 1)
    (merged,) = merge_legs([("a", empty[0]), ("b", empty[1])])
    assert (merged["exit"], merged["complete"], merged["problems"]) == (3, False, ["no shard has a result"])


def test_a_single_shard_is_incomplete() -> None:
    (merged,) = merge_legs([("a", leg("eager", "pass", shard="2/4"))])
    assert (merged["shard"], merged["exit"], merged["complete"]) == ("2/4", 3, False)
    assert missing_shards(merged) == "shards 1/4, 3/4 and 4/4 are missing"
    assert merge_legs([("a", merged)]) == [merged]
    assert missing_shards(leg("eager", shard="2/4")) is None, (
        "missing_shards must ignore a leg that was not merged"
    )
    (alone,) = merge_legs([("a", leg("eager"))])
    assert alone["complete"]


def test_an_incomplete_shard_makes_the_merged_leg_incomplete() -> None:
    parts = [leg("eager", shard="1/3", complete=False, exit=3), leg("eager", shard="3/3")]
    (merged,) = merge_legs([(str(index), part) for index, part in enumerate(parts)])
    assert merged["problems"][0] == "shard 1/3 is incomplete"
    (whole,) = merge_legs([("a", merged), ("b", leg("eager", shard="2/3"))])
    assert (whole["shard"], whole["complete"], whole["exit"]) == ("1/1", False, 3)
    assert whole["problems"] == ["shard 1/3 is incomplete"]


def test_a_leg_that_did_not_run_determines_the_exit_code(tmp_path: Path) -> None:
    refused = leg("lazy", exit=2, planned=0, complete=False, results=[], cases={}, totals={}, case_totals={})
    refused["digests"] = dict.fromkeys(refused["digests"])
    document = output_files.write_reports(tmp_path, merge_legs([("a", leg("eager", "fail")), ("b", refused)]))
    assert (document["exit"], document["complete"]) == (2, False)
    assert results.read_results(tmp_path / "results.json") == document
