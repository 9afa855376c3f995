"""Tensors that are not one dense piece of memory."""

from __future__ import annotations

from typing import Any

import torch

from conformance.distributed import worker_ranks
from conformance.distributed.collective_call import CollectiveCall
from conformance.distributed.collectives import Collective, find
from conformance.distributed.rank_programs import Rank, program
from conformance.distributed.strided_buffers import DENSE, LAYOUTS, room, written_beside
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.collectives._collective_checks import (
    any_dtype,
    compare_ranks,
    given_by,
    host,
    still_works,
)
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_SHAPE = (6, 10)


def laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """Return the same values in memory of another layout."""
    return room(tensor, tuple(tensor.shape), layout).copy_(tensor)


@program
def strided(rank: Rank, name: str, given_layout: str, result_layout: str) -> Any:
    """Return the results with inputs, and room for results, of these layouts, and the number of elements
    written beside.

    If the call is refused, return the words of the refusal instead.
    """
    import torch.distributed as dist

    collective = find(name)
    call = CollectiveCall(
        range(rank.size), rank.rank, rank.size - 1, collective.reduction, layout=result_layout
    )
    given = [t.to(rank.device) for t in given_by(collective, rank.rank, rank.size, _SHAPE, torch.float32)]
    tensors = [laid_out(t, given_layout) for t in given]
    try:
        results = host(collective.issue(dist, call, tensors).wait())
        rank.synchronize()
    except (RuntimeError, ValueError, TypeError) as error:
        if {given_layout, result_layout} <= {DENSE, "offset"}:
            raise
        return "refused", f"{type(error).__name__}: {error}"
    beside = sum(written_beside(tensor, given_layout) for tensor in tensors)
    beside += sum(written_beside(tensor, result_layout) for tensor in call.made)
    return "done", results, beside


def pairs_of(collective: Collective) -> list[tuple[str, str]]:
    """Return pairs of layouts, of inputs and of results: one of them is dense.

    If one rank could refuse a call that the others wait for, only those layouts that have to be taken.
    """
    given = ("offset",) if collective.pairwise else LAYOUTS
    results = ("offset",) if collective.pairwise or collective.at_root else LAYOUTS
    pairs = [(layout, DENSE) for layout in given]
    return pairs + ([(DENSE, layout) for layout in results] if collective.makes_room else [])


@register(
    "collective-layouts",
    subject_kind="collective",
    statement="Views at an offset are taken, to read from and for results; tensors that are not contiguous "
    "are refused on every rank, or taken and right; memory beside them is never written.",
    documentation="distributed.html",
    level="core",
    applies=any_dtype,
    modes=("distributed",),
    runs=False,
    capabilities=("distributed",),
)
def collective_layouts(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check a transposed matrix, every second element, and rows behind others."""
    collective: Collective = subject.info
    for layouts in pairs_of(collective):
        what = f"{collective.name} of {layouts[0]} tensors into {layouts[1]} ones"
        answers = worker_ranks.values(
            target,
            recorder,
            strided,
            what=what,
            name=collective.name,
            given_layout=layouts[0],
            result_layout=layouts[1],
        )
        if answers is None:
            return
        words = {answer[0] for answer in answers}
        same = fact(
            recorder, len(words) == 1, Kind.STATE, f"{what} was refused on some ranks and not on others."
        )
        if not same:
            continue
        size = len(answers)
        if words == {"refused"}:
            if not still_works(target, recorder, f"{what} was refused"):
                return
            continue
        given = [given_by(collective, me, size, _SHAPE, torch.float32) for me in range(size)]
        compare_ranks(recorder, collective, [answer[1] for answer in answers], given, size - 1, what)
        fact(
            recorder,
            all(answer[2] == 0 for answer in answers),
            Kind.ALIASING,
            f"{what} wrote to memory beside them.",
        )
