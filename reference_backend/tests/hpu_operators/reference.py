"""Reference values on the CPU in float64, and the comparison with them."""

from __future__ import annotations

from typing import Any

import torch


def close(actual: torch.Tensor, expected: Any, rtol: float = 1e-5, atol: float = 1e-5) -> None:
    expected = torch.as_tensor(expected).double()
    torch.testing.assert_close(actual.detach().cpu().double(), expected, rtol=rtol, atol=atol)


def host(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """Return the tensors on the CPU in float64. They require gradients."""
    return [t.detach().cpu().double().requires_grad_() for t in tensors]
