"""Test the operators of ``torch.ops.hccl`` on two ranks, in a new group and in the default group."""

from __future__ import annotations

import habana_frameworks.torch  # noqa: F401
import pytest
import torch
import torch.distributed as dist
from habana_frameworks.torch.distributed.hccl import operators
from torch.testing._internal.optests import OpCheckError

hccl = torch.ops.hccl
SUM, MAX = int(dist.ReduceOp.SUM), int(dist.ReduceOp.MAX)


def check_operators(rank: int, size: int) -> None:
    default_group = operators.comm_id()
    pair = dist.new_group([1, 0])
    assert (default_group, operators.comm_id(pair)) == (0, 1)
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
        message = torch.full((2,), 5.0 + rank, device="hpu")
        if rank == 0:
            hccl.send_(message, 1, 7, number)
        else:
            assert hccl.recv_(message, 0, 7, number).tolist() == [5, 5]
    try:
        hccl.allreduce_(torch.ones(1, device="hpu"), SUM, 9)
    except RuntimeError as error:
        assert "hccl group 9 does not exist" in str(error)
    else:
        raise AssertionError("a call with the unknown hccl group 9 did not raise")


def test_operators_match_torch_distributed(on_ranks) -> None:
    on_ranks(check_operators)


def test_operators_with_lazy_collectives_enabled(on_ranks) -> None:
    on_ranks(check_operators, PT_HPU_ENABLE_LAZY_COLLECTIVES="1")


def test_meta_operators_return_the_written_tensor() -> None:
    source, into = torch.ones(2, device="meta"), torch.ones(4, device="meta")
    assert hccl.allgather_out(source, 0, into) is into
    assert hccl.allreduce_(source, SUM, 0) is source


def test_unknown_group_number_raises() -> None:
    with pytest.raises(RuntimeError, match="comm_id"):
        hccl.broadcast_(torch.ones(1, device="hpu"), 0, 12)


def run_opcheck(rank: int, size: int) -> None:
    """Run `opcheck` on each operator, in the same order on both ranks, because each check communicates."""

    def rank_tensor(count: int = 4) -> torch.Tensor:
        return torch.arange(float(count), device="hpu") + rank

    samples = {
        "allreduce_": (rank_tensor(), SUM, 0),
        "broadcast_": (rank_tensor(), 1, 0),
        "reduce_": (rank_tensor(), 0, MAX, 0),
        "allgather_out": (rank_tensor(2), 0, rank_tensor()),
        "reduce_scatter_out": (rank_tensor(), SUM, 0, rank_tensor(2)),
        "alltoall_out": (rank_tensor(), 0, [], [], rank_tensor()),
        **({"send_": (rank_tensor(), 1, 3, 0)} if rank == 0 else {"recv_": (rank_tensor(), 0, 3, 0)}),
    }
    for name, arguments in samples.items():
        operator = getattr(hccl, name).default
        # `test_autograd_registration` does not apply, because no operator has a derivative.
        checks = ("test_schema", "test_faketensor")
        check_results = torch.library.opcheck(operator, arguments, test_utils=checks)
        assert check_results == dict.fromkeys(checks, "SUCCESS")
        # Each operator returns an argument that the operator writes. Torch does not trace operators with
        # such a schema into graphs.
        with pytest.raises(OpCheckError, match="output has alias annotations"):
            torch.library.opcheck(operator, arguments, test_utils="test_aot_dispatch_dynamic")


def test_opcheck_passes(on_ranks) -> None:
    on_ranks(run_opcheck)
