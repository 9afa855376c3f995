"""Optimizers that `torch.distributed.optim.DistributedOptimizer` drives: they are given gradients."""

from __future__ import annotations

from .adamw import FusedAdamW

__all__ = ["FusedAdamW"]
