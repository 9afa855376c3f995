"""Test that fused code multiplies a matrix product by ``alpha`` (see docs/torch-bugs.md#alpha)."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.parametrize(
    "function",
    [
        lambda w, a, b: torch.add(w, a @ b, alpha=-3.0),
        lambda w, a, b: torch.sub(w, a @ b, alpha=2.0),
        lambda w, a, b: torch.addmm(w, a, b, alpha=-3.0, beta=0.5),
    ],
)
def test_factors_of_products(function):
    torch._dynamo.reset()
    arguments = [torch.ones(size, device="hpu") for size in ((2, 2), (2, 5), (5, 2))]
    compiled = torch.compile(function, backend="hpu_backend", options={"executable": "fused"})
    assert torch.equal(compiled(*arguments), function(*arguments))
