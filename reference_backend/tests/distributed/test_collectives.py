"""Test that each collective gives the arithmetic result, for all documented dtypes and reductions."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.distributed as dist

DTYPES = (
    torch.uint8,
    torch.int8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.bool,
)
MOVED_DTYPES = (*DTYPES, torch.float8_e4m3fn, torch.float8_e5m2)
SHAPES = ((5,), (0,), (2, 3), (), (1025,))
#: A shape that is too large for the shared memory of a process group, and the dtypes that are tested with
#: this shape.
LARGE_SHAPE = (1101, 1001)
LARGE_DTYPES = (torch.int8, torch.bfloat16, torch.float32)
REDUCTIONS = {
    dist.ReduceOp.SUM: lambda parts: parts.sum(0),
    dist.ReduceOp.PRODUCT: lambda parts: parts.prod(0),
    dist.ReduceOp.MIN: lambda parts: parts.amin(0),
    dist.ReduceOp.MAX: lambda parts: parts.amax(0),
}


def values_of_rank(shape, dtype, rank):
    """Return small whole numbers that depend on the rank. Every dtype represents them exactly."""
    values = torch.randint(
        0, 2 if dtype == torch.bool else 4, shape, generator=torch.Generator().manual_seed(rank)
    )
    return values.to(torch.float32).to(dtype) if dtype in MOVED_DTYPES[9:] else values.to(dtype)


def expected_result(operation, shape, dtype, size):
    parts = torch.stack([values_of_rank(shape, dtype, rank).double() for rank in range(size)])
    result = REDUCTIONS[operation](parts)
    return (result != 0) if dtype == torch.bool else result.to(dtype)


def assert_equal_on_device(actual, correct):
    assert actual.device.type == "hpu"
    actual = actual.cpu()
    assert actual.dtype == correct.dtype
    if correct.dtype in MOVED_DTYPES[9:]:
        actual, correct = actual.view(torch.uint8), correct.view(torch.uint8)
    assert torch.equal(actual, correct), (actual, correct)


def check_reductions(rank, size):
    for dtype, shape, operation in itertools.product(DTYPES, SHAPES, REDUCTIONS):
        correct = expected_result(operation, shape, dtype, size)
        mine = values_of_rank(shape, dtype, rank)
        tensor = mine.to("hpu")
        dist.all_reduce(tensor, operation)
        assert_equal_on_device(tensor, correct)
        tensor = mine.to("hpu")
        dist.reduce(tensor, size - 1, operation)
        assert_equal_on_device(tensor, correct if rank == size - 1 else mine)
        if not shape:
            continue
        wide = values_of_rank((shape[0] * size, *shape[1:]), dtype, rank).to("hpu")
        out = torch.empty(shape, dtype=dtype, device="hpu")
        whole = expected_result(operation, wide.shape, dtype, size)
        dist.reduce_scatter_tensor(out, wide, operation)
        assert_equal_on_device(out, whole[rank * shape[0] : (rank + 1) * shape[0]])
        dist.reduce_scatter(out.zero_(), list(wide.chunk(size)) if shape[0] else [wide] * size, operation)
        assert_equal_on_device(out, whole[rank * shape[0] : (rank + 1) * shape[0]])


def check_data_movement(rank, size):
    large = itertools.product(LARGE_DTYPES, [LARGE_SHAPE])
    for dtype, shape in itertools.chain(itertools.product(MOVED_DTYPES, SHAPES), large):
        mine = values_of_rank(shape, dtype, rank)
        every = [values_of_rank(shape, dtype, peer) for peer in range(size)]
        tensor = mine.to("hpu")
        dist.broadcast(tensor, 1)
        assert_equal_on_device(tensor, every[1])
        lists = [torch.empty(shape, dtype=dtype, device="hpu") for _ in range(size)]
        dist.all_gather(lists, mine.to("hpu"))
        for actual, correct in zip(lists, every, strict=True):
            assert_equal_on_device(actual, correct)
        lists = [torch.empty(shape, dtype=dtype, device="hpu") for _ in range(size)] if rank == 1 else None
        dist.gather(mine.to("hpu"), lists, 1)
        for actual, correct in zip(lists or [], every, strict=False):
            assert_equal_on_device(actual, correct)
        scattered = [numbers_of_rank.to("hpu") for numbers_of_rank in every] if rank == 0 else None
        tensor = torch.empty(shape, dtype=dtype, device="hpu")
        dist.scatter(tensor, scattered, 0)
        assert_equal_on_device(tensor, every[rank])
        tensor = mine.to("hpu")
        if rank == 0:
            dist.send(tensor, 1, tag=3)
        elif rank == 1:
            dist.recv(tensor, 0, tag=3)
            assert_equal_on_device(tensor, every[0])
        outputs = [torch.empty(shape, dtype=dtype, device="hpu") for _ in range(size)]
        dist.all_to_all(outputs, [mine.to("hpu") for _ in range(size)])
        for actual, correct in zip(outputs, every, strict=True):
            assert_equal_on_device(actual, correct)
        if not shape:
            continue
        wide = torch.empty((shape[0] * size, *shape[1:]), dtype=dtype, device="hpu")
        dist.all_gather_into_tensor(wide, mine.to("hpu"))
        bits = (lambda t: t.view(torch.uint8)) if dtype in MOVED_DTYPES[9:] else (lambda t: t)
        assert_equal_on_device(
            wide, torch.cat([bits(numbers_of_rank) for numbers_of_rank in every]).view(dtype)
        )
        swapped = torch.empty_like(wide)
        dist.all_to_all_single(swapped, wide)
        first = wide.cpu().view(torch.uint8) if dtype in MOVED_DTYPES[9:] else wide.cpu()
        piece = first[rank * shape[0] : (rank + 1) * shape[0]]
        assert_equal_on_device(swapped, torch.cat([piece] * size).view(dtype))


def check_uneven_all_to_all(rank, size):
    splits = [rank + 1] * size
    mine = torch.arange(float((rank + 1) * size), device="hpu")
    out = torch.empty(sum(range(1, size + 1)), device="hpu")
    dist.all_to_all_single(out, mine, [peer + 1 for peer in range(size)], splits)
    correct = [
        torch.arange(float((peer + 1) * size))[rank * (peer + 1) : (rank + 1) * (peer + 1)]
        for peer in range(size)
    ]
    assert_equal_on_device(out, torch.cat(correct))


def check_object_collectives(rank, size):
    gathered = [None] * size
    dist.all_gather_object(gathered, {"rank": rank})
    assert gathered == [{"rank": peer} for peer in range(size)]
    objects_sent = [{"a": 1}, "b"] if rank == 0 else [None, None]
    dist.broadcast_object_list(objects_sent, 0)
    assert objects_sent == [{"a": 1}, "b"]
    dist.barrier()


def check_batch_isend_irecv(rank, size):
    previous, right = (rank - 1) % size, (rank + 1) % size
    received = torch.empty(3, device="hpu")
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, torch.full((3,), float(rank), device="hpu"), right),
            dist.P2POp(dist.irecv, received, previous),
        ]
    )
    for work in works:
        work.wait()
    assert_equal_on_device(received, torch.full((3,), float(previous)))
    tensors = [torch.full((n,), rank + 1.0, device="hpu") for n in (1, 4, 0)]
    with dist._coalescing_manager(device=torch.device("hpu"), async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    for tensor in tensors:
        assert_equal_on_device(tensor, torch.full(tensor.shape, size * (size + 1) / 2))
    # Without a batch, each rank sends before it receives. The two messages must not wait for each other.
    sent = dist.isend(torch.full((2,), rank + 5.0, device="hpu"), right)
    dist.recv(received[:2], previous)
    sent.wait()
    assert_equal_on_device(received[:2], torch.full((2,), previous + 5.0))


PROGRAMS = [
    check_reductions,
    check_data_movement,
    check_uneven_all_to_all,
    check_object_collectives,
    check_batch_isend_irecv,
]


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("program", PROGRAMS)
def test_collectives(on_ranks, program, size):
    on_ranks(program, size)


@pytest.mark.parametrize("program", PROGRAMS)
def test_collectives_over_gloo(on_ranks, program):
    on_ranks(program, 3, HPU_REFERENCE_SHARED_COLLECTIVES="0")
