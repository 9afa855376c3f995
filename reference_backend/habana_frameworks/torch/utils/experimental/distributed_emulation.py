"""Emulate the peers of a rank during a part of a program (see `distributed.hccl.emulated`)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from habana_frameworks.torch.distributed.hccl import emulated
from habana_frameworks.torch.internal.settings import bridge_config

_VARIABLE = "PT_HPU_EMULATE_DISTRIBUTED"


@contextlib.contextmanager
def emulate_distributed(world_size: int, rank: int = 0) -> Iterator[None]:
    """Context manager that emulates the other ranks of process groups that are created in its block.

    Args:
        world_size: number of ranks of the emulated job.
        rank: the rank of this process.

    Raises:
        ValueError: the rank is not below the world size.
    """
    if not 0 <= rank < world_size:
        raise ValueError(f"a job of {world_size} ranks has no rank {rank}. Use 0 to {world_size - 1}.")
    names = {_VARIABLE: "1", "WORLD_SIZE": str(world_size), "RANK": str(rank)}
    before = {name: os.environ.get(name) for name in names}
    was = bridge_config.value_of(_VARIABLE)
    os.environ.update(names)
    bridge_config.assign_flag(_VARIABLE, True)
    emulated.patch_init_process_group()
    try:
        yield
    finally:
        bridge_config.assign_flag(_VARIABLE, was)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
