"""Deprecated import path of `habana_frameworks.torch.distributed.hccl.initialize_distributed_hpu`."""

from __future__ import annotations

import warnings

from habana_frameworks.torch.distributed import hccl


def initialize_distributed_hpu(
    world_size: int | None = None, rank: int | None = None, local_rank: int | None = None
) -> tuple[int, int, int]:
    """Call `habana_frameworks.torch.distributed.hccl.initialize_distributed_hpu`, with a `FutureWarning`."""
    warnings.warn(
        "habana_frameworks.torch.utils.distributed_utils is deprecated: use "
        "habana_frameworks.torch.distributed.hccl.initialize_distributed_hpu",
        FutureWarning,
        stacklevel=2,
    )
    return hccl.initialize_distributed_hpu(world_size, rank, local_rank)
