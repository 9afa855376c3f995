"""Making process groups: the core does the collectives, gloo carries them."""

from __future__ import annotations

import functools
from typing import Any

from habana_frameworks.torch import _C

import torch.distributed as dist

NAME = "hccl"


def create(options: Any, backend_options: Any = None) -> dist.Backend:
    """The backend of one process group.

    Args:
        options: torch's `DistributedBackendOptions`: store, rank, size and timeout of the group.
        backend_options: not used; hccl has none.

    Raises:
        RuntimeError: gloo could not connect the ranks within the timeout.
    """
    # Keys of gloo's own meeting beside those of the roll call.
    store = dist.PrefixStore("gloo", options.store)
    gloo = dist.ProcessGroupGloo(store, options.group_rank, options.group_size, timeout=options.timeout)
    return _C.create_hccl(
        gloo, dist.PrefixStore(NAME, options.store), options.group_rank, options.group_size, options.timeout
    )


@functools.cache
def register() -> None:
    """Make ``backend="hccl"`` known, as the one for hpu."""
    dist.Backend.register_backend(NAME, create, extended_api=True, devices=["hpu"])
