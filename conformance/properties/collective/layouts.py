"""Tensors that are not one dense piece of memory."""

from __future__ import annotations

from typing import Any

import torch

from conformance.compare import fact
from conformance.distributed import team
from conformance.distributed.calls import Call
from conformance.distributed.collectives import Collective, find
from conformance.distributed.programs import Rank, program
from conformance.model import Kind
from conformance.properties.collective._common import any_dtype, compare_ranks, given_by, host, still_works
from conformance.property import register
from conformance.recorder import Recorder
from conformance.subjects import Subject
from conformance.target import Target

_SHAPE = (6, 10)
LAYOUTS = ("transposed", "every-second", "offset")


def laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values in memory laid out otherwise."""
    if layout == "transposed":
        return tensor.t().contiguous().t() if tensor.dim() == 2 else tensor
    if layout == "every-second":
        wide = torch.full((*tensor.shape[:-1], 2 * tensor.shape[-1]), 55.0, device=tensor.device)
        view = wide[..., ::2]
    else:
        wide = torch.full((tensor.shape[0] + 3, *tensor.shape[1:]), 55.0, device=tensor.device)
        view = wide[3:]
    view.copy_(tensor)
    return view


@program
def strided(rank: Rank, name: str, layout: str) -> Any:
    """The results for given tensors of a layout, or the words with which it was refused; and whether memory
    beside a tensor was written.
    """
    import torch.distributed as dist

    one = find(name)
    call = Call(range(rank.size), rank.rank, rank.size - 1, one.reduction)
    given = [t.to(rank.device) for t in given_by(one, rank.rank, rank.size, _SHAPE, torch.float32)]
    tensors = [laid_out(t, layout) for t in given]
    try:
        results = host(one.issue(dist, call, tensors).wait())
        rank.synchronize()
    except (RuntimeError, ValueError, TypeError) as error:
        if layout == "offset":
            raise
        return "refused", f"{type(error).__name__}: {error}"
    beside = 0
    if layout != "transposed":
        for tensor in tensors:
            base = tensor._base
            assert base is not None
            rest = base[..., 1::2] if layout == "every-second" else base[:3]
            beside += int((rest.cpu() != 55.0).sum())
    return "done", results, beside


@register(
    "collective-layouts",
    subject_kind="collective",
    statement="A view at an offset is taken; tensors that are not contiguous are refused on every rank, or "
    "taken and right; memory beside them is never written.",
    level="core",
    applies=any_dtype,
    modes=("distributed",),
    runs=False,
    capabilities=("distributed",),
)
def collective_layouts(target: Target, subject: Subject, recorder: Recorder) -> None:
    """A transposed matrix, every second element, and rows behind others."""
    one: Collective = subject.info
    for layout in LAYOUTS if not one.pairwise else ("offset",):
        what = f"{one.name} of {layout} tensors"
        found = team.values(target, recorder, strided, what=what, name=one.name, layout=layout)
        if found is None:
            return
        words = {answer[0] for answer in found}
        same = fact(
            recorder, len(words) == 1, Kind.STATE, f"{what} was refused on some ranks and not on others."
        )
        if not same:
            continue
        size = len(found)
        if words == {"refused"}:
            if not still_works(target, recorder, f"{what} were refused"):
                return
            continue
        given = [given_by(one, me, size, _SHAPE, torch.float32) for me in range(size)]
        compare_ranks(recorder, one, [answer[1] for answer in found], given, size - 1, what)
        fact(
            recorder,
            all(answer[2] == 0 for answer in found),
            Kind.ALIASING,
            f"{what} wrote to memory beside them.",
        )
