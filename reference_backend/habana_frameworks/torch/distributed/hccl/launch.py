"""The rank that a launcher gave this process in its environment, and the module that belongs to it."""

from __future__ import annotations

import os

from habana_frameworks.torch.internal.settings.visible_modules import visible_modules

DEFAULT_ADDRESS = "localhost"
DEFAULT_PORT = "12345"

#: Of torchrun and of an mpirun-style launcher, in this order.
_VARIABLES = {
    "world_size": ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"),
    "rank": ("RANK", "OMPI_COMM_WORLD_RANK"),
    "local_rank": ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
}


def initialize_distributed_hpu(
    world_size: int | None = None, rank: int | None = None, local_rank: int | None = None
) -> tuple[int, int, int]:
    """Read the rank of this process in its job and assign it its module.

    Each value comes from the argument, otherwise from torchrun's variable, otherwise from Open MPI's. In a
    job of several ranks this sets ``MASTER_ADDR`` (localhost) and ``MASTER_PORT`` (12345) if they are unset,
    ``HLS_MODULE_ID`` to the module (the local rank's entry of ``HABANA_VISIBLE_MODULES``, or the local
    rank) and ``ID`` to the rank. Without any of these variables nothing is changed.

    Returns:
        World size, rank and local rank; (1, -1, -1) if there is no job.

    Raises:
        AssertionError: fewer modules are visible than the local rank needs.
        ValueError: a variable is not an integer.
    """
    size = _value("world_size", world_size, 1)
    place = _value("rank", rank, -1)
    local = _value("local_rank", local_rank, -1)
    if size <= 1 and place < 0 and local < 0:
        return 1, -1, -1
    os.environ.setdefault("MASTER_ADDR", DEFAULT_ADDRESS)
    os.environ.setdefault("MASTER_PORT", DEFAULT_PORT)
    if local >= 0:
        os.environ["HLS_MODULE_ID"] = str(_module(local))
    os.environ["ID"] = str(place)
    return size, place, local


def _module(local_rank: int) -> int:
    modules = visible_modules()
    # Programs look for the first three lines of this message as they are, spaces included.
    assert local_rank < len(modules), (
        "There is not enough devices\n"
        "        available for training. Please verify if HABANA_VISIBLE_MODULES\n"
        f"        is set correctly: local rank {local_rank} needs a module of its own, and "
        f"{len(modules)} are visible"
    )
    return modules[local_rank]


def _value(name: str, given: int | None, default: int) -> int:
    if given is not None:
        return given
    for variable in _VARIABLES[name]:
        text = os.environ.get(variable, "").strip()
        if text:
            try:
                return int(text)
            except ValueError:
                raise ValueError(f"{variable}={text!r} is not an integer: unset it or give a rank") from None
    return default
