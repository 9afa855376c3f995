"""Collectives in groups of some ranks, and in a group of one."""

from __future__ import annotations

from typing import Any

import torch

from conformance.distributed import worker_ranks
from conformance.distributed.collective_call import CollectiveCall
from conformance.distributed.collectives import Collective, find
from conformance.distributed.rank_programs import Rank, program
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.collectives._collective_checks import any_dtype, compare_ranks, given_by, host
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_SHAPE = (9, 2)


def parts_of(size: int) -> list[list[int]]:
    """Return groups of a world: the last rank alone, all but the first, all of them once more."""
    return [[size - 1], list(range(1, size)), list(range(size))]


@program
def within(rank: Rank, name: str) -> list[Any]:
    """Return the results in each of the groups that this rank is in, None for the others."""
    import torch.distributed as dist

    collective = find(name)
    results: list[Any] = []
    for ranks in parts_of(rank.size):
        group = dist.new_group(ranks)
        if rank.rank not in ranks:
            results.append(None)
            continue
        me = ranks.index(rank.rank)
        call = CollectiveCall(ranks, me, len(ranks) - 1, collective.reduction, group=group)
        tensors = [t.to(rank.device) for t in given_by(collective, me, len(ranks), _SHAPE, torch.float32)]
        results.append(host(collective.issue(dist, call, tensors).wait()))
        rank.synchronize()
        dist.destroy_process_group(group)
    return results


@register(
    "collective-groups",
    subject_kind="collective",
    statement="In a group of some ranks only those take part, whatever their numbers in the world; a group "
    "of one has its own.",
    documentation="distributed.html",
    level="core",
    applies=any_dtype,
    modes=("distributed",),
    runs=False,
    capabilities=("distributed",),
)
def collective_groups(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Make the groups for the check, and destroy them afterwards."""
    collective: Collective = subject.info
    answers = worker_ranks.values(
        target, recorder, within, what=f"{collective.name} in a group", name=collective.name
    )
    if answers is None:
        return
    for place, ranks in enumerate(parts_of(len(answers))):
        size = len(ranks)
        given = [given_by(collective, me, size, _SHAPE, torch.float32) for me in range(size)]
        actual = [answers[rank][place] for rank in ranks]
        compare_ranks(
            recorder, collective, actual, given, size - 1, f"{collective.name} among the ranks {ranks}"
        )
