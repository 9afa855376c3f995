"""Test the flags that make the host wait in collectives. By default, the host does not wait."""

from __future__ import annotations

import time

import pytest


def all_reduce_with_late_rank() -> tuple[bool, bool]:
    """Call all-reduce while the last rank is late.

    Returns:
        Whether the last rank had arrived, and whether the work had run, when the call returned.
    """
    import torch
    import torch.distributed as dist

    store = dist.distributed_c10d._get_default_store()
    x = torch.ones(1 << 12, device="hpu")
    torch.hpu.synchronize()
    dist.barrier()
    if dist.get_rank() == dist.get_world_size() - 1:
        time.sleep(1.5)
        store.set("came", "")
    work = dist.all_reduce(x, async_op=True)
    state = store.check(["came"]), work.is_completed()
    work.wait()
    assert x.sum().item() == x.numel() * dist.get_world_size()
    dist.barrier()
    return state


def check_host_does_not_wait(rank, size):
    came, done = all_reduce_with_late_rank()
    assert rank != 0 or (not came and not done)


def check_host_waits(rank, size):
    came, done = all_reduce_with_late_rank()
    assert came and done


@pytest.mark.nightly("each case starts ranks", every=3)
@pytest.mark.parametrize(
    ("function", "variables"),
    [
        (check_host_does_not_wait, {}),
        (check_host_waits, {"PT_HPU_DISABLE_ASYNC_COLLECTIVE": "1"}),
        (check_host_waits, {"PT_HPU_EAGER_COLLECTIVE_PIPELINE_ENABLE": "0"}),
        (check_host_waits, {"PT_HPU_USE_NW_STREAM_SYNC": "1"}),
        (check_host_waits, {"PT_HPU_USE_PT_STORE_SYNC": "1"}),
    ],
)
def test_whether_the_host_waits(on_ranks, function, variables) -> None:
    on_ranks(function, 3, **variables)


def run_collectives_and_messages(rank, size):
    import torch
    import torch.distributed as dist

    parts = [torch.full((4,), float(rank), device="hpu") for _ in range(3)]
    with dist._coalescing_manager(device=parts[0].device):
        for part in parts:
            dist.all_reduce(part)
    peer = 1 - rank
    received = torch.zeros(2, device="hpu")
    # Both ranks send before they receive.
    sends = [dist.isend(torch.full((2,), float(rank), device="hpu"), peer)]
    dist.recv(received, peer)
    for work in sends:
        work.wait()
    assert received.tolist() == [float(peer)] * 2
    group = dist.new_group([0, 1])
    for _ in range(5):
        dist.all_reduce(received, group=group)
        dist.barrier()
    whole = torch.zeros(4 * size, device="hpu")
    dist.all_gather_into_tensor(whole, parts[2])
    assert whole.tolist() == [1.0] * 8


def test_all_waiting_flags_together_do_not_deadlock(on_ranks) -> None:
    on_ranks(run_collectives_and_messages, 2, PT_HPU_USE_PT_STORE_SYNC="1", PT_HPU_USE_NW_STREAM_SYNC="1")


def exchange_messages_of_two_ranks(rank, size):
    import torch
    import torch.distributed as dist

    dist.barrier()
    if rank < 2:
        sent, received = torch.full((2,), float(rank), device="hpu"), torch.zeros(2, device="hpu")
        batch = [dist.P2POp(dist.isend, sent, 1 - rank), dist.P2POp(dist.irecv, received, 1 - rank)]
        for work in dist.batch_isend_irecv(batch):
            work.wait()
        assert received.tolist() == [1.0 - rank] * 2
        (work,) = dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, 1 - rank)])
        dist.recv(received, 1 - rank)  # both ranks send in a batch before they receive
        work.wait()
    whole = torch.ones(2, device="hpu")
    for _ in range(3):
        dist.all_reduce(whole)
    assert whole.tolist() == [27.0] * 2


@pytest.mark.parametrize("flag", ["PT_HPU_USE_PT_STORE_SYNC", "PT_HPU_DISABLE_ASYNC_COLLECTIVE"])
def test_messages_of_two_ranks_do_not_block_the_third(on_ranks, flag) -> None:
    on_ranks(exchange_messages_of_two_ranks, 3, **{flag: "1"})


def check_error_names_missing_rank(rank, size):
    import datetime

    import torch
    import torch.distributed as dist

    if rank == 0:
        group = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=3))
        with pytest.raises(dist.DistBackendError, match="no sign of rank 1"):
            dist.all_reduce(torch.ones(2, device="hpu"), group=group)
    else:
        dist.new_group([0, 1], timeout=datetime.timedelta(seconds=3))
        time.sleep(6)


def test_error_names_the_missing_rank(on_ranks) -> None:
    on_ranks(check_error_names_missing_rank, 2, PT_HPU_USE_PT_STORE_SYNC="1", fails=(1,))


ALONE = """
import torch, habana_frameworks.torch, torch.distributed as dist
import habana_frameworks.torch.distributed.hccl
from habana_frameworks.torch.utils.experimental import distributed_emulation
dist.init_process_group("hccl", init_method="tcp://localhost:0", rank=0, world_size=1)
dist.all_reduce(torch.ones(2, device="hpu"))
dist.destroy_process_group()
with distributed_emulation.emulate_distributed(3, 0):
    dist.init_process_group("hccl")
    x = torch.ones(2, device="hpu")
    dist.all_reduce(x)
    print(x.tolist())
"""


def test_rank_without_peers_does_not_wait(output_of) -> None:
    assert output_of(ALONE, PT_HPU_USE_PT_STORE_SYNC="1", timeout=60) == "[1.0, 1.0]"
