"""Results that each rank must have after a collective.

Each function takes all inputs by rank, the position of the root and the word of the reduction, and returns
the results by rank: CPU tensors in the dtype of the inputs. A rank without results has an empty list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from conformance.distributed.collective_call import Tensors
from conformance.distributed.collective_inputs import parts


def reduced(parts: Sequence[torch.Tensor], word: str) -> torch.Tensor:
    """Return tensors of one shape and dtype reduced, in that dtype; an average by way of float64."""
    stacked = torch.stack(list(parts))
    if word == "avg":
        return stacked.double().mean(0).to(stacked.dtype)
    result = stacked[0].clone()
    for part in stacked[1:]:
        result = _PAIRS[word](result, part)
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


def all_reduced(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    """The reduction of each place, on every rank."""
    results = [reduced([tensors[place] for tensors in given], word) for place in range(len(given[0]))]
    return [results] * len(given)


def reduced_at_root(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    """The reduction, on the root alone."""
    result = reduced([tensors[0] for tensors in given], word)
    return [[result] if me == root else [] for me in range(len(given))]


def of_root(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    """The tensor of the root, on every rank."""
    return [[given[root][0]]] * len(given)


def gathered(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    """The tensors of all ranks, on every rank."""
    return [[tensors[0] for tensors in given]] * len(given)


def gathered_at_root(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    """The tensors of all ranks, on the root alone."""
    return [[tensors[0] for tensors in given] if me == root else [] for me in range(len(given))]


def concatenated(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    """The tensors of all ranks joined along the first dimension, on every rank."""
    return [[torch.cat([tensors[0] for tensors in given])]] * len(given)


def stacked(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    """The tensors of all ranks along a new first dimension, on every rank."""
    return [[torch.stack([tensors[0] for tensors in given])]] * len(given)


def layers_of_sum(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    """The reduction, split along its first dimension, one layer for each rank."""
    return [[layer] for layer in reduced([tensors[0] for tensors in given], word).unbind(0)]


def scattered_sums(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    """For each rank the reduction of the tensors that all ranks gave for it."""
    return [[reduced([tensors[me] for tensors in given], word)] for me in range(len(given))]


def pieces_of_sum(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    """The reduction, cut into equal groups of rows, one group for each rank."""
    whole = reduced([tensors[0] for tensors in given], word)
    rows = whole.shape[0] // len(given)
    return [[whole[me * rows : (me + 1) * rows]] for me in range(len(given))]


def exchanged(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    """For each rank the tensors that all ranks gave for it."""
    return [[tensors[me] for tensors in given] for me in range(len(given))]


def exchanged_pieces(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    """For each rank the rows that all ranks gave for it, joined; equal groups of rows."""
    size = len(given)
    rows = given[0][0].shape[0] // size
    return [[torch.cat([tensors[0][me * rows : (me + 1) * rows] for tensors in given])] for me in range(size)]


def exchanged_unevenly(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    """For each rank the rows that all ranks gave for it, joined; as many as :func:`.shapes.parts` says."""
    size = len(given)
    return [
        [
            torch.cat(
                [torch.split(tensors[0], parts(sender, size))[me] for sender, tensors in enumerate(given)]
            )
        ]
        for me in range(size)
    ]


def scattered(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    """For each rank the tensor that the root gave for it."""
    return [[given[root][me]] for me in range(len(given))]


def from_left(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    """For each rank the tensor of its left neighbour in a ring."""
    return [[given[(me - 1) % len(given)][0]] for me in range(len(given))]


def from_partner(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    """For each rank the tensor of its partner in a pair; its own if it has no partner."""
    return [[given[me ^ 1 if me ^ 1 < len(given) else me][0]] for me in range(len(given))]
