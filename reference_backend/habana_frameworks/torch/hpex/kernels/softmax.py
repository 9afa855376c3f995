"""Variants of softmax for which the device has kernels."""

from __future__ import annotations

import torch


class CustomSoftmax:
    """Softmax of bfloat16; an approximation on hardware, exact here."""

    @staticmethod
    def apply(inp: torch.Tensor, flavor: int) -> torch.Tensor:
        """Return the softmax over the last dimension; ``flavor`` 0 or 1 selects a hardware approximation."""
        result: torch.Tensor = torch.ops.hpu.custom_softmax(inp, flavor)
        return result


class Softmax:
    """Softmax over one dimension."""

    @staticmethod
    def apply(inp: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """Return `torch.softmax`."""
        return torch.softmax(inp, dim)


class RaggedSoftmax:
    """Softmax over the first elements of a dimension."""

    @staticmethod
    def apply(
        inp: torch.Tensor, dim: int, valid_count: torch.Tensor, half_to_float: bool = False
    ) -> torch.Tensor:
        """Return the softmax over the first ``valid_count`` elements (one count per batch), 0 elsewhere."""
        result: torch.Tensor = torch.ops.hpu.ragged_softmax(inp, dim, half_to_float, valid_count)
        return result


def triu_masked_softmax(inp: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    """Return the softmax of inp * scale over columns up to the row index, and 0 in later columns."""
    result: torch.Tensor = torch.ops.hpu.scaled_triangular_softmax(inp, scale)
    return result
