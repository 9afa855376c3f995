"""Faults of a process group in a world of two ranks on the CPU: armed in all ranks, gone afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from conformance.distributed.rank_pool import RankPool
from conformance.distributed.rank_programs import Rank, program
from tools.mutation.injectors.collectives import Collectives
from tools.mutation.mutant import Fault


@program
def collectives(rank: Rank) -> dict[str, Any]:
    """Call a few collectives, each with other numbers than before, and return what they gave."""
    import torch.distributed as dist

    me = float(rank.rank)
    summed = torch.full((4,), me + 1)
    dist.all_reduce(summed)
    again = torch.full((4,), me + 2)
    dist.all_reduce(again)
    sent = torch.full((2,), me)
    parts = [torch.empty(2) for _ in range(rank.size)]
    dist.all_gather(parts, sent)
    of_first = torch.full((2,), me)
    dist.broadcast(of_first, 0)
    try:
        dist.all_gather([torch.empty(3), torch.empty(3)], sent)
        error = "none"
    except Exception as caught:
        error = type(caught).__name__
    found = {"sum": summed, "again": again, "gathered": torch.cat(parts), "sent": sent, "of first": of_first}
    return {name: tensor.tolist() for name, tensor in found.items()} | {"error": error}


@pytest.fixture(scope="module")
def planted() -> Iterator[tuple[Collectives, RankPool]]:
    planter = Collectives()
    world = RankPool("cpu", 2)
    yield planter, world
    world.close()


RIGHT = {"sum": [3.0] * 4, "again": [5.0] * 4, "gathered": [0.0, 0.0, 1.0, 1.0], "of first": [0.0, 0.0]}


def answers(world: RankPool) -> list[dict[str, Any]]:
    found = world.run(collectives)
    assert all(answer.ok for answer in found), found
    return [answer.value for answer in found]


@pytest.mark.parametrize(
    ("method", "kind", "wrong"),
    [
        ("allreduce", "collective-last-element", {"sum": [3.0, 3.0, 3.0, 0.0]}),
        ("allreduce", "collective-chunk-dropped", {"sum": [3.0, 3.0, 1.0, 1.0]}),
        ("allreduce", "collective-stale", {"again": [3.0] * 4}),
        ("allreduce", "reduction-wrong", {"sum": [2.0] * 4}),
        ("allgather", "ranks-rotated", {"gathered": [1.0, 1.0, 0.0, 0.0]}),
        ("allgather", "collective-input-changed", {"sent": [0.0, 1.0]}),
        ("broadcast", "root-off-by-one", {"of first": [1.0, 1.0]}),
        ("allgather", "collective-error-type", {"error": "IndexError"}),
        ("allgather", "collective-error-missing", {"error": "none"}),
    ],
)
def test_a_fault_of_a_collective(
    planted: tuple[Collectives, RankPool], method: str, kind: str, wrong: dict[str, Any]
) -> None:
    planter, world = planted
    planter.arm(Fault(f"c10d::{method}", kind))
    first, _ = answers(world)
    counts = planter.disarm()
    assert counts.effects > 0
    assert {name: first[name] for name in wrong} == wrong
    first, second = answers(world)
    for found in (first, second):
        assert {name: found[name] for name in RIGHT} == RIGHT
    assert planter.disarm().met == 0


def test_a_fault_on_one_rank(planted: tuple[Collectives, RankPool]) -> None:
    planter, world = planted
    planter.arm(Fault("c10d::allreduce", "collective-second-rank"))
    first, second = answers(world)
    planter.disarm()
    assert first["sum"] == [3.0] * 4
    assert second["sum"] == [3.0, 3.0, 3.0, 0.0]


def test_learning_sees_what_the_ranks_met(planted: tuple[Collectives, RankPool]) -> None:
    planter, world = planted
    planter.take_observed()
    planter.observe(True)
    answers(world)
    planter.observe(False)
    observed = planter.take_observed()
    met = {f"{planter.faults[number].place} {planter.faults[number].kind}" for number, _ in observed.met}
    assert {"c10d::allreduce reduction-wrong", "c10d::broadcast root-off-by-one"} <= met
    assert "c10d::allreduce average-twice" not in met
    assert "c10d::gather collective-stale" not in met
    assert "c10d::gather" not in {planter.places[place] for place, _, _ in observed.calls}
    answers(world)
    assert not planter.take_observed().met
