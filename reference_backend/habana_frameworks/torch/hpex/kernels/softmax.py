"""Softmax in forms that the device has kernels for."""

from __future__ import annotations

import torch


class CustomSoftmax:
    """Softmax of bfloat16; on hardware approximate, here exact."""

    @staticmethod
    def apply(inp: torch.Tensor, flavor: int) -> torch.Tensor:
        """Softmax over the last dimension; ``flavor`` 0 or 1 chooses the approximation of hardware."""
        found: torch.Tensor = torch.ops.hpu.custom_softmax(inp, flavor)
        return found


class Softmax:
    """Softmax over one dimension."""

    @staticmethod
    def apply(inp: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """`torch.softmax`."""
        return torch.softmax(inp, dim)


class RaggedSoftmax:
    """Softmax over the first elements of a dimension."""

    @staticmethod
    def apply(
        inp: torch.Tensor, dim: int, valid_count: torch.Tensor, half_to_float: bool = False
    ) -> torch.Tensor:
        """Softmax over the first ``valid_count`` elements, one count for each batch; 0 elsewhere."""
        found: torch.Tensor = torch.ops.hpu.ragged_softmax(inp, dim, half_to_float, valid_count)
        return found


def triu_masked_softmax(inp: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    """Softmax of inp * scale over the columns up to the row; 0 behind them."""
    found: torch.Tensor = torch.ops.hpu.scaled_triangular_softmax(inp, scale)
    return found
