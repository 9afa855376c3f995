"""Compute the expected results of each rank after a collective.

Each function takes the input tensors of every rank, the position of the root and the name of the reduction.
It returns the list of result tensors of every rank: CPU tensors in the dtype of the inputs. A rank without
results has an empty list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from conformance.distributed.collective_call import Tensors
from conformance.distributed.collective_input_shapes import uneven_row_counts_per_rank


def elementwise_reduction(parts: Sequence[torch.Tensor], reduction: str) -> torch.Tensor:
    """Return the elementwise reduction of tensors of the same shape and dtype.

    An average is computed in float64, any other reduction in the dtype of the tensors.
    """
    stacked = torch.stack(list(parts))
    if reduction == "avg":
        return stacked.double().mean(0).to(stacked.dtype)
    result = stacked[0].clone()
    for part in stacked[1:]:
        result = _PAIRS[reduction](result, part)
    return result


_PAIRS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "sum": torch.add,
    "product": torch.mul,
    "min": torch.minimum,
    "max": torch.maximum,
    "band": torch.bitwise_and,
    "bor": torch.bitwise_or,
    "bxor": torch.bitwise_xor,
}


def all_reduce_results(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return each input tensor, reduced over the ranks, on every rank."""
    results = [
        elementwise_reduction([tensors[tensor_index] for tensors in inputs], reduction)
        for tensor_index in range(len(inputs[0]))
    ]
    return [results] * len(inputs)


def reduce_results(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return the reduced tensor on the root, and no result on the other ranks."""
    result = elementwise_reduction([tensors[0] for tensors in inputs], reduction)
    return [[result] if group_rank == root else [] for group_rank in range(len(inputs))]


def broadcast_results(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return the root's input tensor on every rank."""
    return [[inputs[root][0]]] * len(inputs)


def all_gather_results(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return the list of all ranks' input tensors on every rank."""
    return [[tensors[0] for tensors in inputs]] * len(inputs)


def gather_results(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return the list of all ranks' input tensors on the root, and no result on the other ranks."""
    return [
        [tensors[0] for tensors in inputs] if group_rank == root else [] for group_rank in range(len(inputs))
    ]


def concatenated_gather_results(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return all ranks' input tensors, concatenated along the first dimension, on every rank."""
    return [[torch.cat([tensors[0] for tensors in inputs])]] * len(inputs)


def stacked_gather_results(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return all ranks' input tensors, stacked along a new first dimension, on every rank."""
    return [[torch.stack([tensors[0] for tensors in inputs])]] * len(inputs)


def stacked_reduce_scatter_results(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return on rank ``i`` the slice ``[i]`` of the reduced tensor."""
    return [
        [layer] for layer in elementwise_reduction([tensors[0] for tensors in inputs], reduction).unbind(0)
    ]


def reduce_scatter_results(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return on rank ``i`` the reduction of the ``i``-th input tensors of all ranks."""
    return [
        [elementwise_reduction([tensors[group_rank] for tensors in inputs], reduction)]
        for group_rank in range(len(inputs))
    ]


def reduce_scatter_row_results(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return on rank ``i`` the ``i``-th of equal groups of rows of the reduced tensor."""
    whole = elementwise_reduction([tensors[0] for tensors in inputs], reduction)
    rows = whole.shape[0] // len(inputs)
    return [[whole[group_rank * rows : (group_rank + 1) * rows]] for group_rank in range(len(inputs))]


def all_to_all_results(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return on rank ``i`` the list of the ``i``-th input tensors of all ranks."""
    return [[tensors[group_rank] for tensors in inputs] for group_rank in range(len(inputs))]


def all_to_all_single_results(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return on rank ``i`` the concatenated ``i``-th groups of rows of all ranks. All groups have equal
    sizes.
    """
    size = len(inputs)
    rows = inputs[0][0].shape[0] // size
    return [
        [torch.cat([tensors[0][group_rank * rows : (group_rank + 1) * rows] for tensors in inputs])]
        for group_rank in range(size)
    ]


def uneven_all_to_all_results(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return on rank ``i`` the concatenated ``i``-th groups of rows of all ranks.
    ``uneven_row_counts_per_rank`` returns the sizes of the groups.
    """
    size = len(inputs)
    return [
        [
            torch.cat(
                [
                    torch.split(tensors[0], uneven_row_counts_per_rank(sender, size))[group_rank]
                    for sender, tensors in enumerate(inputs)
                ]
            )
        ]
        for group_rank in range(size)
    ]


def scatter_results(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return on rank ``i`` the ``i``-th input tensor of the root."""
    return [[inputs[root][group_rank]] for group_rank in range(len(inputs))]


def ring_neighbour_results(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return on each rank the input tensor of the left neighbour in a ring."""
    return [[inputs[(group_rank - 1) % len(inputs)][0]] for group_rank in range(len(inputs))]


def pair_exchange_results(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return on each rank the partner's input tensor. A rank without a partner gets its own input tensor."""
    return [
        [inputs[group_rank ^ 1 if group_rank ^ 1 < len(inputs) else group_rank][0]]
        for group_rank in range(len(inputs))
    ]
