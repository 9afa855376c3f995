"""Rank programs: functions that all ranks run at the same time."""

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

    ``meeting`` is the path of the file that initialises the process group; programs may create files next to
    it. ``timeout`` is the timeout of collectives in seconds.
    """

    rank: int
    size: int
    device: torch.device
    target: Target
    meeting: str
    timeout: float

    @property
    def backend(self) -> str:
        """The name of the process group backend."""
        import torch.distributed as dist

        return self.target.process_group or dist.get_default_backend_for_device(self.device.type)

    def join(self, meeting: str) -> None:
        """Initialise the default group. All ranks use the same file, which must not exist yet."""
        import torch.distributed as dist

        dist.init_process_group(
            self.backend,
            init_method=f"file://{meeting}",
            rank=self.rank,
            world_size=self.size,
            timeout=datetime.timedelta(seconds=self.timeout),
        )

    def synchronize(self) -> None:
        """Wait for the device."""
        self.target.wait()


def program(function: P) -> P:
    """Register a function under ``module:name``; it is called as ``function(rank, **arguments)``."""
    _PROGRAMS[name_of(function)] = function
    return function


def name_of(function: Program) -> str:
    """Return the name under which ranks find a program."""
    return f"{function.__module__}:{function.__qualname__}"


def find(name: str) -> Program:
    """Return the program of that name, after importing its module if needed; raise LookupError if it does not
    exist.
    """
    if name not in _PROGRAMS:
        importlib.import_module(name.partition(":")[0])
    return _PROGRAMS[name]


def total(rank: Rank, group: Any = None) -> float:
    """Return the sum of rank + 1 over a group, or over all ranks, computed by the process group."""
    import torch.distributed as dist

    tensor = torch.full((3,), float(rank.rank + 1), device=rank.device)
    dist.all_reduce(tensor, group=group)
    return float(tensor.cpu().double().mean())


@program
def agree(rank: Rank) -> float:
    """Return the sum of rank + 1 over all ranks."""
    return total(rank)
