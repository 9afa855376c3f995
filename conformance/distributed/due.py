"""What each rank must have after a collective: of what all give, the root's place, the reduction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from conformance.distributed.calls import Tensors
from conformance.distributed.shapes import parts


def reduced(parts: Sequence[torch.Tensor], word: str) -> torch.Tensor:
    """Tensors of one shape and dtype reduced, in that dtype; an average by way of float64."""
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
    results = [reduced([one[place] for one in given], word) for place in range(len(given[0]))]
    return [results] * len(given)


def reduced_at_root(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    result = reduced([one[0] for one in given], word)
    return [[result] if me == root else [] for me in range(len(given))]


def of_root(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[given[root][0]]] * len(given)


def gathered(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[one[0] for one in given]] * len(given)


def gathered_at_root(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[one[0] for one in given] if me == root else [] for me in range(len(given))]


def concatenated(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[torch.cat([one[0] for one in given])]] * len(given)


def stacked(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[torch.stack([one[0] for one in given])]] * len(given)


def layers_of_sum(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[layer] for layer in reduced([one[0] for one in given], word).unbind(0)]


def scattered_sums(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[reduced([one[me] for one in given], word)] for me in range(len(given))]


def pieces_of_sum(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    whole = reduced([one[0] for one in given], word)
    rows = whole.shape[0] // len(given)
    return [[whole[me * rows : (me + 1) * rows]] for me in range(len(given))]


def exchanged(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[one[me] for one in given] for me in range(len(given))]


def exchanged_pieces(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    size = len(given)
    rows = given[0][0].shape[0] // size
    return [[torch.cat([one[0][me * rows : (me + 1) * rows] for one in given])] for me in range(size)]


def exchanged_unevenly(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    size = len(given)
    return [
        [torch.cat([torch.split(one[0], parts(other, size))[me] for other, one in enumerate(given)])]
        for me in range(size)
    ]


def scattered(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[given[root][me]] for me in range(len(given))]


def from_left(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[given[(me - 1) % len(given)][0]] for me in range(len(given))]


def from_partner(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[given[me ^ 1 if me ^ 1 < len(given) else me][0]] for me in range(len(given))]
