"""Each collective gives what arithmetic gives, for the dtypes and operators of the contract."""

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
CARRIED = (*DTYPES, torch.float8_e4m3fn, torch.float8_e5m2)
SHAPES = ((5,), (0,), (2, 3), (), (1025,))
REDUCTIONS = {
    dist.ReduceOp.SUM: lambda parts: parts.sum(0),
    dist.ReduceOp.PRODUCT: lambda parts: parts.prod(0),
    dist.ReduceOp.MIN: lambda parts: parts.amin(0),
    dist.ReduceOp.MAX: lambda parts: parts.amax(0),
}


def numbers(shape, dtype, rank):
    """Small whole numbers of a rank, exact in every dtype."""
    values = torch.randint(
        0, 2 if dtype == torch.bool else 4, shape, generator=torch.Generator().manual_seed(rank)
    )
    return values.to(torch.float32).to(dtype) if dtype in CARRIED[9:] else values.to(dtype)


def expected(operation, shape, dtype, size):
    parts = torch.stack([numbers(shape, dtype, rank).double() for rank in range(size)])
    result = REDUCTIONS[operation](parts)
    return (result != 0) if dtype == torch.bool else result.to(dtype)


def same(got, correct):
    assert got.device.type == "hpu"
    got = got.cpu()
    assert got.dtype == correct.dtype
    if correct.dtype in CARRIED[9:]:
        got, correct = got.view(torch.uint8), correct.view(torch.uint8)
    assert torch.equal(got, correct), (got, correct)


def reductions(rank, size):
    for dtype, shape, operation in itertools.product(DTYPES, SHAPES, REDUCTIONS):
        correct = expected(operation, shape, dtype, size)
        mine = numbers(shape, dtype, rank)
        tensor = mine.to("hpu")
        dist.all_reduce(tensor, operation)
        same(tensor, correct)
        tensor = mine.to("hpu")
        dist.reduce(tensor, size - 1, operation)
        same(tensor, correct if rank == size - 1 else mine)
        if not shape:
            continue
        wide = numbers((shape[0] * size, *shape[1:]), dtype, rank).to("hpu")
        out = torch.empty(shape, dtype=dtype, device="hpu")
        whole = expected(operation, wide.shape, dtype, size)
        dist.reduce_scatter_tensor(out, wide, operation)
        same(out, whole[rank * shape[0] : (rank + 1) * shape[0]])
        dist.reduce_scatter(out.zero_(), list(wide.chunk(size)) if shape[0] else [wide] * size, operation)
        same(out, whole[rank * shape[0] : (rank + 1) * shape[0]])


def movements(rank, size):
    for dtype, shape in itertools.product(CARRIED, SHAPES):
        mine = numbers(shape, dtype, rank)
        every = [numbers(shape, dtype, other) for other in range(size)]
        tensor = mine.to("hpu")
        dist.broadcast(tensor, 1)
        same(tensor, every[1])
        lists = [torch.empty(shape, dtype=dtype, device="hpu") for _ in range(size)]
        dist.all_gather(lists, mine.to("hpu"))
        for got, correct in zip(lists, every, strict=True):
            same(got, correct)
        lists = [torch.empty(shape, dtype=dtype, device="hpu") for _ in range(size)] if rank == 1 else None
        dist.gather(mine.to("hpu"), lists, 1)
        for got, correct in zip(lists or [], every, strict=False):
            same(got, correct)
        given = [one.to("hpu") for one in every] if rank == 0 else None
        tensor = torch.empty(shape, dtype=dtype, device="hpu")
        dist.scatter(tensor, given, 0)
        same(tensor, every[rank])
        tensor = mine.to("hpu")
        if rank == 0:
            dist.send(tensor, 1, tag=3)
        elif rank == 1:
            dist.recv(tensor, 0, tag=3)
            same(tensor, every[0])
        outputs = [torch.empty(shape, dtype=dtype, device="hpu") for _ in range(size)]
        dist.all_to_all(outputs, [mine.to("hpu") for _ in range(size)])
        for got, correct in zip(outputs, every, strict=True):
            same(got, correct)
        if not shape:
            continue
        wide = torch.empty((shape[0] * size, *shape[1:]), dtype=dtype, device="hpu")
        dist.all_gather_into_tensor(wide, mine.to("hpu"))
        bits = (lambda t: t.view(torch.uint8)) if dtype in CARRIED[9:] else (lambda t: t)
        same(wide, torch.cat([bits(one) for one in every]).view(dtype))
        swapped = torch.empty_like(wide)
        dist.all_to_all_single(swapped, wide)
        first = wide.cpu().view(torch.uint8) if dtype in CARRIED[9:] else wide.cpu()
        piece = first[rank * shape[0] : (rank + 1) * shape[0]]
        same(swapped, torch.cat([piece] * size).view(dtype))


def uneven(rank, size):
    splits = [rank + 1] * size
    mine = torch.arange(float((rank + 1) * size), device="hpu")
    out = torch.empty(sum(range(1, size + 1)), device="hpu")
    dist.all_to_all_single(out, mine, [other + 1 for other in range(size)], splits)
    correct = [
        torch.arange(float((other + 1) * size))[rank * (other + 1) : (rank + 1) * (other + 1)]
        for other in range(size)
    ]
    same(out, torch.cat(correct))


def objects(rank, size):
    found = [None] * size
    dist.all_gather_object(found, {"rank": rank})
    assert found == [{"rank": other} for other in range(size)]
    given = [{"a": 1}, "b"] if rank == 0 else [None, None]
    dist.broadcast_object_list(given, 0)
    assert given == [{"a": 1}, "b"]
    dist.barrier()


def batches(rank, size):
    left, right = (rank - 1) % size, (rank + 1) % size
    got = torch.empty(3, device="hpu")
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, torch.full((3,), float(rank), device="hpu"), right),
            dist.P2POp(dist.irecv, got, left),
        ]
    )
    for work in works:
        work.wait()
    same(got, torch.full((3,), float(left)))
    tensors = [torch.full((n,), rank + 1.0, device="hpu") for n in (1, 4, 0)]
    with dist._coalescing_manager(device=torch.device("hpu"), async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    for tensor in tensors:
        same(tensor, torch.full(tensor.shape, size * (size + 1) / 2))
    # Both directions at once, without a batch: messages to and from a peer do not wait for each other.
    sent = dist.isend(torch.full((2,), rank + 5.0, device="hpu"), right)
    dist.recv(got[:2], left)
    sent.wait()
    same(got[:2], torch.full((2,), left + 5.0))


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("program", [reductions, movements, uneven, objects, batches])
def test_collectives(on_ranks, program, size):
    on_ranks(program, size)
