"""Fused optimizers for `torch.distributed.optim.DistributedOptimizer`: ``step`` accepts the gradients."""

from __future__ import annotations

from .adamw import FusedAdamW

__all__ = ["FusedAdamW"]
