"""Test the errors of hccl: rejected arguments, and collectives that cannot finish."""

from __future__ import annotations

import datetime
import os
import time

import pytest
import torch
import torch.distributed as dist


def check_rejected_arguments(rank, size):
    x = torch.ones(4, device="hpu")
    refused = [
        (TypeError, "data type is not supported for HCCL", lambda: dist.all_reduce(x.to(torch.int16))),
        (ValueError, "Unsupported ReduceOp", lambda: dist.all_reduce(x, dist.ReduceOp.AVG)),
        (ValueError, "Unsupported ReduceOp", lambda: dist.all_reduce(x.int(), dist.ReduceOp.BAND)),
        (ValueError, "Unsupported ReduceOp", lambda: dist.all_reduce(x.bool(), dist.ReduceOp.AVG)),
        (
            TypeError,
            "cannot be reduced",
            lambda: dist.all_reduce(x.to(torch.float8_e4m3fn)),
        ),
        (ValueError, "must be contiguous", lambda: dist.all_reduce(torch.ones(4, 2, device="hpu").t())),
        (
            ValueError,
            "output tensor size must be equal to world_size times input tensor size",
            lambda: dist.all_gather_into_tensor(torch.empty(7, device="hpu"), x),
        ),
        (
            ValueError,
            "input tensor must be the same size as output size times world size",
            lambda: dist.reduce_scatter_tensor(torch.empty(3, device="hpu"), x),
        ),
        (
            ValueError,
            "dim 0 does not divide equally",
            lambda: dist.all_to_all_single(torch.empty(3, device="hpu"), torch.ones(3, device="hpu")),
        ),
        (
            RuntimeError,
            "does not support recvAnysource|does not support",
            lambda: dist.recv(x),
        ),
    ]
    for kind, message, call in refused:
        with pytest.raises(kind, match=message):
            call()
    dist.all_reduce(x)  # the group still works


def options_with_short_timeout(make_options):
    """Return options of a collective with a timeout of two seconds."""
    options = make_options()
    options.timeout = datetime.timedelta(seconds=2)
    return options


def check_missing_rank(rank, size):
    """Check that the error of rank 0 names the missing rank 1."""
    x = torch.ones(4, device="hpu")
    dist.all_reduce(x)
    x.cpu()
    if rank == 1:
        time.sleep(12)
        os._exit(0)
    dist.group.WORLD.allreduce([x], options_with_short_timeout(dist.AllreduceOptions)).wait()
    message = r"ALLREDUCE \(number 2 of .*, rank 0 of 2, timeout 2000 ms\) failed: no sign of rank 1"
    with pytest.raises(dist.DistBackendError, match=message):
        x.cpu()
    os._exit(0)


def check_different_collective(rank, size):
    """Let two ranks call different collectives. Check that each error names the other rank's collective."""
    x = torch.ones(4, device="hpu")
    dist.all_reduce(x)
    x.cpu()
    called_operation = "BROADCAST" if rank == 0 else "ALLREDUCE"
    with pytest.raises(
        dist.DistBackendError, match=rf"number 2 of .* rank {1 - rank} has {called_operation}"
    ):
        if rank == 1:
            options = options_with_short_timeout(dist.BroadcastOptions)
            options.rootRank = 0
            dist.group.WORLD.broadcast([x], options).wait()
        else:
            dist.group.WORLD.allreduce([x], options_with_short_timeout(dist.AllreduceOptions)).wait()
        x.cpu()
    os._exit(0)


def wait_for_store_value(rank, size):
    """Wait in the group's store for a value that another rank writes after a slow collective."""
    meeting = dist.distributed_c10d._get_default_store()
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, size, is_master=True, wait_for_workers=False)
        meeting.set("port", str(store.port))
    else:
        store = dist.TCPStore("127.0.0.1", int(meeting.get("port")), size, wait_for_workers=False)
    dist.destroy_process_group()
    timeout = datetime.timedelta(seconds=60)
    dist.init_process_group("hccl", store=store, rank=rank, world_size=size, timeout=timeout)
    x = torch.ones(4, device="hpu")
    dist.all_reduce(x)
    x.cpu()
    start = time.monotonic()
    if rank == 0:
        works = [dist.all_reduce(x, async_op=True) for _ in range(2)]
        store.get("go")  # the store client of this rank is busy until rank 1 sets the value
    else:
        time.sleep(2.5)  # longer than the delay of a missing-rank report
        works = [dist.all_reduce(x, async_op=True) for _ in range(2)]
        for work in works:
            work.wait()
        x.cpu()
        store.set("go", "yes")
    for work in works:
        work.wait()
    assert x.tolist() == [8.0] * 4
    assert time.monotonic() - start < 20


def check_dead_rank(rank, size):
    """Check that the exit of rank 1 raises an error on the remaining ranks, long before the timeout."""
    x = torch.ones(4, device="hpu")
    dist.all_reduce(x)
    x.cpu()
    if rank == 1:
        os._exit(7)
    start = time.monotonic()
    with pytest.raises(dist.DistBackendError, match=r"hccl: ALLREDUCE .* failed"):
        while True:
            dist.all_reduce(x)
            x.cpu()
    assert time.monotonic() - start < 20
    os._exit(0)


def test_rejected_arguments(on_ranks):
    on_ranks(check_rejected_arguments)


def test_error_names_the_missing_rank(on_ranks):
    on_ranks(check_missing_rank)


def test_error_names_the_different_collective(on_ranks):
    on_ranks(check_different_collective)


def test_slow_collective_while_a_rank_waits_in_the_store(on_ranks):
    on_ranks(wait_for_store_value)


@pytest.mark.parametrize("size", [2, 3])
def test_dead_rank_raises_on_the_other_ranks(on_ranks, size):
    ended = on_ranks(check_dead_rank, size, fails=(1,))
    assert ended[1].code == 7
