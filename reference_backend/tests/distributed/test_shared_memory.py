"""Test collectives in memory that the ranks of one machine share: values, and errors when a rank fails."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import os
import random
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
#: Element counts: 0, 1 and odd counts; two counts for which a collective is small in narrow dtypes and large
#: in wide dtypes; and a count of several chunks.
COUNTS = (0, 1, 7, 1025, 262_144, 262_145, 900_001)


def uses_shared_memory(group=None):
    backend = (group or dist.group.WORLD)._get_backend(torch.device("hpu"))
    return C.shares_memory(backend)


def values_of_rank(count, dtype, rank):
    """Return the values of a rank. Their sum over the ranks depends on the order of the additions."""
    generator = torch.Generator().manual_seed(1000 * rank + count)
    if dtype in WHOLE:
        return torch.randint(0, 120, (count,), generator=generator).to(dtype)
    return (torch.randn(count, generator=generator) * 3).to(dtype)


def reduce_in_rank_order(count, dtype, operation, size):
    """Return the documented result: the values of all ranks, reduced in rank order.

    16-bit floats are reduced in float32 and rounded once at the end.
    """
    combine = {
        dist.ReduceOp.SUM: torch.add,
        dist.ReduceOp.PRODUCT: torch.mul,
        dist.ReduceOp.MIN: torch.minimum,
        dist.ReduceOp.MAX: torch.maximum,
    }[operation]
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    result = values_of_rank(count, dtype, 0).to(wide)
    for rank in range(1, size):
        result = combine(result, values_of_rank(count, dtype, rank).to(wide))
    return result.to(dtype)


def check_all_reduce_bits(rank, size):
    """Check the result bit for bit on every rank, for all dtypes, element counts and reductions."""
    assert uses_shared_memory()
    for dtype, count, operation in itertools.product((*FLOATS, *WHOLE), COUNTS, OPERATIONS):
        tensor = values_of_rank(count, dtype, rank).to("hpu")
        dist.all_reduce(tensor, operation)
        assert torch.equal(tensor.cpu(), reduce_in_rank_order(count, dtype, operation, size)), (
            dtype,
            count,
            operation,
        )


def compare_all_reduce_with_gloo(rank, size):
    gloo = dist.new_group(backend="gloo")
    for dtype, count in itertools.product(FLOATS, COUNTS):
        host = values_of_rank(count, dtype, rank)
        tensor = host.to("hpu")
        dist.all_reduce(host, group=gloo)
        dist.all_reduce(tensor)
        wide = dtype in (torch.float32, torch.float64)  # gloo rounds 16-bit floats after each addition
        tolerance = {} if wide else {"rtol": 0.02, "atol": 0.2 if dtype == torch.bfloat16 else 0.02}
        torch.testing.assert_close(tensor.cpu(), host, **tolerance)


def check_special_values(rank, size):
    """Check all-reduce of a tensor that is NaN on one rank, of a part of a larger tensor, and of a scalar."""
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


def run_many_pending_calls(rank, size):
    """Issue many calls in several groups and sizes, and wait for the calls in reverse order."""
    groups = [dist.group.WORLD, dist.new_group(list(range(size))), dist.new_group([0, size - 1])]
    assert uses_shared_memory(groups[1])
    works = []
    for number in range(60):
        for index, group in enumerate(groups):
            if index == 2 and rank not in (0, size - 1):
                continue
            members = 2 if index == 2 else size
            count = (5, 300, 400_000)[(number + index) % 3]
            tensor = torch.full((count,), float(number), device="hpu")
            works.append((dist.all_reduce(tensor, group=group, async_op=True), tensor, members * number))
    for work, tensor, expected in reversed(works):
        work.wait()
        assert (tensor == expected).all().item()


def use_groups_in_opposite_orders(rank, size):
    """Call all-reduce in two groups, in opposite orders on neighbouring ranks.

    Then rank 0 calls all-reduce before a barrier of the hosts. The other ranks call it after the barrier.
    """
    first_group, two = dist.new_group(list(range(size))), dist.new_group(list(range(size)))
    gloo = dist.new_group(backend="gloo")
    for turn, count in itertools.product(range(20), (4, 1_000_000)):
        first, second = torch.ones(count, device="hpu"), torch.full((count,), 2.0, device="hpu")
        order = [(first, first_group), (second, two)]
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


def reduce_in_threads(rank, size):
    """Call all-reduce in four threads, each with its own group and stream.

    On a shared stream, all ranks would have to issue the calls in the same order.
    """
    groups = [dist.new_group(list(range(size))) for _ in range(4)]
    checks = []

    def reduce_in_thread(group, value):
        with torch.hpu.stream(torch.hpu.Stream()):
            for count in (3, 1000, 600_000) * 10:
                tensor = torch.full((count,), value, device="hpu")
                dist.all_reduce(tensor, group=group)
                checks.append((tensor == value * size).all().item())

    threads = [threading.Thread(target=reduce_in_thread, args=(g, i + 1.0)) for i, g in enumerate(groups)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert checks == [True] * 120


def check_late_ranks(rank, size):
    """Let one rank arrive late at each collective, and check that the hosts of the other ranks continue."""
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


def check_shared_memory_is_unused(rank, size):
    assert not uses_shared_memory() and not uses_shared_memory(dist.new_group(list(range(size))))
    for count in (4, 1_000_000):
        tensor = torch.full((count,), rank + 1.0, device="hpu")
        dist.all_reduce(tensor)
        assert tensor[-1].item() == size * (size + 1) / 2


def disable_shared_memory_on_one_rank(rank, size):
    """Disable the shared memory on one rank, so that no rank uses it."""
    os.environ["HPU_REFERENCE_SHARED_COLLECTIVES"] = "0" if rank == size - 1 else "1"
    group = dist.new_group(list(range(size)))
    assert uses_shared_memory() and not uses_shared_memory(group)
    for count in (4, 1_000_000):
        tensor = torch.full((count,), rank + 1.0, device="hpu")
        dist.all_reduce(tensor, group=group)
        assert tensor[-1].item() == size * (size + 1) / 2


def reduce_in_group_of_one_rank(rank, size):
    group = [dist.new_group([member]) for member in range(size)][rank]
    for count in (0, 4, 1_000_000):
        tensor = torch.full((count,), 3.0, device="hpu")
        dist.all_reduce(tensor, group=group)
        assert (tensor == 3).all().item()


def check_mismatched_tensors(rank, size):
    """Check that ranks with different tensors get an immediate error, and that the group still works."""
    for mine, theirs in (
        (torch.ones(4), torch.ones(5)),
        (torch.ones(4), torch.ones(4, dtype=torch.int32)),
        (torch.ones(4), torch.ones(1_000_000)),
        (torch.ones(2_000_000), torch.ones(1_000_000)),
    ):
        tensor = (mine if rank == 0 else theirs).to("hpu")
        start = time.monotonic()
        with pytest.raises(dist.DistBackendError, match=r"ALLREDUCE .*rank 1 has ALLREDUCE of .*"):
            dist.all_reduce(tensor)
            tensor.cpu()
        assert time.monotonic() - start < 20
        tensor = torch.ones(3, device="hpu")
        dist.all_reduce(tensor)
        assert tensor.tolist() == [size] * 3


#: Element counts of a part: 0, two small parts, and a part that is too large for the group's shared memory.
PART_COUNTS = (0, 6, 30_000, 500_001)


def check_input_inside_output(rank, size):
    """Check collectives whose input is a part of the output, or whose output is a part of the input."""
    for count in PART_COUNTS:
        every = [values_of_rank(count, torch.float32, peer) for peer in range(size)]
        gathered = torch.full((size, count), -1.0, device="hpu")
        gathered[rank] = every[rank].to("hpu")
        dist.all_gather_into_tensor(gathered, gathered[rank])
        assert torch.equal(gathered.cpu(), torch.stack(every)), count
        whole = torch.stack([part + rank for part in every]).to("hpu")
        dist.reduce_scatter_tensor(whole[rank], whole)
        reduced = every[rank].clone()
        for peer in range(1, size):
            reduced += every[rank] + peer
        assert torch.equal(whole[rank].cpu(), reduced), count
        other_ranks = [peer for peer in range(size) if peer != rank]
        unchanged = torch.stack([every[peer] + rank for peer in other_ranks])
        assert torch.equal(whole[other_ranks].cpu(), unchanged)


def check_overlapping_tensors(rank, size):
    """Check collectives whose output overlaps the parts to send. Ranks pause at random."""
    pauses = random.Random(rank)
    for count, _ in itertools.product(PART_COUNTS, range(5)):

        def pause():
            torch.hpu.synchronize()
            if pauses.random() < 0.5:
                time.sleep(0.005)

        every = [values_of_rank(count, torch.float32, peer) for peer in range(size)]
        whole = torch.full((size, count), -1.0, device="hpu")
        whole[0] = every[rank].to("hpu")
        pause()
        dist.all_gather_into_tensor(whole, whole[0])  # on every rank, the input is part 0 of the output
        assert torch.equal(whole.cpu(), torch.stack(every)), count

        whole = torch.stack([part + rank for part in every]).to("hpu")
        pause()
        dist.reduce_scatter_tensor(whole[0], whole)
        reduced = every[rank].clone()
        for peer in range(1, size):
            reduced += every[rank] + peer
        assert torch.equal(whole[0].cpu(), reduced), count

        whole = torch.stack([part + rank for part in every]).to("hpu")
        pause()
        dist.all_to_all_single(whole, whole)
        assert torch.equal(whole.cpu(), torch.stack([every[rank] + peer for peer in range(size)])), count

        mine = every[rank].to("hpu")
        empty_parts = [torch.empty(count, device="hpu") for _ in range(size - 1)]
        parts = [mine, *empty_parts] if rank == size - 1 else None
        pause()
        dist.gather(mine, parts, size - 1)
        if parts is not None:
            assert torch.equal(torch.stack(parts).cpu(), torch.stack(every)), count


def call_random_collectives(rank, size):
    """Call collectives of random kinds, sizes and roots without waiting. Ranks pause at random.

    All ranks choose the calls with the same seed.
    """
    calls = random.Random(7)
    pauses = random.Random(rank)
    checks = []
    for number in range(240):
        kind, root = calls.choice(range(8)), calls.randrange(size)
        count = calls.choice((1, 17, 3000, 3000, 400_000) if number % 10 == 0 else (1, 17, 3000))

        def values(peer, number=number, count=count):
            return torch.arange(float(count)) + 1000 * peer + number

        mine, every = values(rank).to("hpu"), [values(peer) for peer in range(size)]
        parts = [torch.full((count,), -1.0, device="hpu") for _ in range(size)]
        total = torch.stack(every).sum(0)
        if kind == 0:
            dist.broadcast(mine, root)
            checks.append((mine, every[root]))
        elif kind == 1:
            dist.reduce(mine, root)
            checks.append((mine, total if rank == root else every[rank]))
        elif kind == 2:
            dist.all_gather(parts, mine)
            checks.append((torch.stack(parts), torch.stack(every)))
        elif kind == 3:
            dist.gather(mine, parts if rank == root else None, root)
            checks += list(zip(parts, every, strict=True)) if rank == root else []
        elif kind == 4:
            dist.scatter(parts[0], [mine + peer for peer in range(size)] if rank == root else None, root)
            checks.append((parts[0], every[root] + rank))
        elif kind == 5:
            dist.reduce_scatter(parts[0], [mine + peer for peer in range(size)])
            checks.append((parts[0], total + size * rank))
        elif kind == 6:
            dist.all_to_all(parts, [mine + peer for peer in range(size)])
            checks.append((torch.stack(parts), torch.stack(every) + rank))
        else:
            dist.all_reduce(mine)
            checks.append((mine, total))
        if pauses.random() < 0.05:
            time.sleep(0.01)
    for actual, correct in checks:
        assert torch.equal(actual.cpu(), correct)


def check_coalesced_collectives(rank, size):
    """Check collectives that a coalescing manager joins, with small and large tensors."""
    counts = (3, 500_000, 0, 40)
    inputs = [values_of_rank(count, torch.float32, rank).to("hpu") for count in counts]
    outputs = [torch.empty(size, count, device="hpu") for count in counts]
    with dist._coalescing_manager():
        for output, part in zip(outputs, inputs, strict=True):
            dist.all_gather_into_tensor(output, part)
    for count, output in zip(counts, outputs, strict=True):
        every = [values_of_rank(count, torch.float32, peer) for peer in range(size)]
        assert torch.equal(output.cpu(), torch.stack(every))
    with dist._coalescing_manager():
        for part, output in zip(inputs, outputs, strict=True):
            dist.reduce_scatter_tensor(part, output)
    for count, part in zip(counts, inputs, strict=True):
        wide = values_of_rank(count, torch.float32, rank)
        total = wide.clone()
        for _ in range(size - 1):
            total += wide
        assert torch.equal(part.cpu(), total)


def check_mismatched_collectives(rank, size):
    """Check that ranks whose collectives differ get an immediate error, and that the group still works."""
    three, four = torch.ones(3, device="hpu"), torch.ones(4, device="hpu")
    large = torch.ones(1_000_000, device="hpu")

    def gather(tensor):
        dist.all_gather([tensor.clone() for _ in range(size)], tensor)

    # Each case: the call of rank 0, the call of the other ranks, and the number of ranks that get the error.
    # A rank that only sends a small part does not wait for the other ranks, and gets no error.
    for first, other, waiting_ranks in (
        (lambda: dist.all_reduce(three), lambda: gather(three), size),
        (lambda: gather(three), lambda: gather(four), size),
        (lambda: dist.reduce(three, 0), lambda: dist.reduce(three.int(), 0), 1),
        (
            lambda: dist.all_to_all_single(four, four.clone()),
            lambda: dist.all_to_all_single(large, large.clone()),
            size,
        ),
    ):
        start = time.monotonic()
        is_error_due = rank < waiting_ranks
        with (
            pytest.raises(dist.DistBackendError, match=r"collectives or tensors differ: .*rank 1 has ")
            if is_error_due
            else contextlib.nullcontext()
        ):
            (first if rank == 0 else other)()
            torch.hpu.synchronize()
        assert time.monotonic() - start < 20
        tensor = torch.ones(3, device="hpu")
        dist.all_reduce(tensor)
        assert tensor.tolist() == [size] * 3


def check_ranks_that_only_send(rank, size):
    """Let each rank broadcast with itself as the root, so that every rank sends and no rank receives.

    Check that the next collective raises an error, and that later collectives work.
    """
    tensor = torch.full((3,), float(rank), device="hpu")
    dist.broadcast(tensor, rank)
    torch.hpu.synchronize()
    with pytest.raises(dist.DistBackendError, match=r"in the collective before, .*BROADCAST .*root 1"):
        dist.all_reduce(tensor)
        torch.hpu.synchronize()
    dist.all_reduce(tensor)
    assert tensor.tolist() == [sum(range(size))] * 3


def check_coalesced_against_single_calls(rank, size):
    """Check the error if rank 0 reduces a list of tensors and each other rank reduces a single tensor.

    Later collectives must work.
    """
    tensors = [torch.ones(3, device="hpu"), torch.ones(4, device="hpu")]
    with pytest.raises(dist.DistBackendError, match=r"differ: .*a list of 2 tensors"):
        if rank == 0:
            with dist._coalescing_manager():
                for tensor in tensors:
                    dist.all_reduce(tensor)
        else:
            dist.all_reduce(tensors[0])
        torch.hpu.synchronize()
    dist.all_reduce(tensors[1])
    assert tensors[1].tolist() == [size] * 4


def shared_memory_file_names():
    return {path.name for path in Path("/dev/shm").iterdir()}


def kill_one_rank(rank, size):
    """Kill a rank during its collectives. The remaining ranks end long before the timeout."""
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


def check_hanging_rank(rank, size):
    """Check that a hanging rank delays the other ranks only until the timeout of the collective."""
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


def hang_one_rank(rank, size):
    if rank == 1:
        dist.distributed_c10d._get_default_store().set("pid", str(os.getpid()))
    check_hanging_rank(rank, size)


def abort_pending_collective(rank, size):
    """Abort the waiting collective of rank 0. Check the errors on rank 0 and on the other ranks."""
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
        with pytest.raises(dist.DistBackendError, match="rank 0 has aborted a collective"):
            dist.all_reduce(tensor)
            tensor.cpu()
    os._exit(0)


def check_rank_that_destroyed_its_group(rank, size):
    """Check that the error names a rank that destroyed its group while its process lives on."""
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


def check_fork_of_a_rank(rank, size):
    """Check that a forked child of a rank does not map the shared memory.

    The other ranks must not treat the exit of the child as the exit of the rank.
    """
    tensor = torch.ones(4, device="hpu")
    dist.all_reduce(tensor)
    large = torch.ones(1_000_000, device="hpu")
    dist.all_reduce(large)
    large.cpu(), tensor.cpu()  # the child has no thread that could finish pending work
    child = os.fork()
    if child == 0:
        maps = Path("/proc/self/maps").read_text()
        os._exit(2 if "hpu-ranks" in maps or "hpu-device" in maps else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    dist.all_reduce(tensor)
    assert tensor.tolist() == [size**2] * 4


def check_groups_free_shared_memory(rank, size):
    """Check that groups free their shared memory."""

    def mapping_count():
        return Path("/proc/self/maps").read_text().count("hpu-ranks")

    tensor = torch.ones(1_000_000, device="hpu")
    dist.all_reduce(tensor)
    tensor.cpu()
    before = mapping_count(), len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        group = dist.new_group(list(range(size)))
        dist.all_reduce(tensor, group=group)
        tensor.cpu()
        dist.destroy_process_group(group)
        del group
    tensor.cpu()
    assert mapping_count() == before[0] >= 1
    dist.barrier()


#: Three ranks have a first, a middle and a last rank. Other world sizes use the same code path.
SIZES = [
    3,
    *(pytest.param(size, marks=pytest.mark.nightly("uses the code path of three ranks")) for size in (2, 4)),
]


@pytest.mark.parametrize("size", SIZES)
def test_values_are_reduced_in_rank_order(on_ranks, size):
    on_ranks(check_all_reduce_bits, size)


@pytest.mark.parametrize("size", SIZES[:2])
def test_results_match_gloo(on_ranks, size):
    on_ranks(compare_all_reduce_with_gloo, size)


def test_special_values_and_views(on_ranks):
    on_ranks(check_special_values, 3)


@pytest.mark.parametrize("size", SIZES[:2])
def test_many_pending_calls(on_ranks, size):
    on_ranks(run_many_pending_calls, size)


def test_groups_in_opposite_orders(on_ranks):
    on_ranks(use_groups_in_opposite_orders)


def test_threads(on_ranks):
    on_ranks(reduce_in_threads)


@pytest.mark.parametrize("order", ["memory", "events"])
def test_late_ranks(on_ranks, order):
    on_ranks(check_late_ranks, 3, HPU_REFERENCE_STREAM_ORDER=order)


def test_disabled_by_a_variable(on_ranks):
    on_ranks(check_shared_memory_is_unused, HPU_REFERENCE_SHARED_COLLECTIVES="0")


def test_disabled_on_one_rank(on_ranks):
    on_ranks(disable_shared_memory_on_one_rank, 3)


def test_a_group_of_one_rank(on_ranks):
    on_ranks(reduce_in_group_of_one_rank)


def test_parts_of_one_tensor(on_ranks):
    on_ranks(check_input_inside_output, 3)


@pytest.mark.parametrize("order", ["memory", "events"])
@pytest.mark.parametrize("size", [2, 3])
def test_random_collectives(on_ranks, size, order):
    on_ranks(call_random_collectives, size, HPU_REFERENCE_STREAM_ORDER=order)


def test_lists(on_ranks):
    on_ranks(check_coalesced_collectives, 3)


def test_overlapping_tensors(on_ranks):
    on_ranks(check_overlapping_tensors, 3)


def test_calls_that_only_send(on_ranks):
    on_ranks(check_ranks_that_only_send)


def test_a_list_against_single_calls(on_ranks):
    on_ranks(check_coalesced_against_single_calls)


def test_different_collectives_raise(on_ranks):
    on_ranks(check_mismatched_collectives)


def test_calls_with_different_tensors_raise(on_ranks):
    on_ranks(check_mismatched_tensors)


@pytest.mark.parametrize("count", [4, 4_000_000])
def test_a_rank_that_is_killed(on_ranks, count):
    before = shared_memory_file_names()
    ended = on_ranks(kill_one_rank, 3, fails=(1,), TEST_COUNT=str(count))
    assert ended[1].code == -signal.SIGKILL
    assert shared_memory_file_names() <= before


@pytest.mark.parametrize("count", [4, 1_000_000])
def test_a_rank_that_hangs(on_ranks, count):
    ended = on_ranks(hang_one_rank, fails=(1,), TEST_COUNT=str(count))
    assert ended[1].code == -signal.SIGKILL


@pytest.mark.parametrize("count", [4, 1_000_000])
def test_an_abort_while_waiting(on_ranks, count):
    on_ranks(abort_pending_collective, TEST_COUNT=str(count))


def test_a_rank_that_leaves(on_ranks):
    on_ranks(check_rank_that_destroyed_its_group)


def test_a_fork_of_a_rank(on_ranks):
    on_ranks(check_fork_of_a_rank)


def test_groups_free_their_memory(on_ranks):
    on_ranks(check_groups_free_shared_memory)
