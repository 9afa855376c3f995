"""Variants of softmax in the Gaudi bridge: approximate, over a dimension, ragged, triangular."""

from __future__ import annotations

import torch


class CustomSoftmax:
    """Softmax of bfloat16 tensors, which is approximated on hardware and exact on this device."""

    @staticmethod
    def apply(inp: torch.Tensor, flavor: int) -> torch.Tensor:
        """Return the softmax over the last dimension; ``flavor`` 0 or 1 selects a hardware approximation."""
        result: torch.Tensor = torch.ops.hpu.custom_softmax(inp, flavor)
        return result


class Softmax:
    """Softmax over one dimension."""

    @staticmethod
    def apply(inp: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """Return the softmax of ``inp`` over dimension ``dim``."""
        return torch.softmax(inp, dim)


class RaggedSoftmax:
    """Softmax over the first elements of a dimension, with a number of elements for each batch entry."""

    @staticmethod
    def apply(
        inp: torch.Tensor, dim: int, valid_count: torch.Tensor, half_to_float: bool = False
    ) -> torch.Tensor:
        """Return the softmax over the first ``valid_count[b]`` elements of batch entry b, 0 elsewhere."""
        result: torch.Tensor = torch.ops.hpu.ragged_softmax(inp, dim, half_to_float, valid_count)
        return result


def triu_masked_softmax(inp: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    """Return the softmax of ``inp * scale``: row i over columns 0 to i, with 0 in later columns."""
    result: torch.Tensor = torch.ops.hpu.scaled_triangular_softmax(inp, scale)
    return result
