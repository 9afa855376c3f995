"""torch.compile around distributed training, and collectives inside of compiled functions."""

from __future__ import annotations

from typing import Any

import torch

from conformance.distributed.rank_programs import Rank, program
from conformance.properties.multi_rank._multi_rank_checks import Bench, together
from conformance.properties.multi_rank._single_process_reference import alone, held_against_one
from conformance.properties.multi_rank._training_model import Feed, Losses, model, train
from conformance.properties.multi_rank.ddp import wrapped
from conformance.properties.multi_rank.fsdp import sharded_twice

_NEEDS = ("autograd", "compile")


def compiled(rank: Rank, thing: Any) -> Any:
    """Return a function or module compiled as the target file says."""
    target = rank.target
    if target.compile_backend == "inductor":
        return torch.compile(thing, options=target.compile_options or None)
    return torch.compile(thing, backend=target.compile_backend, options=target.compile_options or None)


@program
def compiled_sums(rank: Rank) -> dict[str, Any]:
    """Compile a function with collectives; return the number of its graphs and the results of two calls."""
    import torch.distributed as dist
    import torch.distributed._functional_collectives as functional

    def doubled_sum(x: torch.Tensor) -> torch.Tensor:
        group: Any = dist.group.WORLD
        total = functional.all_reduce(x * 2, "sum", group)
        gathered = functional.all_gather_tensor(total + 1, 0, group)
        return gathered * 3

    graphs: list[int] = []

    def counting(graph: Any, inputs: Any) -> Any:
        graphs.append(1)
        return graph

    x = torch.full((2, 3), float(rank.rank + 1), device=rank.device)
    torch._dynamo.reset()
    torch.compile(doubled_sum, backend=counting, fullgraph=True)(x)
    torch._dynamo.reset()
    results = [compiled(rank, doubled_sum)(x).cpu() for _ in range(2)]
    return {"graphs": len(graphs), "results": results}


@together("compiled-training", level="training", capabilities=("compile",))
def collectives_in_compiled_functions(bench: Bench) -> None:
    """A function with collectives is one graph, and its compiled form gives the same results."""
    total = bench.size * (bench.size + 1)
    due = torch.full((2 * bench.size, 3), (total + 1) * 3.0)
    for number, answer in enumerate(bench.values(compiled_sums) or ()):
        bench.same(f"the number of graphs on rank {number}", answer["graphs"], 1)
        for place, result in enumerate(answer["results"]):
            bench.close(f"call {place} on rank {number}", {"result": result}, {"result": due}, roundings=1.0)


def trained_compiled(rank: Rank, net: Any, dtype: str) -> Losses:
    """Compile a model and train it, with nothing that was compiled before or is kept afterwards."""
    torch._dynamo.reset()
    results = train(compiled(rank, net), Feed(rank.device, dtype, rank.rank, rank.size))
    torch._dynamo.reset()
    return results


@program
def compiled_ddp(rank: Rank, dtype: str) -> Losses:
    """Train a compiled model under DDP."""
    return trained_compiled(rank, wrapped(rank, model(dtype)), dtype)


@together("compiled-training", dtypes=("float32",), capabilities=_NEEDS)
def compiled_data_parallel(bench: Bench) -> None:
    """A compiled DistributedDataParallel trains like a single process."""
    held_against_one(bench, bench.values(compiled_ddp, dtype=bench.dtype, limit=100.0), alone(bench.dtype))


@program
def compiled_fsdp2(rank: Rank, dtype: str) -> Losses:
    """Train a compiled model under fully_shard."""
    return trained_compiled(rank, sharded_twice(rank, model(dtype)), dtype)


@together("compiled-training", dtypes=("float32",), capabilities=_NEEDS)
def compiled_fully_sharded(bench: Bench) -> None:
    """A compiled model under fully_shard trains like a single process."""
    held_against_one(bench, bench.values(compiled_fsdp2, dtype=bench.dtype, limit=100.0), alone(bench.dtype))
