"""Collectives as functions of all ranks' inputs: the call of each, and the arithmetically expected results.

A collective takes a list of tensors from each rank and leaves a list on each rank. A rank calls ``issue``
with its inputs on the device. ``expected_results`` computes the results of every rank on the CPU.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.distributed import collective_inputs, collective_launch, collective_results
from conformance.distributed.collective_call import FLOATS, INTEGERS, OTHERS, REDUCTIONS, Shape, Tensors
from conformance.distributed.collective_launch import Issue

InputShapes = Callable[[int, int, Shape], list[Shape]]
ExpectedResults = Callable[[list[Tensors], int, str], list[Tensors]]


@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective with one reduce operator, if it has one.

    ``input_shapes(me, size, shape)`` returns the shapes of a rank's inputs. ``issue(dist, call, tensors)``
    calls the collective. ``expected_results(inputs by rank, position of the root, name of the reduction)``
    returns the results by rank.

    ``in_place``: the inputs hold the results; otherwise they must stay unchanged. ``scalars``: tensors
    without dimensions are accepted. ``asynchronous``: it takes ``async_op`` or returns handles. ``pairwise``:
    some ranks send and others receive, so that a refusal on one rank makes the other ranks wait. ``at_root``:
    only the root allocates result tensors.
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
    def makes_room(self) -> bool:
        """True if the caller allocates result tensors in addition to the inputs."""
        return not self.in_place and not self.name.startswith("functional.")


MOVED = (*FLOATS, *INTEGERS, *OTHERS)


def _moving(
    name: str, input_shapes: InputShapes, issue: Issue, expected_results: ExpectedResults, **more: Any
) -> Collective:
    return Collective(name, input_shapes, issue, expected_results, MOVED, **more)


def _reducing(
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
    *_reducing(
        "all_reduce",
        collective_inputs.single,
        collective_launch.all_reduce,
        collective_results.all_reduced,
        in_place=True,
    ),
    *_reducing(
        "all_reduce_coalesced",
        collective_inputs.pair,
        collective_launch.all_reduce_coalesced,
        collective_results.all_reduced,
        ("sum",),
        in_place=True,
    ),
    *_reducing(
        "reduce",
        collective_inputs.single,
        collective_launch.reduce,
        collective_results.reduced_at_root,
        in_place=True,
    ),
    _moving(
        "broadcast",
        collective_inputs.single,
        collective_launch.broadcast,
        collective_results.of_root,
        in_place=True,
    ),
    _moving(
        "all_gather", collective_inputs.single, collective_launch.all_gather, collective_results.gathered
    ),
    _moving(
        "all_gather_into_tensor",
        collective_inputs.single,
        collective_launch.all_gather_into_tensor,
        collective_results.concatenated,
        scalars=False,
    ),
    _moving(
        "all_gather_into_tensor.stacked",
        collective_inputs.single,
        collective_launch.all_gather_stacked,
        collective_results.stacked,
    ),
    *_reducing(
        "reduce_scatter",
        collective_inputs.one_per_rank,
        collective_launch.reduce_scatter,
        collective_results.scattered_sums,
    ),
    *_reducing(
        "reduce_scatter_tensor",
        collective_inputs.shape_of_concatenated_rows,
        collective_launch.reduce_scatter_tensor,
        collective_results.pieces_of_sum,
        scalars=False,
    ),
    *_reducing(
        "reduce_scatter_tensor.stacked",
        collective_inputs.layers_of_all,
        collective_launch.reduce_scatter_stacked,
        collective_results.layers_of_sum,
        ("sum",),
    ),
    _moving(
        "all_to_all",
        collective_inputs.one_per_rank,
        collective_launch.all_to_all,
        collective_results.exchanged,
    ),
    _moving(
        "all_to_all_single",
        collective_inputs.shape_of_concatenated_rows,
        collective_launch.all_to_all_single,
        collective_results.exchanged_pieces,
        scalars=False,
    ),
    _moving(
        "all_to_all_single.uneven",
        collective_inputs.uneven,
        collective_launch.all_to_all_uneven,
        collective_results.exchanged_unevenly,
    ),
    _moving(
        "gather",
        collective_inputs.single,
        collective_launch.gather,
        collective_results.gathered_at_root,
        at_root=True,
    ),
    _moving(
        "scatter",
        collective_inputs.from_root,
        collective_launch.scatter,
        collective_results.scattered,
        pairwise=True,
    ),
    _moving(
        "isend_irecv",
        collective_inputs.single,
        collective_launch.ring,
        collective_results.from_left,
        pairwise=True,
    ),
    _moving(
        "send_recv",
        collective_inputs.single,
        collective_launch.pairs,
        collective_results.from_partner,
        asynchronous=False,
        pairwise=True,
    ),
    _moving(
        "batch_isend_irecv",
        collective_inputs.single,
        collective_launch.batch,
        collective_results.from_left,
        pairwise=True,
    ),
    *_reducing(
        "functional.all_reduce",
        collective_inputs.single,
        collective_launch.functional("all_reduce"),
        collective_results.all_reduced,
        _FEW,
        asynchronous=False,
    ),
    *_reducing(
        "functional.all_reduce_coalesced",
        collective_inputs.pair,
        collective_launch.functional("all_reduce_coalesced"),
        collective_results.all_reduced,
        ("sum",),
        asynchronous=False,
    ),
    *_reducing(
        "functional.reduce_scatter_tensor",
        collective_inputs.shape_of_concatenated_rows,
        collective_launch.functional("reduce_scatter_tensor"),
        collective_results.pieces_of_sum,
        _FEW,
        scalars=False,
        asynchronous=False,
    ),
    _moving(
        "functional.all_gather_tensor",
        collective_inputs.single,
        collective_launch.functional("all_gather_tensor"),
        collective_results.concatenated,
        scalars=False,
        asynchronous=False,
    ),
    _moving(
        "functional.broadcast",
        collective_inputs.single,
        collective_launch.functional("broadcast"),
        collective_results.of_root,
        asynchronous=False,
    ),
    _moving(
        "functional.all_to_all_single",
        collective_inputs.shape_of_concatenated_rows,
        collective_launch.functional("all_to_all_single"),
        collective_results.exchanged_pieces,
        scalars=False,
        asynchronous=False,
    ),
)


def find_collective(name: str) -> Collective:
    """Return the collective of that name; raise LookupError if it does not exist."""
    for collective in COLLECTIVES:
        if collective.name == name:
            return collective
    raise LookupError(f"no collective named {name!r}")


#: The largest absolute input value.
LARGEST = 6
#: Offset of each rank's pattern. The offsets are irregular, so that sums over ranks vary between elements.
_STARTS = (0, 1, 3, 7, 12, 5, 10, 8, 2, 11, 4, 9, 6)


def input_values(
    rank: int, shape: Shape, dtype: torch.dtype, index: int = 0, reduction: str = ""
) -> torch.Tensor:
    """Return an input of a rank: small integers in a pattern that depends on rank and index, exact in every
    dtype.

    Their sums over about ten ranks are exact too. So are products of ones and twos, which wrap alike
    everywhere in int8.
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
