"""``plan.plan``: shards split a plan into disjoint parts, and plans are converted to JSON and back."""

from __future__ import annotations

import pytest

from conformance.errors import UsageError
from conformance.plan.plan import Case, Plan, Shard

PLAN = Plan(
    [Case("operator", name, f"op{index}", ("float32", "int64")) for index in range(50) for name in ("a", "b")]
)


def test_shards_split_a_plan_reproducibly() -> None:
    parts = [PLAN.shard(Shard(index, 3)) for index in (1, 2, 3)]
    ids = [result_id for part in parts for result_id in part.result_ids()]
    assert sorted(ids) == sorted(PLAN.result_ids())
    assert all(part.cases for part in parts)
    for part in parts:
        assert {case.subject for case in part.cases if case.property == "a"} == {
            case.subject for case in part.cases if case.property == "b"
        }
    # Subjects without a recorded time are assigned to shards by their names.
    assert [
        [Shard(i, 4).contains("operator", f"op{n}") for i in (1, 2, 3, 4)].index(True) for n in range(4)
    ] == [0, 2, 0, 2]


def test_the_shard_of_a_case_does_not_depend_on_other_cases() -> None:
    fewer = Plan(PLAN.cases[::2])
    whole = set(PLAN.shard(Shard(2, 3)).result_ids())
    assert set(fewer.shard(Shard(2, 3)).result_ids()) <= whole


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/", "a/b", "-1/2"])
def test_invalid_shards_are_usage_errors(text: str) -> None:
    with pytest.raises(UsageError, match="is not of the form I/N"):
        Shard.parse(text)


def test_plans_are_converted_to_json_and_back() -> None:
    assert Plan.from_json(PLAN.to_json()) == PLAN
    assert PLAN.digest() == Plan(PLAN.cases[::-1]).digest() != Plan(PLAN.cases[1:]).digest()
    part = PLAN.with_results(["a/op3@int64", "b/op7@float32", "b/op7@int64"])
    assert [case.dtypes for case in part.cases] == [("int64",), ("float32", "int64")]
