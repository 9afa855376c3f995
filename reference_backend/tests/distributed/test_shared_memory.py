"""All-reduce in the memory that ranks of one machine share: values, and what happens when a rank fails."""

from __future__ import annotations

import datetime
import itertools
import os
import signal
import threading
import time
from pathlib import Path

import habana_frameworks.torch as ht
import pytest
import torch
import torch.distributed as dist

C = ht._C

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
WHOLE = (torch.uint8, torch.int8, torch.int32, torch.int64)
OPERATIONS = (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX)
#: Elements: none, one, odd, the largest that is small for one dtype and not for others, several chunks.
COUNTS = (0, 1, 7, 1025, 262_144, 262_145, 900_001)


def shared(group=None):
    backend = (group or dist.group.WORLD)._get_backend(torch.device("hpu"))
    return C.shares_memory(backend)


def part(count, dtype, rank):
    """Numbers of a rank whose sum depends on the order in which it is made."""
    generator = torch.Generator().manual_seed(1000 * rank + count)
    if dtype in WHOLE:
        return torch.randint(0, 120, (count,), generator=generator).to(dtype)
    return (torch.randn(count, generator=generator) * 3).to(dtype)


def in_rank_order(count, dtype, operation, size):
    """The result by the documented rule: in the order of ranks, 16-bit floats in float32, rounded once."""
    combine = {
        dist.ReduceOp.SUM: torch.add,
        dist.ReduceOp.PRODUCT: torch.mul,
        dist.ReduceOp.MIN: torch.minimum,
        dist.ReduceOp.MAX: torch.maximum,
    }[operation]
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    result = part(count, dtype, 0).to(wide)
    for rank in range(1, size):
        result = combine(result, part(count, dtype, rank).to(wide))
    return result.to(dtype)


def values(rank, size):
    """To the bit, on every rank; every call on the stream and in the queue."""
    assert shared()
    for dtype, count, operation in itertools.product((*FLOATS, *WHOLE), COUNTS, OPERATIONS):
        tensor = part(count, dtype, rank).to("hpu")
        dist.all_reduce(tensor, operation)
        assert torch.equal(tensor.cpu(), in_rank_order(count, dtype, operation, size)), (
            dtype,
            count,
            operation,
        )


def beside_gloo(rank, size):
    gloo = dist.new_group(backend="gloo")
    for dtype, count in itertools.product(FLOATS, COUNTS):
        host = part(count, dtype, rank)
        tensor = host.to("hpu")
        dist.all_reduce(host, group=gloo)
        dist.all_reduce(tensor)
        wide = dtype in (torch.float32, torch.float64)  # gloo rounds 16-bit floats after each addition
        tolerance = {} if wide else {"rtol": 0.02, "atol": 0.2 if dtype == torch.bfloat16 else 0.02}
        torch.testing.assert_close(tensor.cpu(), host, **tolerance)


def specials(rank, size):
    """A NaN of any rank stays; parts of a larger tensor; a scalar."""
    for bad, operation in itertools.product(range(size), OPERATIONS):
        tensor = torch.full((3,), float("nan") if rank == bad else 1.0, device="hpu")
        dist.all_reduce(tensor, operation)
        assert tensor.isnan().all().item()
    for count in (64, 400_000):
        whole = torch.full((count + 10,), -1.0, device="hpu")
        dist.all_reduce(whole[3 : count + 3].fill_(rank + 1.0))
        assert whole[:3].tolist() == [-1.0] * 3 and whole[count + 3 :].tolist() == [-1.0] * 7
        assert (whole[3 : count + 3] == size * (size + 1) / 2).all().item()
    scalar = torch.tensor(rank == 0, device="hpu")
    dist.all_reduce(scalar)
    assert scalar.item() is True


def many_at_once(rank, size):
    """Several groups and sizes, many on their way, waited for in another order."""
    groups = [dist.group.WORLD, dist.new_group(list(range(size))), dist.new_group([0, size - 1])]
    assert shared(groups[1])
    works = []
    for number in range(60):
        for index, group in enumerate(groups):
            if index == 2 and rank not in (0, size - 1):
                continue
            members = 2 if index == 2 else size
            count = (5, 300, 400_000)[(number + index) % 3]
            tensor = torch.full((count,), float(number), device="hpu")
            works.append((dist.all_reduce(tensor, group=group, async_op=True), tensor, members * number))
    for work, tensor, due in reversed(works):
        work.wait()
        assert (tensor == due).all().item()


def other_order(rank, size):
    """Two groups in opposite orders, and a collective that others join only after a message of the host."""
    one, two = dist.new_group(list(range(size))), dist.new_group(list(range(size)))
    gloo = dist.new_group(backend="gloo")
    for turn, count in itertools.product(range(20), (4, 1_000_000)):
        first, second = torch.ones(count, device="hpu"), torch.full((count,), 2.0, device="hpu")
        order = [(first, one), (second, two)]
        works = [
            dist.all_reduce(tensor, group=group, async_op=True)
            for tensor, group in (order if (rank + turn) % 2 else reversed(order))
        ]
        for work in works:
            work.wait()
        assert first[-1].item() == size and second[0].item() == 2 * size
    tensor = torch.ones(4, device="hpu")
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        dist.barrier(group=gloo)
    else:
        dist.barrier(group=gloo)
        work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    assert tensor.tolist() == [size] * 4


def from_threads(rank, size):
    """Each thread has a group and a stream of its own: on one stream all ranks would need one order."""
    groups = [dist.new_group(list(range(size))) for _ in range(4)]
    found = []

    def reduce(group, value):
        with torch.hpu.stream(torch.hpu.Stream()):
            for count in (3, 1000, 600_000) * 10:
                tensor = torch.full((count,), value, device="hpu")
                dist.all_reduce(tensor, group=group)
                found.append((tensor == value * size).all().item())

    threads = [threading.Thread(target=reduce, args=(g, i + 1.0)) for i, g in enumerate(groups)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 120


def late_ranks(rank, size):
    """Ranks that come long after the first; the host of those goes on meanwhile."""
    for turn, count in enumerate((4, 500_000, 4, 500_000)):
        tensor = torch.full((count,), 1.0, device="hpu")
        if turn % size == rank:
            time.sleep(0.4)
        start = time.monotonic()
        work = dist.all_reduce(tensor, async_op=True)
        assert time.monotonic() - start < 0.3
        work.wait()
        later = tensor * 2
        assert later[-1].item() == 2 * size


def stays_with_gloo(rank, size):
    assert not shared() and not shared(dist.new_group(list(range(size))))
    for count in (4, 1_000_000):
        tensor = torch.full((count,), rank + 1.0, device="hpu")
        dist.all_reduce(tensor)
        assert tensor[-1].item() == size * (size + 1) / 2


def unlike_ranks(rank, size):
    """One rank has the shared memory switched off: none uses it."""
    os.environ["HPU_REFERENCE_SHARED_REDUCE"] = "0" if rank == size - 1 else "1"
    group = dist.new_group(list(range(size)))
    assert shared() and not shared(group)
    for count in (4, 1_000_000):
        tensor = torch.full((count,), rank + 1.0, device="hpu")
        dist.all_reduce(tensor, group=group)
        assert tensor[-1].item() == size * (size + 1) / 2


def alone(rank, size):
    group = [dist.new_group([other]) for other in range(size)][rank]
    for count in (0, 4, 1_000_000):
        tensor = torch.full((count,), 3.0, device="hpu")
        dist.all_reduce(tensor, group=group)
        assert (tensor == 3).all().item()


def unlike_calls(rank, size):
    """Ranks that bring different tensors get an error at once, and the group goes on."""
    for mine, other in (
        (torch.ones(4), torch.ones(5)),
        (torch.ones(4), torch.ones(4, dtype=torch.int32)),
        (torch.ones(4), torch.ones(1_000_000)),
        (torch.ones(2_000_000), torch.ones(1_000_000)),
    ):
        tensor = (mine if rank == 0 else other).to("hpu")
        start = time.monotonic()
        with pytest.raises(dist.DistBackendError, match=r"ALLREDUCE .*rank 1 has .* bytes of"):
            dist.all_reduce(tensor)
            tensor.cpu()
        assert time.monotonic() - start < 20
        tensor = torch.ones(3, device="hpu")
        dist.all_reduce(tensor)
        assert tensor.tolist() == [size] * 3


def names_in_shared_memory():
    return {path.name for path in Path("/dev/shm").iterdir()}


def killed(rank, size):
    """A rank dies in the middle of its collectives: the others end long before the timeout."""
    count = int(os.environ["TEST_COUNT"])
    tensor = torch.ones(count, device="hpu")
    dist.all_reduce(tensor)
    tensor.cpu()
    if rank == 1:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
    start = time.monotonic()
    with pytest.raises(dist.DistBackendError, match=r"hccl: ALLREDUCE .* failed: no sign of rank"):
        while True:
            dist.all_reduce(tensor)
            tensor.cpu()
    assert time.monotonic() - start < 20
    with pytest.raises(dist.DistBackendError, match="ALLREDUCE"):
        dist.all_reduce(tensor)
        tensor.cpu()
    os._exit(0)


def stopped(rank, size):
    """A rank that stands still costs its timeout, no more."""
    tensor = torch.ones(int(os.environ["TEST_COUNT"]), device="hpu")
    dist.all_reduce(tensor)
    tensor.cpu()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    options = dist.AllreduceOptions()
    options.timeout = datetime.timedelta(seconds=2)
    start = time.monotonic()
    with pytest.raises(dist.DistBackendError, match=r"failed: no sign of rank 1.*timed out"):
        dist.group.WORLD.allreduce([tensor], options).wait()
        tensor.cpu()
    assert time.monotonic() - start < 15
    os.kill(int(dist.distributed_c10d._get_default_store().get("pid")), signal.SIGKILL)
    os._exit(0)


def stops(rank, size):
    if rank == 1:
        dist.distributed_c10d._get_default_store().set("pid", str(os.getpid()))
    stopped(rank, size)


def aborted(rank, size):
    """Another thread ends a collective that waits."""
    tensor = torch.ones(int(os.environ["TEST_COUNT"]), device="hpu")
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        time.sleep(0.3)
        assert not work.is_completed()
        start = time.monotonic()
        dist.group.WORLD._get_backend(torch.device("hpu")).abort()
        with pytest.raises(dist.DistBackendError, match="aborted"):
            work.wait()
            tensor.cpu()
        assert time.monotonic() - start < 10
        store.set("aborted", "yes")
    else:
        store.get("aborted")
        with pytest.raises(dist.DistBackendError, match="rank 0 has given up"):
            dist.all_reduce(tensor)
            tensor.cpu()
    os._exit(0)


def leaves(rank, size):
    """A rank whose group is gone, in a process that lives on, is named."""
    group = dist.new_group(list(range(size)))
    tensor = torch.ones(4, device="hpu")
    dist.all_reduce(tensor, group=group)
    tensor.cpu()
    if rank == 1:
        dist.destroy_process_group(group)
        del group
        dist.distributed_c10d._get_default_store().get("told")
    else:
        with pytest.raises(dist.DistBackendError, match="rank 1 has left the group"):
            dist.all_reduce(tensor, group=group)
            tensor.cpu()
        dist.distributed_c10d._get_default_store().set("told", "yes")
    os._exit(0)


def forks(rank, size):
    """A child of a rank does not have the memory, and its end is not taken for that of the rank."""
    tensor = torch.ones(4, device="hpu")
    dist.all_reduce(tensor)
    large = torch.ones(1_000_000, device="hpu")
    dist.all_reduce(large)
    large.cpu(), tensor.cpu()  # the child has no thread that would end what is on its way
    child = os.fork()
    if child == 0:
        maps = Path("/proc/self/maps").read_text()
        os._exit(2 if "hpu-ranks" in maps or "hpu-device" in maps else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    dist.all_reduce(tensor)
    assert tensor.tolist() == [size**2] * 4


def memory_of_groups(rank, size):
    """Groups give their memory back."""

    def views():
        return Path("/proc/self/maps").read_text().count("hpu-ranks")

    tensor = torch.ones(1_000_000, device="hpu")
    dist.all_reduce(tensor)
    tensor.cpu()
    before = views(), len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        group = dist.new_group(list(range(size)))
        dist.all_reduce(tensor, group=group)
        tensor.cpu()
        dist.destroy_process_group(group)
        del group
    tensor.cpu()
    assert views() == before[0] >= 1
    dist.barrier()


#: Three ranks have a first, a middle and a last one. Other sizes of a world take the same way.
SIZES = [3, *(pytest.param(size, marks=pytest.mark.nightly("as with three ranks")) for size in (2, 4))]


@pytest.mark.parametrize("size", SIZES)
def test_values_in_the_order_of_ranks(on_ranks, size):
    on_ranks(values, size)


@pytest.mark.parametrize("size", SIZES[:2])
def test_beside_gloo(on_ranks, size):
    on_ranks(beside_gloo, size)


def test_special_values_and_views(on_ranks):
    on_ranks(specials, 3)


@pytest.mark.parametrize("size", SIZES[:2])
def test_many_at_once(on_ranks, size):
    on_ranks(many_at_once, size)


def test_groups_in_opposite_orders(on_ranks):
    on_ranks(other_order)


def test_threads(on_ranks):
    on_ranks(from_threads)


@pytest.mark.parametrize("order", ["memory", "events"])
def test_ranks_that_come_late(on_ranks, order):
    on_ranks(late_ranks, 3, HPU_REFERENCE_STREAM_ORDER=order)


def test_switched_off(on_ranks):
    on_ranks(stays_with_gloo, HPU_REFERENCE_SHARED_REDUCE="0")


def test_switched_off_on_one_rank(on_ranks):
    on_ranks(unlike_ranks, 3)


def test_a_group_of_one_rank(on_ranks):
    on_ranks(alone)


def test_calls_that_differ(on_ranks):
    on_ranks(unlike_calls)


@pytest.mark.parametrize("count", [4, 4_000_000])
def test_a_rank_that_is_killed(on_ranks, count):
    before = names_in_shared_memory()
    ended = on_ranks(killed, 3, fails=(1,), TEST_COUNT=str(count))
    assert ended[1].code == -signal.SIGKILL
    assert names_in_shared_memory() <= before


@pytest.mark.parametrize("count", [4, 1_000_000])
def test_a_rank_that_stands_still(on_ranks, count):
    ended = on_ranks(stops, fails=(1,), TEST_COUNT=str(count))
    assert ended[1].code == -signal.SIGKILL


@pytest.mark.parametrize("count", [4, 1_000_000])
def test_an_abort_while_waiting(on_ranks, count):
    on_ranks(aborted, TEST_COUNT=str(count))


def test_a_rank_that_leaves(on_ranks):
    on_ranks(leaves)


def test_a_forked_child(on_ranks):
    on_ranks(forks)


def test_groups_return_their_memory(on_ranks):
    on_ranks(memory_of_groups)
