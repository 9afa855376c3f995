"""Repeated random draws are detected. Independent draws with few distinct values cause no false alarm."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from conformance.properties.overloads import random


def repeated_elements(first: torch.Tensor, second: torch.Tensor, draw: str) -> tuple[int, int] | None:
    def by_cpu() -> Sequence[torch.Tensor]:
        return [DRAWS[draw](first.numel()) for _ in range(20)]

    return random._repeated_elements(first, second, by_cpu)


DRAWS = {
    "uniform": lambda size: torch.rand(size),
    "counts": lambda size: torch.poisson(torch.full((size,), 1000.0)),
    "small counts": lambda size: torch.poisson(torch.full((size,), 3.0)),
    "bernoulli": lambda size: torch.bernoulli(torch.full((size,), 0.5)),
}


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("size", [16, 25, 257])
def test_independent_draws_are_not_reported(draw: str, size: int) -> None:
    torch.manual_seed(5)
    for _ in range(100):
        assert repeated_elements(DRAWS[draw](size), DRAWS[draw](size), draw) is None


@pytest.mark.parametrize("draw", DRAWS)
def test_a_shifted_draw_is_a_repetition(draw: str) -> None:
    torch.manual_seed(5)
    first = DRAWS[draw](257)
    second = DRAWS[draw](257)
    second[:-3] = first[3:]
    assert repeated_elements(first, second, draw) == (3, 254)
