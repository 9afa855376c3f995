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
def rank_and_pid(rank: Rank) -> tuple[int, int]:
    return rank.rank, os.getpid()


@program
def return_argument(rank: Rank, value: Any) -> Any:
    return value


@program
def various_tensors(rank: Rank) -> list[torch.Tensor]:
    wide = torch.arange(12).reshape(3, 4)
    return [wide.t(), wide[:, ::2], torch.ones(2, 0), torch.tensor(1 + 2j), torch.ones(2).bfloat16()]


@program
def raise_on_ranks(rank: Rank, ranks: list[int]) -> str:
    if rank.rank in ranks:
        raise ValueError(f"no {rank.rank}")
    dist.barrier()
    return "past the barrier"


@program
def kill_rank_one(rank: Rank) -> None:
    if rank.rank == 1:
        print("my last words", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1000)


@program
def sleep_for_long(rank: Rank) -> None:
    time.sleep(1000)


@program
def raise_out_of_step(rank: Rank) -> None:
    """Raise the same error on all ranks, after rank 0 alone has started an all_reduce."""
    if rank.rank == 0:
        dist.all_reduce(torch.ones(3), async_op=True)
    raise ValueError("no")
