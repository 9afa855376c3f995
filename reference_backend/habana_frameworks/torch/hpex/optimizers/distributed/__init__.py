"""Optimizers for `torch.distributed.optim.DistributedOptimizer`, which passes gradients as an argument."""

from __future__ import annotations

from .adamw import FusedAdamW

__all__ = ["FusedAdamW"]
