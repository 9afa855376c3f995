"""Check collectives of tensors that are not contiguous in memory."""

from __future__ import annotations

from typing import Any

import torch

from conformance.distributed import worker_ranks
from conformance.distributed.collective_call import CollectiveCall
from conformance.distributed.collectives import Collective, find_collective
from conformance.distributed.rank_programs import Rank, program
from conformance.distributed.strided_buffers import DENSE, LAYOUTS, result_buffer, written_gap_elements
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.collectives._collective_checks import (
    any_dtype_for_default_reduction,
    check_group_still_works,
    compare_results_of_ranks,
    copies_on_cpu,
    inputs_of_rank,
)
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_SHAPE = (6, 10)


def copy_in_layout(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """Return a copy of a tensor in a memory layout of ``conformance.distributed.strided_buffers``."""
    return result_buffer(tensor, tuple(tensor.shape), layout).copy_(tensor)


@program
def run_collective_in_layouts(rank: Rank, name: str, input_layout: str, result_layout: str) -> Any:
    """Run a collective with inputs in ``input_layout`` and result buffers in ``result_layout``.

    Returns:
        ``("done", results, n)`` if the call returned; ``n`` is the number of written elements outside the
        tensors. ``("refused", message)`` if the call raised an error.
    """
    import torch.distributed as dist

    collective = find_collective(name)
    call = CollectiveCall(
        range(rank.size), rank.rank, rank.size - 1, collective.reduction, layout=result_layout
    )
    inputs = [
        t.to(rank.device) for t in inputs_of_rank(collective, rank.rank, rank.size, _SHAPE, torch.float32)
    ]
    tensors = [copy_in_layout(t, input_layout) for t in inputs]
    try:
        results = copies_on_cpu(collective.issue(dist, call, tensors).wait())
        rank.synchronize()
    except (RuntimeError, ValueError, TypeError) as error:
        if {input_layout, result_layout} <= {DENSE, "offset"}:
            raise
        return "refused", f"{type(error).__name__}: {error}"
    elements_written_outside = sum(written_gap_elements(tensor, input_layout) for tensor in tensors)
    elements_written_outside += sum(
        written_gap_elements(tensor, result_layout) for tensor in call.result_buffers
    )
    return "done", results, elements_written_outside


def layout_pairs_to_check(collective: Collective) -> list[tuple[str, str]]:
    """Return the pairs of an input layout and a result layout to check. One layout of each pair is dense.

    If ranks of the collective have different roles, one rank could refuse the call while other ranks wait for
    it. The pairs then contain only layouts that every backend must accept.
    """
    input_layouts = ("offset",) if collective.pairwise else LAYOUTS
    result_layouts = ("offset",) if collective.pairwise or collective.at_root else LAYOUTS
    pairs = [(layout, DENSE) for layout in input_layouts]
    return pairs + ([(DENSE, layout) for layout in result_layouts] if collective.allocates_results else [])


@register(
    "collective-layouts",
    subject_kind="collective",
    statement=(
        "Views at an offset are accepted as inputs and for results. Tensors that are not contiguous are "
        "either refused on every rank or give correct results. Memory outside the tensors is never "
        "written."
    ),
    documentation="distributed.html",
    basis="consistency",
    ground="Dense and strided tensors must give the same result, or be refused on every rank",
    level="core",
    applies=any_dtype_for_default_reduction,
    modes=("distributed",),
    runs=False,
    capabilities=("distributed",),
)
def check_collective_layouts(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check views at an offset, transposed matrices, every second element, and rows in a larger matrix."""
    collective: Collective = subject.info
    for layouts in layout_pairs_to_check(collective):
        label = f"{collective.name} of {layouts[0]} tensors into {layouts[1]} tensors"
        replies = worker_ranks.values_of_ranks(
            target,
            recorder,
            run_collective_in_layouts,
            label=label,
            name=collective.name,
            input_layout=layouts[0],
            result_layout=layouts[1],
        )
        if replies is None:
            return
        reply_states = {reply[0] for reply in replies}
        same = fact(
            recorder,
            len(reply_states) == 1,
            Kind.STATE,
            f"{label} was refused on some ranks and not on others.",
        )
        if not same:
            continue
        size = len(replies)
        if reply_states == {"refused"}:
            if not check_group_still_works(target, recorder, f"{label} was refused"):
                return
            continue
        inputs = [inputs_of_rank(collective, rank, size, _SHAPE, torch.float32) for rank in range(size)]
        compare_results_of_ranks(
            recorder, collective, [reply[1] for reply in replies], inputs, size - 1, label
        )
        fact(
            recorder,
            all(reply[2] == 0 for reply in replies),
            Kind.ALIASING,
            f"{label} wrote to memory outside the tensors.",
        )
