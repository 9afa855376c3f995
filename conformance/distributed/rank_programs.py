"""Register rank programs: functions that all ranks run at the same time."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from conformance.target.target import Target

Program = Callable[..., Any]
P = TypeVar("P", bound=Program)

_PROGRAMS: dict[str, Program] = {}


@dataclasses.dataclass(frozen=True)
class Rank:
    """The first argument of a rank program: the rank, the world size and the device to use.

    ``rendezvous_file`` is the path of the file through which the ranks initialise the process group. Programs
    may create files in the folder of this file. ``timeout`` is the timeout of collectives in seconds.
    """

    rank: int
    size: int
    device: torch.device
    target: Target
    rendezvous_file: str
    timeout: float

    @property
    def backend(self) -> str:
        """The name of the process group backend."""
        import torch.distributed as dist

        return self.target.process_group or dist.get_default_backend_for_device(self.device.type)

    def join_process_group(self, rendezvous_file: str) -> None:
        """Initialise the default process group through the file ``rendezvous_file``. All ranks pass the same
        path, and the file must not exist yet.
        """
        import torch.distributed as dist

        dist.init_process_group(
            self.backend,
            init_method=f"file://{rendezvous_file}",
            rank=self.rank,
            world_size=self.size,
            timeout=datetime.timedelta(seconds=self.timeout),
        )

    def synchronize(self) -> None:
        """Wait for the device."""
        self.target.wait()


def program(function: P) -> P:
    """Register a function as the rank program ``module:name``. Ranks call ``function(rank, **arguments)``."""
    _PROGRAMS[program_name(function)] = function
    return function


def program_name(function: Program) -> str:
    """Return the name ``module:name`` of a rank program."""
    return f"{function.__module__}:{function.__qualname__}"


def find_program(name: str) -> Program:
    """Import the module of a rank program if needed and return the program; raise LookupError if it does not
    exist.
    """
    if name not in _PROGRAMS:
        importlib.import_module(name.partition(":")[0])
    return _PROGRAMS[name]


def sum_over_ranks(rank: Rank, group: Any = None) -> float:
    """Return the all-reduced sum of ``rank + 1`` over ``group``, by default over all ranks."""
    import torch.distributed as dist

    tensor = torch.full((3,), float(rank.rank + 1), device=rank.device)
    dist.all_reduce(tensor, group=group)
    return float(tensor.cpu().double().mean())


@program
def sum_over_all_ranks(rank: Rank) -> float:
    """Return the all-reduced sum of ``rank + 1`` over all ranks."""
    return sum_over_ranks(rank)
