"""Mutants of collectives act in all ranks of a rank pool, and have no effect after they are disabled. The
tests use two ranks on the CPU.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from conformance.distributed.rank_pool import RankPool
from conformance.distributed.rank_programs import Rank, program
from tools.mutation.injectors.collectives import CollectiveInjector
from tools.mutation.mutant import Mutant


@program
def collectives(rank: Rank) -> dict[str, Any]:
    """Run a few collectives on numbers that depend on the rank. Return the results by name, and the name of
    the error of an invalid call.
    """
    import torch.distributed as dist

    me = float(rank.rank)
    summed = torch.full((4,), me + 1)
    dist.all_reduce(summed)
    second_sum = torch.full((4,), me + 2)
    dist.all_reduce(second_sum)
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
    results = {
        "sum": summed,
        "again": second_sum,
        "gathered": torch.cat(parts),
        "sent": sent,
        "of first": of_first,
    }
    return {name: tensor.tolist() for name, tensor in results.items()} | {"error": error}


@pytest.fixture(scope="module")
def collectives_and_pool() -> Iterator[tuple[CollectiveInjector, RankPool]]:
    before = dict(os.environ)
    injector = CollectiveInjector()
    pool = RankPool("cpu", 2)
    yield injector, pool
    pool.close()
    # The ranks of later tests in this process must not load the injector.
    os.environ.clear()
    os.environ.update(before)


RIGHT = {"sum": [3.0] * 4, "again": [5.0] * 4, "gathered": [0.0, 0.0, 1.0, 1.0], "of first": [0.0, 0.0]}


def replies_of_ranks(pool: RankPool) -> list[dict[str, Any]]:
    replies = pool.run(collectives)
    assert all(answer.ok for answer in replies), replies
    return [answer.value for answer in replies]


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
def test_a_mutant_of_a_collective(
    collectives_and_pool: tuple[CollectiveInjector, RankPool], method: str, kind: str, wrong: dict[str, Any]
) -> None:
    injector, pool = collectives_and_pool
    injector.enable(Mutant(f"c10d::{method}", kind))
    first, _ = replies_of_ranks(pool)
    counts = injector.disable()
    assert counts.altered > 0
    assert {name: first[name] for name in wrong} == wrong
    first, second = replies_of_ranks(pool)
    for values in (first, second):
        assert {name: values[name] for name in RIGHT} == RIGHT
    assert injector.disable().triggered == 0


def test_a_mutant_on_one_rank(collectives_and_pool: tuple[CollectiveInjector, RankPool]) -> None:
    injector, pool = collectives_and_pool
    injector.enable(Mutant("c10d::allreduce", "collective-second-rank"))
    first, second = replies_of_ranks(pool)
    injector.disable()
    assert first["sum"] == [3.0] * 4
    assert second["sum"] == [3.0, 3.0, 3.0, 0.0]


def test_a_coverage_run_records_the_conditions_that_ranks_met(
    collectives_and_pool: tuple[CollectiveInjector, RankPool],
) -> None:
    injector, pool = collectives_and_pool
    injector.take_observed()
    injector.observe(True)
    replies_of_ranks(pool)
    injector.observe(False)
    observed = injector.take_observed()
    triggered = {
        f"{injector.mutants[number].point} {injector.mutants[number].operator}"
        for number, _ in observed.triggered
    }
    assert {"c10d::allreduce reduction-wrong", "c10d::broadcast root-off-by-one"} <= triggered
    assert "c10d::allreduce average-twice" not in triggered
    assert "c10d::gather collective-stale" not in triggered
    assert "c10d::gather" not in {
        injector.mutation_points[function_index] for function_index, _, _ in observed.calls
    }
    replies_of_ranks(pool)
    assert not injector.take_observed().triggered
