"""Test the stream order of collectives: the host does not wait, and no memory is reused too early."""

from __future__ import annotations

import threading
import time

import habana_frameworks.torch as ht
import torch
import torch.distributed as dist

C, hpu = ht._C, ht.hpu


def cache_output_metadata(call):
    """Run a call until the engine has cached the output metadata of all its operators.

    An uncached operator makes the host wait. Behind a closed gate, each run of the call adds only its first
    uncached operator to the cache, so the call runs several times.
    """
    before = -1
    while before != C.engine_counters()["learned"]:
        before = C.engine_counters()["learned"]
        gate = C.Gate()
        gate.enqueue()
        opener = threading.Timer(0.05, gate.open)
        opener.start()
        call()
        hpu.synchronize()
        opener.join()


def check_host_does_not_wait(rank, size):
    x = torch.ones(4, device="hpu")
    dist.all_reduce(x)
    cache_output_metadata(lambda: x.fill_(rank + 1.0) * 2)
    gate = C.Gate()
    gate.enqueue()  # the gate of rank 0 stays closed and blocks the collective on all ranks
    if rank != 0:
        gate.open()
    x.fill_(rank + 1.0)
    start = time.monotonic()
    work = dist.all_reduce(x, async_op=True)
    assert not work.is_completed()
    assert work.wait()
    y = x * 2
    assert time.monotonic() - start < 5
    assert not work.is_completed() or rank != 0
    if rank == 0:
        time.sleep(0.3)
        gate.open()
    assert torch.equal(y.cpu(), torch.full((4,), size * (size + 1.0)))
    assert work.is_completed() and work.is_success()


def check_side_stream_order(rank, size):
    """Check that a collective on a side stream sends the values that earlier work of this stream writes."""
    side = hpu.Stream()
    x = torch.zeros(1000, device="hpu")
    cache_output_metadata(lambda: x.add_(rank + 1).add_(-rank - 1))
    with hpu.stream(side):
        gate = C.Gate()
        gate.enqueue()
        x.add_(rank + 1)
        work = dist.all_reduce(x, async_op=True)
        gate.open()
    work.wait()  # makes the default stream wait for the collective
    assert torch.equal((x + 0).cpu(), torch.full((1000,), size * (size + 1) / 2))


def check_freed_tensors_are_retained(rank, size):
    for _ in range(20):
        x = torch.full((50_000,), rank + 1.0, device="hpu")
        out = torch.empty(50_000 * size, device="hpu")
        work = dist.all_gather_into_tensor(out, x, async_op=True)
        del x
        other_tensors = [torch.full((50_000,), 77.0, device="hpu") for _ in range(4)]
        work.wait()
        wanted = torch.cat([torch.full((50_000,), peer + 1.0) for peer in range(size)])
        assert torch.equal(out.cpu(), wanted)
        del other_tensors, work, out


def check_future_of_collective(rank, size):
    x = torch.full((8,), rank + 1.0, device="hpu")
    future = dist.all_reduce(x, async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2)
    assert torch.equal(doubled.wait().cpu(), torch.full((8,), size * (size + 1.0)))


def check_barrier_blocks_the_host(rank, size):
    """Check that a barrier blocks the host: no rank continues before the last rank arrives."""
    store = dist.distributed_c10d._get_default_store()
    if rank == size - 1:
        time.sleep(0.5)
        store.set("last", "here")
    dist.barrier()
    assert store.check(["last"])


def check_collectives_in_subgroups(rank, size):
    pair = dist.new_group([0, size - 1])
    alone = [dist.new_group([member]) for member in range(size)]
    x = torch.full((3,), rank + 1.0, device="hpu")
    dist.all_reduce(x, group=alone[rank])
    if rank in (0, size - 1):
        dist.all_reduce(x, group=pair)
        assert torch.equal(x.cpu(), torch.full((3,), 1.0 + size))
    else:
        assert torch.equal(x.cpu(), torch.full((3,), rank + 1.0))
    dist.barrier()


def destroy_and_recreate_group(rank, size):
    """Check that a group can be destroyed and created again."""
    store = dist.distributed_c10d._get_default_store()
    for turn in range(5):
        dist.destroy_process_group()
        dist.init_process_group("hccl", store=dist.PrefixStore(str(turn), store), rank=rank, world_size=size)
        x = torch.ones(2, device="hpu")
        dist.all_reduce(x)
        assert x.sum().item() == 2.0 * size


def test_host_does_not_wait(on_ranks):
    on_ranks(check_host_does_not_wait)


def test_collective_sends_the_values_at_issue(on_ranks):
    on_ranks(check_side_stream_order)


def test_memory_is_kept(on_ranks):
    on_ranks(check_freed_tensors_are_retained)


def test_futures(on_ranks):
    on_ranks(check_future_of_collective)


def test_barriers(on_ranks):
    on_ranks(check_barrier_blocks_the_host, 3)


def test_subgroups(on_ranks):
    on_ranks(check_collectives_in_subgroups, 3)


def test_group_can_be_recreated(on_ranks):
    on_ranks(destroy_and_recreate_group)
