"""Optimizer steps that update only the embedding table rows that a batch has used."""

from __future__ import annotations

import torch

_Written = tuple[torch.Tensor, torch.Tensor]


class SparseSGD:
    """SGD with momentum for the embedding table rows that a batch has used."""

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
        """Update the rows ``indices`` of weights and moments in place, and return weights and moments."""
        results = torch.ops.hpu.habanaOptimizerSparseSgd(
            gradients, weights, moments, indices, learning_rate, valid_count, mom, nesterov
        )
        return results[0], results[1]

    apply = forward


class SparseAdagrad:
    """Adagrad for the embedding table rows that a batch has used."""

    @staticmethod
    def forward(
        gradients: torch.Tensor,
        weights: torch.Tensor,
        moments: torch.Tensor,
        indices: torch.Tensor,
        learning_rate: torch.Tensor,
        valid_count: torch.Tensor,
    ) -> _Written:
        """Update the rows ``indices`` of weights and moments in place, and return weights and moments."""
        results = torch.ops.hpu.habanaOptimizerSparseAdagrad(
            gradients, weights, moments, indices, learning_rate, valid_count
        )
        return results[0], results[1]

    apply = forward
