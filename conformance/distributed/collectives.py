"""The catalogue of collectives that the suite checks, with the function that issues each collective on a rank
and the function that computes the expected results on the CPU.

Each rank passes a list of input tensors to a collective and has a list of result tensors afterwards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.distributed import collective_input_shapes, collective_launch, collective_results
from conformance.distributed.collective_call import FLOATS, INTEGERS, OTHERS, REDUCTIONS, Shape, Tensors
from conformance.distributed.collective_launch import Issue

InputShapes = Callable[[int, int, Shape], list[Shape]]
ExpectedResults = Callable[[list[Tensors], int, str], list[Tensors]]


@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective. A collective that reduces has one instance for each reduce operator.

    ``input_shapes(group_rank, size, shape)`` returns the shapes of a rank's inputs. ``issue(dist, call,
    tensors)`` calls the collective. ``expected_results(inputs by rank, position of the root, name of the
    reduction)`` returns the results by rank.

    ``in_place``: the collective writes its results to the inputs; any other collective must not change its
    inputs. ``scalars``: the collective accepts tensors without dimensions. ``asynchronous``: the collective
    has the parameter ``async_op`` or returns work handles. ``pairwise``: some ranks send and others receive,
    so that a refusal on one rank makes the other ranks wait. ``at_root``: only the root allocates result
    tensors.
    """

    name: str
    input_shapes: InputShapes
    issue: Issue
    expected_results: ExpectedResults
    dtypes: tuple[str, ...]
    reduction: str = ""
    in_place: bool = False
    scalars: bool = True
    asynchronous: bool = True
    pairwise: bool = False
    at_root: bool = False

    @property
    def allocates_results(self) -> bool:
        """True if the caller allocates result tensors in addition to the inputs."""
        return not self.in_place and not self.name.startswith("functional.")


MOVED = (*FLOATS, *INTEGERS, *OTHERS)


def _collective_without_reduction(
    name: str, input_shapes: InputShapes, issue: Issue, expected_results: ExpectedResults, **more: Any
) -> Collective:
    return Collective(name, input_shapes, issue, expected_results, MOVED, **more)


def _collective_per_reduction(
    name: str,
    input_shapes: InputShapes,
    issue: Issue,
    expected_results: ExpectedResults,
    reductions: Sequence[str] = tuple(REDUCTIONS),
    **more: Any,
) -> list[Collective]:
    return [
        Collective(
            name if reduction == "sum" else f"{name}.{reduction}",
            input_shapes,
            issue,
            expected_results,
            REDUCTIONS[reduction][1],
            reduction=reduction,
            **more,
        )
        for reduction in reductions
    ]


_FEW = ("sum", "max", "avg")

COLLECTIVES: tuple[Collective, ...] = (
    *_collective_per_reduction(
        "all_reduce",
        collective_input_shapes.single_tensor_shapes,
        collective_launch.all_reduce,
        collective_results.all_reduce_results,
        in_place=True,
    ),
    *_collective_per_reduction(
        "all_reduce_coalesced",
        collective_input_shapes.two_tensor_shapes,
        collective_launch.all_reduce_coalesced,
        collective_results.all_reduce_results,
        ("sum",),
        in_place=True,
    ),
    *_collective_per_reduction(
        "reduce",
        collective_input_shapes.single_tensor_shapes,
        collective_launch.reduce,
        collective_results.reduce_results,
        in_place=True,
    ),
    _collective_without_reduction(
        "broadcast",
        collective_input_shapes.single_tensor_shapes,
        collective_launch.broadcast,
        collective_results.broadcast_results,
        in_place=True,
    ),
    _collective_without_reduction(
        "all_gather",
        collective_input_shapes.single_tensor_shapes,
        collective_launch.all_gather,
        collective_results.all_gather_results,
    ),
    _collective_without_reduction(
        "all_gather_into_tensor",
        collective_input_shapes.single_tensor_shapes,
        collective_launch.all_gather_into_tensor,
        collective_results.concatenated_gather_results,
        scalars=False,
    ),
    _collective_without_reduction(
        "all_gather_into_tensor.stacked",
        collective_input_shapes.single_tensor_shapes,
        collective_launch.all_gather_stacked,
        collective_results.stacked_gather_results,
    ),
    *_collective_per_reduction(
        "reduce_scatter",
        collective_input_shapes.shapes_per_rank,
        collective_launch.reduce_scatter,
        collective_results.reduce_scatter_results,
    ),
    *_collective_per_reduction(
        "reduce_scatter_tensor",
        collective_input_shapes.concatenated_rows_shapes,
        collective_launch.reduce_scatter_tensor,
        collective_results.reduce_scatter_row_results,
        scalars=False,
    ),
    *_collective_per_reduction(
        "reduce_scatter_tensor.stacked",
        collective_input_shapes.rank_dimension_shapes,
        collective_launch.reduce_scatter_stacked,
        collective_results.stacked_reduce_scatter_results,
        ("sum",),
    ),
    _collective_without_reduction(
        "all_to_all",
        collective_input_shapes.shapes_per_rank,
        collective_launch.all_to_all,
        collective_results.all_to_all_results,
    ),
    _collective_without_reduction(
        "all_to_all_single",
        collective_input_shapes.concatenated_rows_shapes,
        collective_launch.all_to_all_single,
        collective_results.all_to_all_single_results,
        scalars=False,
    ),
    _collective_without_reduction(
        "all_to_all_single.uneven",
        collective_input_shapes.uneven_rows_shapes,
        collective_launch.all_to_all_uneven,
        collective_results.uneven_all_to_all_results,
    ),
    _collective_without_reduction(
        "gather",
        collective_input_shapes.single_tensor_shapes,
        collective_launch.gather,
        collective_results.gather_results,
        at_root=True,
    ),
    _collective_without_reduction(
        "scatter",
        collective_input_shapes.root_shapes_per_rank,
        collective_launch.scatter,
        collective_results.scatter_results,
        pairwise=True,
    ),
    _collective_without_reduction(
        "isend_irecv",
        collective_input_shapes.single_tensor_shapes,
        collective_launch.send_around_ring,
        collective_results.ring_neighbour_results,
        pairwise=True,
    ),
    _collective_without_reduction(
        "send_recv",
        collective_input_shapes.single_tensor_shapes,
        collective_launch.exchange_in_pairs,
        collective_results.pair_exchange_results,
        asynchronous=False,
        pairwise=True,
    ),
    _collective_without_reduction(
        "batch_isend_irecv",
        collective_input_shapes.single_tensor_shapes,
        collective_launch.send_around_ring_in_batch,
        collective_results.ring_neighbour_results,
        pairwise=True,
    ),
    *_collective_per_reduction(
        "functional.all_reduce",
        collective_input_shapes.single_tensor_shapes,
        collective_launch.functional_collective_issuer("all_reduce"),
        collective_results.all_reduce_results,
        _FEW,
        asynchronous=False,
    ),
    *_collective_per_reduction(
        "functional.all_reduce_coalesced",
        collective_input_shapes.two_tensor_shapes,
        collective_launch.functional_collective_issuer("all_reduce_coalesced"),
        collective_results.all_reduce_results,
        ("sum",),
        asynchronous=False,
    ),
    *_collective_per_reduction(
        "functional.reduce_scatter_tensor",
        collective_input_shapes.concatenated_rows_shapes,
        collective_launch.functional_collective_issuer("reduce_scatter_tensor"),
        collective_results.reduce_scatter_row_results,
        _FEW,
        scalars=False,
        asynchronous=False,
    ),
    _collective_without_reduction(
        "functional.all_gather_tensor",
        collective_input_shapes.single_tensor_shapes,
        collective_launch.functional_collective_issuer("all_gather_tensor"),
        collective_results.concatenated_gather_results,
        scalars=False,
        asynchronous=False,
    ),
    _collective_without_reduction(
        "functional.broadcast",
        collective_input_shapes.single_tensor_shapes,
        collective_launch.functional_collective_issuer("broadcast"),
        collective_results.broadcast_results,
        asynchronous=False,
    ),
    _collective_without_reduction(
        "functional.all_to_all_single",
        collective_input_shapes.concatenated_rows_shapes,
        collective_launch.functional_collective_issuer("all_to_all_single"),
        collective_results.all_to_all_single_results,
        scalars=False,
        asynchronous=False,
    ),
)


def find_collective(name: str) -> Collective:
    """Return the collective with this name; raise LookupError if it does not exist."""
    for collective in COLLECTIVES:
        if collective.name == name:
            return collective
    raise LookupError(f"no collective named {name!r}")


#: The largest absolute input value.
LARGEST = 6
#: Offset of each rank's input pattern. The offsets are irregular, so that sums over ranks differ between
#: elements.
_STARTS = (0, 1, 3, 7, 12, 5, 10, 8, 2, 11, 4, 9, 6)


def input_tensor_of_rank(
    rank: int, shape: Shape, dtype: torch.dtype, index: int = 0, reduction: str = ""
) -> torch.Tensor:
    """Return one input tensor of a rank: small integers in a pattern that depends on ``rank`` and ``index``.

    The values, and their sums over about ten ranks, are exact in every dtype. For products the values are 1
    and 2, so that products are exact too. In int8, products wrap in the same way on every device.
    """
    count = torch.Size(shape).numel()
    pattern = (torch.arange(count) * 3 + _STARTS[rank % len(_STARTS)] + index * 2) % 13
    if dtype == torch.bool:
        values = pattern % 2 == 0
    elif reduction == "product":
        values = (pattern % 2 + 1).to(dtype)
    elif not dtype.is_signed:
        values = pattern.to(dtype)
    elif dtype.is_complex:
        values = torch.complex(pattern.double() - LARGEST, (pattern.double() * 2 + rank) % 5).to(dtype)
    else:
        values = (pattern.to(torch.float32) - LARGEST).to(dtype)
    return values.reshape(shape)
