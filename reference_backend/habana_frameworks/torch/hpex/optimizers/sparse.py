"""Steps for some rows of a table."""

from __future__ import annotations

import torch

_Written = tuple[torch.Tensor, torch.Tensor]


class SparseSGD:
    """SGD with momentum for the rows that a batch used."""

    @staticmethod
    def forward(
        gradients: torch.Tensor,
        weights: torch.Tensor,
        moments: torch.Tensor,
        indices: torch.Tensor,
        learning_rate: torch.Tensor,
        valid_count: torch.Tensor,
        mom: float = 0.0,
        nesterov: bool = False,
    ) -> _Written:
        """Step rows in place; see `torch.ops.hpu.habanaOptimizerSparseSgd`. Returns weights and moments."""
        found = torch.ops.hpu.habanaOptimizerSparseSgd(
            gradients, weights, moments, indices, learning_rate, valid_count, mom, nesterov
        )
        return found[0], found[1]

    apply = forward


class SparseAdagrad:
    """Adagrad for the rows that a batch used."""

    @staticmethod
    def forward(
        gradients: torch.Tensor,
        weights: torch.Tensor,
        moments: torch.Tensor,
        indices: torch.Tensor,
        learning_rate: torch.Tensor,
        valid_count: torch.Tensor,
    ) -> _Written:
        """Step rows in place, as `torch.ops.hpu.habanaOptimizerSparseAdagrad`; return both."""
        found = torch.ops.hpu.habanaOptimizerSparseAdagrad(
            gradients, weights, moments, indices, learning_rate, valid_count
        )
        return found[0], found[1]

    apply = forward
