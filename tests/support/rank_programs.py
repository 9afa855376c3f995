"""Rank programs for the tests of rank pools."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import torch
import torch.distributed as dist

from conformance.distributed.rank_programs import Rank, program


@program
def process(rank: Rank) -> tuple[int, int]:
    return rank.rank, os.getpid()


@program
def echo(rank: Rank, value: Any) -> Any:
    return value


@program
def tensors(rank: Rank) -> list[torch.Tensor]:
    wide = torch.arange(12).reshape(3, 4)
    return [wide.t(), wide[:, ::2], torch.ones(2, 0), torch.tensor(1 + 2j), torch.ones(2).bfloat16()]


@program
def raises(rank: Rank, where: list[int]) -> str:
    if rank.rank in where:
        raise ValueError(f"no {rank.rank}")
    dist.barrier()
    return "past the barrier"


@program
def dies(rank: Rank) -> None:
    if rank.rank == 1:
        print("my last words", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1000)


@program
def sleeps(rank: Rank) -> None:
    time.sleep(1000)


@program
def out_of_step(rank: Rank) -> None:
    """Start a sum on one rank before all ranks raise the same error."""
    if rank.rank == 0:
        dist.all_reduce(torch.ones(3), async_op=True)
    raise ValueError("no")
