"""Check device meshes, distributed tensors, and modules whose weights are sharded over ranks."""

from __future__ import annotations

from typing import Any

import torch

from conformance.distributed.rank_programs import Rank, program, sum_over_ranks
from conformance.properties.multi_rank._multi_rank_checks import MultiRankChecker, multi_rank_property
from conformance.properties.multi_rank._single_process_reference import FLOATS
from conformance.properties.multi_rank._training_model import (
    BatchSource,
    make_model,
    make_sgd_without_foreach,
    run_backward,
    train,
)


def make_device_mesh(rank: Rank, names: tuple[str, ...] = ("ranks",)) -> Any:
    """Return a device mesh of all ranks, with one dimension per name."""
    from torch.distributed.device_mesh import init_device_mesh

    shape = (rank.size,) if len(names) == 1 else two_dimensional_shape(rank.size)
    return init_device_mesh(rank.device.type, shape, mesh_dim_names=names)


def two_dimensional_shape(size: int) -> tuple[int, int]:
    """Return a two-dimensional mesh shape for ``size`` ranks: ``(2, size // 2)`` if ``size`` is even and at
    least 4, else ``(size, 1)``.
    """
    return (2, size // 2) if size >= 4 and size % 2 == 0 else (size, 1)


def integer_matrix(rows: int, columns: int, dtype: torch.dtype, seed_offset: int = 0) -> torch.Tensor:
    """Return a matrix of integers from -3 to 3."""
    return ((torch.arange(rows * columns) * 5 + seed_offset) % 7 - 3).reshape(rows, columns).to(dtype)


@program
def mesh_attributes(rank: Rank) -> dict[str, Any]:
    """Return this rank's attributes of a two-dimensional mesh, and its sums over the mesh dimensions."""
    import torch.distributed as dist

    mesh = make_device_mesh(rank, ("outer", "inner"))
    outer, row = mesh["outer"], mesh["inner"]
    tensor = torch.full((2,), float(rank.rank + 1), device=rank.device)
    dist.all_reduce(tensor, group=outer.get_group())
    return {
        "device": mesh.device_type,
        "shape": tuple(mesh.shape),
        "coordinate": list(mesh.get_coordinate()),
        "local rank": outer.get_local_rank(),
        "sum of a row": sum_over_ranks(rank, row.get_group()),
        "sum": float(tensor.cpu().double().mean()),
    }


@multi_rank_property("mesh", level="core")
def mesh_of_two_dimensions(checker: MultiRankChecker) -> None:
    """A mesh returns the coordinate of each rank, and each of its dimensions has a process group."""
    outer, inner = two_dimensional_shape(checker.size)
    for number, facts in enumerate(checker.run(mesh_attributes) or ()):
        row, column = divmod(number, inner)
        expected = {
            "device": checker.target.kind,
            "shape": (outer, inner),
            "coordinate": [row, column],
            "local rank": row,
            "sum of a row": sum(row * inner + y + 1.0 for y in range(inner)),
            "sum": sum(x * inner + column + 1.0 for x in range(outer)),
        }
        for name, value in expected.items():
            checker.check_equal(f"{name} on rank {number}", facts[name], value)


@program
def redistributed_tensors(rank: Rank, dtype: str) -> dict[str, torch.Tensor]:
    """Create and redistribute DTensors, and compute with them. Return the results by name as full CPU
    tensors.
    """
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh, torch_dtype = make_device_mesh(rank), getattr(torch, dtype)
    whole = integer_matrix(5, 3, torch_dtype).to(rank.device)  # the ranks may not divide the rows evenly
    rows: Any = distribute_tensor(whole, mesh, [Shard(0)])
    results = {
        "mine": rows.to_local(),
        "rows": rows.full_tensor(),
        "columns": rows.redistribute(mesh, [Shard(1)]).full_tensor(),
        "everywhere": rows.redistribute(mesh, [Replicate()]).to_local(),
    }
    square = integer_matrix(3, 3, torch_dtype, 1).to(rank.device)
    columns: Any = distribute_tensor(whole, mesh, [Shard(1)])
    results["partial product"] = (columns @ distribute_tensor(square, mesh, [Shard(0)])).full_tensor()
    results["sum over columns"] = rows.sum(1).full_tensor()
    results["sum over rows"] = rows.sum(0).full_tensor()
    results["plus"] = (rows + rows * 2).full_tensor()
    return {name: value.detach().cpu().clone() for name, value in results.items()}


@multi_rank_property("mesh", dtypes=FLOATS)
def distributed_tensors(checker: MultiRankChecker) -> None:
    """Sharded, replicated and partial DTensors can be created, converted into each other and used in
    computations.
    """
    dtype = getattr(torch, checker.dtype)
    whole, square = integer_matrix(5, 3, dtype), integer_matrix(3, 3, dtype, 1)
    for number, tensors in enumerate(checker.run(redistributed_tensors, dtype=checker.dtype) or ()):
        pieces = whole.chunk(checker.size)
        expected = {
            "mine": pieces[number] if number < len(pieces) else whole[:0],
            "rows": whole,
            "columns": whole,
            "everywhere": whole,
            "partial product": whole @ square,
            "sum over columns": whole.sum(1),
            "sum over rows": whole.sum(0),
            "plus": whole * 3,
        }
        checker.check_close(f"rank {number}", tensors, expected)


@program
def gradients_on_mesh(rank: Rank, dtype: str) -> dict[str, torch.Tensor]:
    """Return the gradients of a sharded and of a replicated tensor as full CPU tensors."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh, torch_dtype = make_device_mesh(rank), getattr(torch, dtype)
    weight: Any = distribute_tensor(
        integer_matrix(4, 6, torch_dtype).to(rank.device), mesh, [Shard(0)]
    ).requires_grad_()
    replicated: Any = distribute_tensor(
        integer_matrix(3, 4, torch_dtype, 2).to(rank.device), mesh, [Replicate()]
    ).requires_grad_()
    run_backward(((replicated @ weight) ** 2).sum())
    return {
        "weight": weight.grad.full_tensor().cpu(),
        "given": replicated.grad.full_tensor().cpu(),
    }


@multi_rank_property("mesh", level="training", dtypes=FLOATS, capabilities=("autograd",))
def gradients_of_distributed_tensors(checker: MultiRankChecker) -> None:
    """Gradients of sharded and replicated tensors equal the gradients of ordinary tensors."""
    dtype = getattr(torch, checker.dtype)
    weight, replicated = (
        integer_matrix(4, 6, dtype).requires_grad_(),
        integer_matrix(3, 4, dtype, 2).requires_grad_(),
    )
    run_backward(((replicated @ weight) ** 2).sum())
    assert weight.grad is not None and replicated.grad is not None
    for number, gradients in enumerate(checker.run(gradients_on_mesh, dtype=checker.dtype) or ()):
        checker.check_close(f"rank {number}", gradients, {"weight": weight.grad, "given": replicated.grad})


@program
def random_shards_and_replicas(rank: Rank) -> dict[str, torch.Tensor]:
    """Return this rank's shard of a random DTensor, its replica of a second random DTensor, and its shard of
    a third DTensor that is drawn after reseeding.
    """
    import torch.distributed.tensor as dt

    mesh = make_device_mesh(rank)
    torch.manual_seed(7)
    shards = dt.rand((8 * rank.size, 16), device_mesh=mesh, placements=[dt.Shard(0)])
    copies = dt.rand((8, 16), device_mesh=mesh, placements=[dt.Replicate()])
    torch.manual_seed(7)
    repeated_shards = dt.rand((8 * rank.size, 16), device_mesh=mesh, placements=[dt.Shard(0)])
    return {
        "mine": shards.to_local().cpu(),
        "copy": copies.to_local().cpu(),
        "again": repeated_shards.to_local().cpu(),
    }


@multi_rank_property("mesh", capabilities=("random", "generator"), accelerators=True)
def random_distributed_tensors(checker: MultiRankChecker) -> None:
    """Shards of a random tensor differ, replicas are equal, and the same seed gives the same shards."""
    replies = checker.run(random_shards_and_replicas)
    if replies is None:
        return
    for number, reply in enumerate(replies):
        checker.check(
            torch.equal(reply["mine"], reply["again"]),
            f"the seed does not repeat the shard of rank {number}.",
        )
        checker.check(
            torch.equal(reply["copy"], replies[0]["copy"]), f"the replica on rank {number} differs."
        )
        if number:
            checker.check(
                not torch.equal(reply["mine"], replies[0]["mine"]),
                f"the shards of ranks 0 and {number} are equal.",
            )


@program
def train_tensor_parallel(rank: Rank, dtype: str, sequence: bool) -> dict[str, torch.Tensor]:
    """Train a model whose linear modules are sharded over the ranks, and return losses and parameters.

    If ``sequence`` is true, activations are sharded along the sequence dimension too.
    """
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    plan: dict[str, Any] = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    if sequence:
        plan["2"] = RowwiseParallel(output_layouts=Shard(0))
        plan["3"] = SequenceParallel(sequence_dim=0)
        plan["4"] = ColwiseParallel(input_layouts=Shard(0), output_layouts=Replicate())
    net = parallelize_module(make_model(dtype).to(rank.device), make_device_mesh(rank), plan)
    return train(net, BatchSource(rank.device, dtype), optimizer=make_sgd_without_foreach)


def _compare_with_unsharded_training(checker: MultiRankChecker, results: list[Any] | None) -> None:
    expected = train(make_model(checker.dtype), BatchSource(torch.device("cpu"), checker.dtype))
    for number, result in enumerate(results or ()):
        checker.check_close(f"rank {number}", result, expected)


@multi_rank_property("tensor-parallel", level="training", dtypes=FLOATS, capabilities=("autograd",))
def columns_and_rows(checker: MultiRankChecker) -> None:
    """Linear modules that are split by columns, then by rows, train like ordinary linear modules."""
    _compare_with_unsharded_training(
        checker, checker.run(train_tensor_parallel, dtype=checker.dtype, sequence=False)
    )


@multi_rank_property("tensor-parallel", dtypes=FLOATS, capabilities=("autograd",))
def sequences(checker: MultiRankChecker) -> None:
    """Modules that are split over the ranks, with sequence parallelism between them, train like ordinary
    modules.
    """
    _compare_with_unsharded_training(
        checker, checker.run(train_tensor_parallel, dtype=checker.dtype, sequence=True)
    )
