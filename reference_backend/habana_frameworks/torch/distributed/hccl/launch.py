"""Read the rank that a launcher assigned to this process, and choose its module (Gaudi card)."""

from __future__ import annotations

import os

from habana_frameworks.torch.internal.settings.visible_modules import visible_module_ids

DEFAULT_ADDRESS = "localhost"
DEFAULT_PORT = "12345"

#: Variables of torchrun and of mpirun-like launchers, in order of precedence.
_VARIABLES = {
    "world_size": ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"),
    "rank": ("RANK", "OMPI_COMM_WORLD_RANK"),
    "local_rank": ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
}


def initialize_distributed_hpu(
    world_size: int | None = None, rank: int | None = None, local_rank: int | None = None
) -> tuple[int, int, int]:
    """Return world size, rank and local rank of this process, and set the variables that depend on them.

    Each value comes from the argument, otherwise from torchrun's variable, otherwise from Open MPI's
    variable. If the process belongs to a job, this function sets these variables:

    - ``MASTER_ADDR`` (localhost) and ``MASTER_PORT`` (12345), if they are unset;
    - ``HLS_MODULE_ID``, if the local rank is known: the index of the module (Gaudi card), which is the local
      rank's entry of ``HABANA_VISIBLE_MODULES``, by default the local rank;
    - ``ID``: the rank.

    Returns:
        World size, rank and local rank; (1, -1, -1) if the process is not part of a job.

    Raises:
        AssertionError: the local rank is not below the number of visible modules.
        ValueError: a variable is not an integer.
    """
    size = _argument_or_environment_value("world_size", world_size, 1)
    own_rank = _argument_or_environment_value("rank", rank, -1)
    local = _argument_or_environment_value("local_rank", local_rank, -1)
    if size <= 1 and own_rank < 0 and local < 0:
        return 1, -1, -1
    os.environ.setdefault("MASTER_ADDR", DEFAULT_ADDRESS)
    os.environ.setdefault("MASTER_PORT", DEFAULT_PORT)
    if local >= 0:
        os.environ["HLS_MODULE_ID"] = str(_gaudi_module_of_rank(local))
    os.environ["ID"] = str(own_rank)
    return size, own_rank, local


def _gaudi_module_of_rank(local_rank: int) -> int:
    modules = visible_module_ids()
    # Programs compare the first three lines of this message literally, including spaces.
    assert local_rank < len(modules), (
        "There is not enough devices\n"
        "        available for training. Please verify if HABANA_VISIBLE_MODULES\n"
        f"        is set correctly: local rank {local_rank} needs its own module, but "
        f"{len(modules)} are visible"
    )
    return modules[local_rank]


def _argument_or_environment_value(name: str, argument: int | None, default: int) -> int:
    if argument is not None:
        return argument
    for variable in _VARIABLES[name]:
        text = os.environ.get(variable, "").strip()
        if text:
            try:
                return int(text)
            except ValueError:
                raise ValueError(
                    f"{variable}={text!r} is not an integer. Unset it or use an integer."
                ) from None
    return default
