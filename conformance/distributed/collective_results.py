"""The expected results of each rank after a collective.

Each function takes the inputs by rank, the position of the root and the name of the reduction. It returns the
results by rank: CPU tensors in the dtype of the inputs. A rank without results has an empty list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from conformance.distributed.collective_call import Tensors
from conformance.distributed.collective_inputs import rows_sent_to


def reduced(parts: Sequence[torch.Tensor], reduction: str) -> torch.Tensor:
    """Return the reduction of tensors of one shape and dtype, computed in that dtype; an average uses
    float64.
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


def all_reduced(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return the reduction of each input, on every rank."""
    results = [reduced([tensors[place] for tensors in inputs], reduction) for place in range(len(inputs[0]))]
    return [results] * len(inputs)


def reduced_at_root(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return the reduction, on the root only."""
    result = reduced([tensors[0] for tensors in inputs], reduction)
    return [[result] if me == root else [] for me in range(len(inputs))]


def of_root(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return the tensor of the root, on every rank."""
    return [[inputs[root][0]]] * len(inputs)


def gathered(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return the tensors of all ranks, on every rank."""
    return [[tensors[0] for tensors in inputs]] * len(inputs)


def gathered_at_root(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return the tensors of all ranks, on the root only."""
    return [[tensors[0] for tensors in inputs] if me == root else [] for me in range(len(inputs))]


def concatenated(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return the tensors of all ranks concatenated along the first dimension, on every rank."""
    return [[torch.cat([tensors[0] for tensors in inputs])]] * len(inputs)


def stacked(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return the tensors of all ranks stacked along a new first dimension, on every rank."""
    return [[torch.stack([tensors[0] for tensors in inputs])]] * len(inputs)


def layers_of_sum(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return the reduction, split along its first dimension, one layer for each rank."""
    return [[layer] for layer in reduced([tensors[0] for tensors in inputs], reduction).unbind(0)]


def scattered_sums(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return for each rank the reduction of the tensors that all ranks have for it."""
    return [[reduced([tensors[me] for tensors in inputs], reduction)] for me in range(len(inputs))]


def pieces_of_sum(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return the reduction, split into equal groups of rows, one group for each rank."""
    whole = reduced([tensors[0] for tensors in inputs], reduction)
    rows = whole.shape[0] // len(inputs)
    return [[whole[me * rows : (me + 1) * rows]] for me in range(len(inputs))]


def exchanged(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return for each rank the tensors that all ranks have for it."""
    return [[tensors[me] for tensors in inputs] for me in range(len(inputs))]


def exchanged_pieces(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return for each rank the concatenated rows that all ranks have for it; equal groups of rows."""
    size = len(inputs)
    rows = inputs[0][0].shape[0] // size
    return [
        [torch.cat([tensors[0][me * rows : (me + 1) * rows] for tensors in inputs])] for me in range(size)
    ]


def exchanged_unevenly(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return for each rank the concatenated rows that all ranks have for it, as ``rows_sent_to`` lists
    them.
    """
    size = len(inputs)
    return [
        [
            torch.cat(
                [
                    torch.split(tensors[0], rows_sent_to(sender, size))[me]
                    for sender, tensors in enumerate(inputs)
                ]
            )
        ]
        for me in range(size)
    ]


def scattered(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return for each rank the tensor that the root has for it."""
    return [[inputs[root][me]] for me in range(len(inputs))]


def from_left(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return for each rank the tensor of its left neighbour in a ring."""
    return [[inputs[(me - 1) % len(inputs)][0]] for me in range(len(inputs))]


def from_partner(inputs: list[Tensors], root: int, reduction: str) -> list[Tensors]:
    """Return for each rank the tensor of its partner in a pair; its own if it has no partner."""
    return [[inputs[me ^ 1 if me ^ 1 < len(inputs) else me][0]] for me in range(len(inputs))]
