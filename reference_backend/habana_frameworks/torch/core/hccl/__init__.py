"""Deprecated import path of `habana_frameworks.torch.distributed.hccl`."""

from __future__ import annotations

from habana_frameworks.torch.distributed.hccl import initialize_distributed_hpu

__all__ = ["initialize_distributed_hpu"]
