"""The operators of torch.ops.hccl on two ranks: what torch.distributed gives, in a group and in the world."""

from __future__ import annotations

import habana_frameworks.torch  # noqa: F401
import pytest
import torch
import torch.distributed as dist
from habana_frameworks.torch.distributed.hccl import operators
from torch.testing._internal.optests import OpCheckError

hccl = torch.ops.hccl
SUM, MAX = int(dist.ReduceOp.SUM), int(dist.ReduceOp.MAX)


def collectives(rank: int, size: int) -> None:
    world = operators.comm_id()
    pair = dist.new_group([1, 0])
    assert (world, operators.comm_id(pair)) == (0, 1)
    for number in (0, 1):
        x = torch.full((3,), rank + 1.0, device="hpu")
        assert hccl.allreduce_(x, SUM, number) is x and x.tolist() == [3.0] * 3
        x = torch.full((3,), rank + 1.0, device="hpu")
        assert hccl.allreduce_(x, MAX, number).tolist() == [2.0] * 3
        gathered = torch.zeros(4, device="hpu")
        hccl.allgather_out(torch.full((2,), float(rank), device="hpu"), number, gathered)
        assert gathered.tolist() == [0, 0, 1, 1]
        part = torch.zeros(2, device="hpu")
        hccl.reduce_scatter_out(torch.arange(4.0, device="hpu") + rank, SUM, number, part)
        assert part.tolist() == [[1, 3], [5, 7]][rank]
        sent = torch.full((2,), float(rank), device="hpu")
        assert hccl.broadcast_(sent, 1, number).tolist() == [1, 1]
        reduced = hccl.reduce_(torch.full((2,), rank + 1.0, device="hpu"), 0, SUM, number)
        assert rank != 0 or reduced.tolist() == [3, 3]
        swapped = torch.zeros(2, device="hpu")
        hccl.alltoall_out(torch.arange(2.0, device="hpu") + 10 * rank, number, [], [], swapped)
        assert swapped.tolist() == [[0, 10], [1, 11]][rank]
        uneven = torch.zeros(2 if rank == 0 else 4, device="hpu")
        sizes = [1, 1] if rank == 0 else [2, 2]
        hccl.alltoall_out(torch.arange(3.0, device="hpu") + 10 * rank, number, sizes, [1, 2], uneven)
        assert uneven.tolist() == [[0, 10], [1, 2, 11, 12]][rank]
        one = torch.full((2,), 5.0 + rank, device="hpu")
        if rank == 0:
            hccl.send_(one, 1, 7, number)
        else:
            assert hccl.recv_(one, 0, 7, number).tolist() == [5, 5]
    try:
        hccl.allreduce_(torch.ones(1, device="hpu"), SUM, 9)
    except RuntimeError as error:
        assert "hccl group 9 does not exist" in str(error)
    else:
        raise AssertionError("a group that is not there was found")


def test_they_do_what_torch_distributed_does(on_ranks) -> None:
    on_ranks(collectives)


def test_with_the_switch_of_lazy_collectives_on(on_ranks) -> None:
    on_ranks(collectives, PT_HPU_ENABLE_LAZY_COLLECTIVES="1")


def test_without_values_they_return_what_they_write() -> None:
    given, into = torch.ones(2, device="meta"), torch.ones(4, device="meta")
    assert hccl.allgather_out(given, 0, into) is into
    assert hccl.allreduce_(given, SUM, 0) is given


def test_numbers_are_of_groups_that_are_there() -> None:
    with pytest.raises(RuntimeError, match="comm_id"):
        hccl.broadcast_(torch.ones(1, device="hpu"), 0, 12)


def checked(rank: int, size: int) -> None:
    """Ask torch's checks of each operator, in the same order on both ranks, as each runs the operator."""

    def x(count: int = 4) -> torch.Tensor:
        return torch.arange(float(count), device="hpu") + rank

    samples = {
        "allreduce_": (x(), SUM, 0),
        "broadcast_": (x(), 1, 0),
        "reduce_": (x(), 0, MAX, 0),
        "allgather_out": (x(2), 0, x()),
        "reduce_scatter_out": (x(), SUM, 0, x(2)),
        "alltoall_out": (x(), 0, [], [], x()),
        **({"send_": (x(), 1, 3, 0)} if rank == 0 else {"recv_": (x(), 0, 3, 0)}),
    }
    for name, arguments in samples.items():
        operator = getattr(hccl, name).default
        # `test_autograd_registration` has nothing to ask, as no operator has a derivative.
        checks = ("test_schema", "test_faketensor")
        found = torch.library.opcheck(operator, arguments, test_utils=checks)
        assert found == dict.fromkeys(checks, "SUCCESS")
        # torch puts no operator into a graph whose schema returns what it writes, as the contract has these.
        with pytest.raises(OpCheckError, match="output has alias annotations"):
            torch.library.opcheck(operator, arguments, test_utils="test_aot_dispatch_dynamic")


def test_torchs_checks_pass(on_ranks) -> None:
    on_ranks(checked)
