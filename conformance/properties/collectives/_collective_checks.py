"""Helper functions for the checks of collectives: run a collective on all ranks, and compare the results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from conformance.distributed import worker_ranks
from conformance.distributed.collective_call import CollectiveCall, Shape, Tensors
from conformance.distributed.collectives import LARGEST, Collective, find_collective, input_tensor_of_rank
from conformance.distributed.rank_programs import Rank, program
from conformance.framework.compare import compare_values
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import EXACT, Tolerance, unit_of
from conformance.model.verdicts import Kind
from conformance.model.vocabulary import ANY_DTYPE
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: The base shapes to check: odd sizes, one element, no elements, more elements than a small message has, and
#: no dimensions.
SHAPES: tuple[Shape, ...] = ((7,), (1,), (3, 5), (0,), (5, 0, 2), (129, 33), ())


def any_dtype_for_default_reduction(target: Target, subject: Subject) -> Sequence[str]:
    """Return the dtype word ``any``, for properties that check a collective in only one dtype, float32.

    For collectives with a reduction other than ``sum``, return an empty list.
    """
    return [ANY_DTYPE] if subject.info.reduction in ("", "sum") else []


def accepted_shapes(collective: Collective) -> list[Shape]:
    """Return the shapes of :data:`SHAPES` that a collective accepts."""
    return [shape for shape in SHAPES if collective.scalars or shape]


def inputs_of_rank(
    collective: Collective, rank: int, size: int, shape: Shape, dtype: torch.dtype, seed_offset: int = 0
) -> Tensors:
    """Return the input tensors of a rank on the CPU. Different values of ``seed_offset`` give different
    inputs.
    """
    return [
        input_tensor_of_rank(rank + seed_offset, tensor_shape, dtype, tensor_index, collective.reduction)
        for tensor_index, tensor_shape in enumerate(collective.input_shapes(rank, size, shape))
    ]


def copies_on_cpu(tensors: Sequence[torch.Tensor]) -> Tensors:
    """Return copies of the tensors on the CPU."""
    return [tensor.detach().cpu().clone() for tensor in tensors]


@program
def run_collective_for_shapes(
    rank: Rank, name: str, shapes: Sequence[Shape], dtype: str, root: int
) -> list[Any]:
    """Run a collective with each shape. Return its results, and its inputs after the call, as CPU tensors."""
    import torch.distributed as dist

    collective = find_collective(name)
    results = []
    for shape in shapes:
        tensors = [
            t.to(rank.device)
            for t in inputs_of_rank(collective, rank.rank, rank.size, shape, getattr(torch, dtype))
        ]
        call = CollectiveCall(range(rank.size), rank.rank, root, collective.reduction)
        outputs = collective.issue(dist, call, tensors).wait()
        results.append((copies_on_cpu(outputs), copies_on_cpu(tensors)))
    return results


def compare_tensors(
    recorder: Recorder,
    collective: Collective,
    actual: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    label: str,
) -> bool:
    """Compare the results of one rank with the expected tensors, and return whether they agree.

    Averages are compared with a tolerance, all other results exactly.
    """
    recorder.compared(1)
    if len(actual) != len(expected):
        recorder.fail(Kind.METADATA, f"{label}: {len(actual)} tensors, expected {len(expected)}.")
        return False
    equal = True
    for tensor_index, (actual_tensor, expected_tensor) in enumerate(zip(actual, expected, strict=True)):
        tensor_label = label if len(expected) == 1 else f"{label}, tensor {tensor_index}"
        if actual_tensor.dtype != expected_tensor.dtype:
            recorder.fail(
                Kind.DTYPE,
                f"{tensor_label}: the dtype is {actual_tensor.dtype}, expected {expected_tensor.dtype}.",
            )
            equal = False
            continue
        unit = 2 * unit_of(expected_tensor.dtype) if collective.reduction == "avg" else 0.0
        # A device may divide before it adds. The rounding errors are then relative to the largest input.
        tolerance = Tolerance(unit, unit * LARGEST) if unit else EXACT
        if expected_tensor.is_floating_point() and expected_tensor.itemsize == 1:
            actual_tensor, expected_tensor = actual_tensor.float(), expected_tensor.float()
        equal &= compare_values(
            recorder, actual_tensor, expected_tensor, tolerance=tolerance, label=tensor_label
        )
    return equal


def compare_results_of_ranks(
    recorder: Recorder,
    collective: Collective,
    actual: Sequence[Sequence[torch.Tensor]],
    inputs: list[Tensors],
    root: int,
    label: str,
) -> bool:
    """Compare the results of all ranks of a group with the expected results for ``inputs``. Return whether
    they agree.
    """
    expected_of_ranks = collective.expected_results(inputs, root, collective.reduction)
    return all(
        compare_tensors(recorder, collective, results, expected, f"{label}, on rank {rank} of {len(inputs)}")
        for rank, (results, expected) in enumerate(zip(actual, expected_of_ranks, strict=True))
    )


def check_group_still_works(target: Target, recorder: Recorder, after: str) -> bool:
    """Check that the default group still computes a correct all_reduce. Return whether it does.

    ``after`` describes the refused call in messages.
    """
    collective = find_collective("all_reduce")
    replies = worker_ranks.values_of_ranks(
        target,
        recorder,
        run_collective_for_shapes,
        label=f"all_reduce after {after}",
        name=collective.name,
        shapes=[(7,)],
        dtype="float32",
        root=0,
    )
    if replies is None:
        return False
    inputs = [
        inputs_of_rank(collective, rank, len(replies), (7,), torch.float32) for rank in range(len(replies))
    ]
    actual = [reply[0][0] for reply in replies]
    return compare_results_of_ranks(recorder, collective, actual, inputs, 0, f"all_reduce after {after}")
