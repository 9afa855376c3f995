"""Collectives in groups of some ranks, and in a group of one."""

from __future__ import annotations

from typing import Any

import torch

from conformance.checking.property import register
from conformance.checking.recorder import Recorder
from conformance.distributed import team
from conformance.distributed.calls import Call
from conformance.distributed.collectives import Collective, find
from conformance.distributed.programs import Rank, program
from conformance.properties.collective._common import any_dtype, compare_ranks, given_by, host
from conformance.subjects.databases import Subject
from conformance.target.target import Target

_SHAPE = (9, 2)


def parts_of(size: int) -> list[list[int]]:
    """Groups of a world: the last rank alone, all but the first, all of them once more."""
    return [[size - 1], list(range(1, size)), list(range(size))]


@program
def within(rank: Rank, name: str) -> list[Any]:
    """The results in each of the groups that this rank is in, None for the others."""
    import torch.distributed as dist

    one = find(name)
    found: list[Any] = []
    for ranks in parts_of(rank.size):
        group = dist.new_group(ranks)
        if rank.rank not in ranks:
            found.append(None)
            continue
        me = ranks.index(rank.rank)
        call = Call(ranks, me, len(ranks) - 1, one.reduction, group=group)
        tensors = [t.to(rank.device) for t in given_by(one, me, len(ranks), _SHAPE, torch.float32)]
        found.append(host(one.issue(dist, call, tensors).wait()))
        rank.synchronize()
        dist.destroy_process_group(group)
    return found


@register(
    "collective-groups",
    subject_kind="collective",
    statement="In a group of some ranks only those take part, whatever their numbers in the world; a group "
    "of one has its own.",
    level="core",
    applies=any_dtype,
    modes=("distributed",),
    runs=False,
    capabilities=("distributed",),
)
def collective_groups(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Groups that are made for it and destroyed afterwards."""
    one: Collective = subject.info
    found = team.values(target, recorder, within, what=f"{one.name} in a group", name=one.name)
    if found is None:
        return
    for place, ranks in enumerate(parts_of(len(found))):
        size = len(ranks)
        given = [given_by(one, me, size, _SHAPE, torch.float32) for me in range(size)]
        actual = [found[rank][place] for rank in ranks]
        compare_ranks(recorder, one, actual, given, size - 1, f"{one.name} among the ranks {ranks}")
