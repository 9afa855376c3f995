"""``plan.shards`` assigns subjects to shards by their recorded seconds. The shards are disjoint, complete and
reproducible, and take nearly the same time.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Mapping

import pytest

from conformance.plan import shards
from conformance.plan.plan import Case, Plan, Shard

TABLE = shards.recorded_seconds()


def test_the_committed_table_of_seconds_is_valid() -> None:
    assert {"eager", "compile", "graph"} <= set(TABLE)
    for mode, seconds in TABLE.items():
        assert all(value > 0 for value in seconds.values()), mode
        assert all(name.partition("/")[2] for name in seconds)
    assert shards.FILE.stat().st_size < 200_000


@pytest.mark.parametrize("count", [2, 3, 4, 8, 16, 100])
@pytest.mark.parametrize("mode", sorted(TABLE))
def test_shards_take_nearly_the_same_time(mode: str, count: int) -> None:
    seconds = TABLE[mode]
    assignment = shards.shard_assignment(mode, count)
    assert set(assignment) == set(seconds) and set(assignment.values()) == set(range(count))
    loads = [sum(seconds[name] for name in seconds if assignment[name] == shard) for shard in range(count)]
    largest = max(seconds.values())
    fair = sum(loads) / count
    # No assignment can be faster than an equal share, or than the longest single subject.
    assert max(loads) <= max(largest, fair * 1.05)


def test_shards_by_name_alone_would_take_longer() -> None:
    """The slowest of four shards is nearer to the mean if subjects are assigned by recorded seconds instead
    of by name.
    """
    seconds = TABLE["graph"]

    def slowest(shard_of: Mapping[str, int]) -> float:
        loads = [sum(seconds[name] for name in seconds if shard_of[name] == shard) for shard in range(4)]
        return max(loads) / (sum(loads) / 4)

    by_name = {name: zlib.crc32(name.encode()) % 4 for name in seconds}
    assert slowest(shards.shard_assignment("graph", 4)) < 1.05 < 1.1 < slowest(by_name)


def test_every_subject_is_in_one_shard_with_or_without_recorded_seconds() -> None:
    known_subjects = [tuple(name.split("/", 1)) for name in list(TABLE["eager"])[:200]]
    subjects = [*known_subjects, *(("operator", f"unheard-of-{i}") for i in range(100))]
    plan = Plan([Case(kind, name, subject, ("d",)) for kind, subject in subjects for name in ("a", "b")])
    for mode in ("eager", "compile", "distributed"):
        parts = [plan.shard(Shard(index, 3), mode) for index in (1, 2, 3)]
        ids = [result_id for part in parts for result_id in part.result_ids()]
        assert sorted(ids) == sorted(plan.result_ids())
        assert all(part.cases for part in parts)
    fewer = Plan(plan.cases[::3])
    assert set(fewer.shard(Shard(2, 3)).result_ids()) <= set(plan.shard(Shard(2, 3)).result_ids())


def test_the_assignment_depends_on_names_and_seconds_alone() -> None:
    seconds = {f"operator/op{i}": 2.0 ** (i % 7) for i in range(100)}
    shuffled = list(seconds.items())
    random.Random(0).shuffle(shuffled)
    assert shards.balanced_assignment(dict(shuffled), 5) == shards.balanced_assignment(seconds, 5)


def test_properties_of_a_split_area_are_assigned_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {"api/long/p": 9.0, "api/long/q": 8.0, "api/short": 7.0, "operator/op": 1.0}
    monkeypatch.setattr(
        shards, "shard_assignment", lambda mode, count: shards.balanced_assignment(entries, count)
    )
    names = ("p", "q", "unheard-of")
    plan = Plan(
        [Case("api", name, area, ("d",)) for area in ("long", "short") for name in names]
        + [Case("operator", name, "op", ("d",)) for name in names]
    )
    parts = [plan.shard(Shard(index, 4)).result_ids() for index in range(1, 5)]
    shard_of = {result_id: number for number, ids in enumerate(parts) for result_id in ids}
    assert len(shard_of) == len(plan)
    assert [shard_of[f"{name}/long@d"] for name in names] == [0, 1, zlib.crc32(b"api/long") % 4]
    assert {shard_of[f"{name}/short@d"] for name in names} == {2}
    assert {shard_of[f"{name}/op@d"] for name in names} == {3}
