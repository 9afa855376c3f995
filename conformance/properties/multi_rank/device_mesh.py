"""Device meshes, distributed tensors, and modules whose weights are spread over ranks."""

from __future__ import annotations

from typing import Any

import torch

from conformance.distributed.rank_programs import Rank, program, total
from conformance.properties.multi_rank._multi_rank_checks import Bench, together
from conformance.properties.multi_rank._single_process_reference import FLOATS
from conformance.properties.multi_rank._training_model import Feed, backward, model, one_by_one, train


def mesh_of(rank: Rank, names: tuple[str, ...] = ("ranks",)) -> Any:
    """Return a mesh of all ranks with one dimension for each name."""
    from torch.distributed.device_mesh import init_device_mesh

    shape = (rank.size,) if len(names) == 1 else plane(rank.size)
    return init_device_mesh(rank.device.type, shape, mesh_dim_names=names)


def plane(size: int) -> tuple[int, int]:
    """Return the shape of a mesh of two dimensions, both larger than one if there are enough ranks."""
    return (2, size // 2) if size >= 4 and size % 2 == 0 else (size, 1)


def matrix(rows: int, columns: int, dtype: torch.dtype, salt: int = 0) -> torch.Tensor:
    """Return a matrix of whole numbers between -3 and 3."""
    return ((torch.arange(rows * columns) * 5 + salt) % 7 - 3).reshape(rows, columns).to(dtype)


@program
def meshes(rank: Rank) -> dict[str, Any]:
    """Return a rank's facts about a mesh of two dimensions."""
    import torch.distributed as dist

    mesh = mesh_of(rank, ("outer", "inner"))
    line, row = mesh["outer"], mesh["inner"]
    tensor = torch.full((2,), float(rank.rank + 1), device=rank.device)
    dist.all_reduce(tensor, group=line.get_group())
    return {
        "device": mesh.device_type,
        "shape": tuple(mesh.shape),
        "coordinate": list(mesh.get_coordinate()),
        "local rank": line.get_local_rank(),
        "sum of a row": total(rank, row.get_group()),
        "sum": float(tensor.cpu().double().mean()),
    }


@together("mesh", level="core")
def mesh_of_two_dimensions(bench: Bench) -> None:
    """A mesh knows each rank's place, and its dimensions are groups."""
    outer, inner = plane(bench.size)
    for number, facts in enumerate(bench.values(meshes) or ()):
        row, column = divmod(number, inner)
        due = {
            "device": bench.target.kind,
            "shape": (outer, inner),
            "coordinate": [row, column],
            "local rank": row,
            "sum of a row": sum(row * inner + y + 1.0 for y in range(inner)),
            "sum": sum(x * inner + column + 1.0 for x in range(outer)),
        }
        for name, value in due.items():
            bench.same(f"{name} on rank {number}", facts[name], value)


@program
def placements(rank: Rank, dtype: str) -> dict[str, torch.Tensor]:
    """Return distributed tensors made, redistributed and computed with, as whole CPU tensors by name."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh, kind = mesh_of(rank), getattr(torch, dtype)
    whole = matrix(5, 3, kind).to(rank.device)  # rows that do not divide evenly
    rows: Any = distribute_tensor(whole, mesh, [Shard(0)])
    results = {
        "mine": rows.to_local(),
        "rows": rows.full_tensor(),
        "columns": rows.redistribute(mesh, [Shard(1)]).full_tensor(),
        "everywhere": rows.redistribute(mesh, [Replicate()]).to_local(),
    }
    square = matrix(3, 3, kind, 1).to(rank.device)
    columns: Any = distribute_tensor(whole, mesh, [Shard(1)])
    results["partial product"] = (columns @ distribute_tensor(square, mesh, [Shard(0)])).full_tensor()
    results["sum over columns"] = rows.sum(1).full_tensor()
    results["sum over rows"] = rows.sum(0).full_tensor()
    results["plus"] = (rows + rows * 2).full_tensor()
    return {name: value.detach().cpu().clone() for name, value in results.items()}


@together("mesh", dtypes=FLOATS)
def distributed_tensors(bench: Bench) -> None:
    """Sharded, replicated and partial tensors are made, turned into each other and computed with."""
    kind = getattr(torch, bench.dtype)
    whole, square = matrix(5, 3, kind), matrix(3, 3, kind, 1)
    for number, tensors in enumerate(bench.values(placements, dtype=bench.dtype) or ()):
        pieces = whole.chunk(bench.size)
        due = {
            "mine": pieces[number] if number < len(pieces) else whole[:0],
            "rows": whole,
            "columns": whole,
            "everywhere": whole,
            "partial product": whole @ square,
            "sum over columns": whole.sum(1),
            "sum over rows": whole.sum(0),
            "plus": whole * 3,
        }
        bench.close(f"rank {number}", tensors, due)


@program
def gradients_of_shards(rank: Rank, dtype: str) -> dict[str, torch.Tensor]:
    """Return the gradients of a sharded and of a replicated tensor, as whole CPU tensors."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh, kind = mesh_of(rank), getattr(torch, dtype)
    weight: Any = distribute_tensor(matrix(4, 6, kind).to(rank.device), mesh, [Shard(0)]).requires_grad_()
    given: Any = distribute_tensor(
        matrix(3, 4, kind, 2).to(rank.device), mesh, [Replicate()]
    ).requires_grad_()
    backward(((given @ weight) ** 2).sum())
    return {
        "weight": weight.grad.full_tensor().cpu(),
        "given": given.grad.full_tensor().cpu(),
    }


@together("mesh", level="training", dtypes=FLOATS, capabilities=("autograd",))
def gradients_of_distributed_tensors(bench: Bench) -> None:
    """Gradients of sharded and replicated tensors are those of whole ones."""
    kind = getattr(torch, bench.dtype)
    weight, given = matrix(4, 6, kind).requires_grad_(), matrix(3, 4, kind, 2).requires_grad_()
    backward(((given @ weight) ** 2).sum())
    assert weight.grad is not None and given.grad is not None
    for number, gradients in enumerate(bench.values(gradients_of_shards, dtype=bench.dtype) or ()):
        bench.close(f"rank {number}", gradients, {"weight": weight.grad, "given": given.grad})


@program
def random_shards(rank: Rank) -> dict[str, torch.Tensor]:
    """Return a rank's part of a random tensor, its replica of another, and the part again from the
    same seed.
    """
    import torch.distributed.tensor as dt

    mesh = mesh_of(rank)
    torch.manual_seed(7)
    shards = dt.rand((8 * rank.size, 16), device_mesh=mesh, placements=[dt.Shard(0)])
    copies = dt.rand((8, 16), device_mesh=mesh, placements=[dt.Replicate()])
    torch.manual_seed(7)
    again = dt.rand((8 * rank.size, 16), device_mesh=mesh, placements=[dt.Shard(0)])
    return {
        "mine": shards.to_local().cpu(),
        "copy": copies.to_local().cpu(),
        "again": again.to_local().cpu(),
    }


@together("mesh", capabilities=("random", "generator"), accelerators=True)
def random_distributed_tensors(bench: Bench) -> None:
    """Shards of a random tensor differ, replicas agree, and the seed repeats them."""
    answers = bench.values(random_shards)
    if answers is None:
        return
    for number, answer in enumerate(answers):
        bench.fact(
            torch.equal(answer["mine"], answer["again"]),
            f"the seed does not repeat the shard of rank {number}.",
        )
        bench.fact(torch.equal(answer["copy"], answers[0]["copy"]), f"the replica on rank {number} differs.")
        if number:
            bench.fact(
                not torch.equal(answer["mine"], answers[0]["mine"]),
                f"the shards of ranks 0 and {number} are equal.",
            )


@program
def spread_modules(rank: Rank, dtype: str, sequence: bool) -> dict[str, torch.Tensor]:
    """Train a model whose linear modules are spread over the ranks."""
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
    net = parallelize_module(model(dtype).to(rank.device), mesh_of(rank), plan)
    return train(net, Feed(rank.device, dtype), optimizer=one_by_one)


def _held_against_one(bench: Bench, answers: list[Any] | None) -> None:
    due = train(model(bench.dtype), Feed(torch.device("cpu"), bench.dtype))
    for number, answer in enumerate(answers or ()):
        bench.close(f"rank {number}", answer, due)


@together("tensor-parallel", level="training", dtypes=FLOATS, capabilities=("autograd",))
def columns_and_rows(bench: Bench) -> None:
    """Linear modules split by columns, then by rows, train like whole ones."""
    _held_against_one(bench, bench.values(spread_modules, dtype=bench.dtype, sequence=False))


@together("tensor-parallel", dtypes=FLOATS, capabilities=("autograd",))
def sequences(bench: Bench) -> None:
    """With activations split along the sequence between split modules, training is that of whole ones."""
    _held_against_one(bench, bench.values(spread_modules, dtype=bench.dtype, sequence=True))
