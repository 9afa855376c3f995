"""Copy tensors to the CPU in float64 for reference values, and compare results with reference values."""

from __future__ import annotations

from typing import Any

import torch


def assert_close_to_reference(
    actual: torch.Tensor, expected: Any, rtol: float = 1e-5, atol: float = 1e-5
) -> None:
    expected = torch.as_tensor(expected).double()
    torch.testing.assert_close(actual.detach().cpu().double(), expected, rtol=rtol, atol=atol)


def float64_copies_with_grad(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """Return float64 copies of the tensors on the CPU. The copies require gradients."""
    return [t.detach().cpu().double().requires_grad_() for t in tensors]
