"""Check collectives in groups of some of the ranks, and in a group of one rank."""

from __future__ import annotations

from typing import Any

import torch

from conformance.distributed import worker_ranks
from conformance.distributed.collective_call import CollectiveCall
from conformance.distributed.collectives import Collective, find_collective
from conformance.distributed.rank_programs import Rank, program
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.collectives._collective_checks import (
    any_dtype_for_default_reduction,
    compare_results_of_ranks,
    copies_on_cpu,
    inputs_of_rank,
)
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_SHAPE = (9, 2)


def groups_of_ranks(size: int) -> list[list[int]]:
    """Return three lists of ranks: the last rank alone, all ranks except the first, and all ranks."""
    return [[size - 1], list(range(1, size)), list(range(size))]


@program
def results_in_rank_groups(rank: Rank, name: str) -> list[Any]:
    """Run a collective in each group of ranks. Return its results, or None for groups without this rank."""
    import torch.distributed as dist

    collective = find_collective(name)
    results: list[Any] = []
    for ranks in groups_of_ranks(rank.size):
        group = dist.new_group(ranks)
        if rank.rank not in ranks:
            results.append(None)
            continue
        group_rank = ranks.index(rank.rank)
        call = CollectiveCall(ranks, group_rank, len(ranks) - 1, collective.reduction, group=group)
        tensors = [
            t.to(rank.device)
            for t in inputs_of_rank(collective, group_rank, len(ranks), _SHAPE, torch.float32)
        ]
        results.append(copies_on_cpu(collective.issue(dist, call, tensors).wait()))
        rank.synchronize()
        dist.destroy_process_group(group)
    return results


@register(
    "collective-groups",
    subject_kind="collective",
    statement=(
        "In a group of some ranks only these ranks take part, whatever their global ranks are. In a group "
        "of one rank, the rank gets its own values."
    ),
    documentation="distributed.html",
    level="core",
    applies=any_dtype_for_default_reduction,
    modes=("distributed",),
    runs=False,
    capabilities=("distributed",),
)
def check_collective_groups(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Create each group, run the collective in it, and destroy the group."""
    collective: Collective = subject.info
    replies = worker_ranks.values_of_ranks(
        target, recorder, results_in_rank_groups, label=f"{collective.name} in a group", name=collective.name
    )
    if replies is None:
        return
    for group_index, ranks in enumerate(groups_of_ranks(len(replies))):
        size = len(ranks)
        inputs = [
            inputs_of_rank(collective, group_rank, size, _SHAPE, torch.float32) for group_rank in range(size)
        ]
        actual = [replies[rank][group_index] for rank in ranks]
        compare_results_of_ranks(
            recorder, collective, actual, inputs, size - 1, f"{collective.name} among the ranks {ranks}"
        )
