"""Check that models under DDP and fully_shard can be compiled and trained, and that functions with
collectives can be compiled.
"""

from __future__ import annotations

from typing import Any

import torch

from conformance.distributed.rank_programs import Rank, program
from conformance.properties.multi_rank._multi_rank_checks import MultiRankChecker, multi_rank_property
from conformance.properties.multi_rank._single_process_reference import (
    compare_with_single_process,
    train_single_process,
)
from conformance.properties.multi_rank._training_model import BatchSource, TensorsByName, make_model, train
from conformance.properties.multi_rank.ddp import wrap_in_ddp
from conformance.properties.multi_rank.fsdp import shard_with_fsdp2

_NEEDS = ("autograd", "compile")


def compile_for_target(rank: Rank, function: Any) -> Any:
    """Return the function or module compiled with the target's backend and options."""
    target = rank.target
    if target.compile_backend == "inductor":
        return torch.compile(function, options=target.compile_options or None)
    return torch.compile(function, backend=target.compile_backend, options=target.compile_options or None)


@program
def compiled_collectives(rank: Rank) -> dict[str, Any]:
    """Compile a function with collectives. Return the number of its graphs and the results of two calls."""
    import torch.distributed as dist
    import torch.distributed._functional_collectives as functional

    def doubled_sum(x: torch.Tensor) -> torch.Tensor:
        group: Any = dist.group.WORLD
        total = functional.all_reduce(x * 2, "sum", group)
        gathered_total = functional.all_gather_tensor(total + 1, 0, group)
        return gathered_total * 3

    graphs: list[int] = []

    def graph_counting_backend(graph: Any, inputs: Any) -> Any:
        graphs.append(1)
        return graph

    x = torch.full((2, 3), float(rank.rank + 1), device=rank.device)
    torch._dynamo.reset()
    torch.compile(doubled_sum, backend=graph_counting_backend, fullgraph=True)(x)
    torch._dynamo.reset()
    results = [compile_for_target(rank, doubled_sum)(x).cpu() for _ in range(2)]
    return {"graphs": len(graphs), "results": results}


@multi_rank_property(
    "compiled-training",
    level="training",
    capabilities=("compile",),
    basis="consistency",
    ground="The compiled function must give the results of its eager collectives",
)
def collectives_in_compiled_functions(checker: MultiRankChecker) -> None:
    """A function with collectives compiles to one graph, and the compiled function gives the same results."""
    total = checker.size * (checker.size + 1)
    expected = torch.full((2 * checker.size, 3), (total + 1) * 3.0)
    for number, reply in enumerate(checker.run(compiled_collectives) or ()):
        checker.check_equal(f"the number of graphs on rank {number}", reply["graphs"], 1)
        for call_index, result in enumerate(reply["results"]):
            checker.check_close(
                f"call {call_index} on rank {number}", {"result": result}, {"result": expected}, roundings=1.0
            )


def train_compiled(rank: Rank, net: Any, dtype: str) -> TensorsByName:
    """Compile a model and train it. Reset the compiler before and after."""
    torch._dynamo.reset()
    results = train(compile_for_target(rank, net), BatchSource(rank.device, dtype, rank.rank, rank.size))
    torch._dynamo.reset()
    return results


@program
def train_compiled_ddp(rank: Rank, dtype: str) -> TensorsByName:
    """Train a compiled model under DDP."""
    return train_compiled(rank, wrap_in_ddp(rank, make_model(dtype)), dtype)


@multi_rank_property("compiled-training", dtypes=("float32",), capabilities=_NEEDS)
def compiled_data_parallel(checker: MultiRankChecker) -> None:
    """A compiled DistributedDataParallel model trains like a single process."""
    compare_with_single_process(
        checker,
        checker.run(train_compiled_ddp, dtype=checker.dtype, limit=100.0),
        train_single_process(checker.dtype),
    )


@program
def train_compiled_fsdp2(rank: Rank, dtype: str) -> TensorsByName:
    """Train a compiled model under fully_shard."""
    return train_compiled(rank, shard_with_fsdp2(rank, make_model(dtype)), dtype)


@multi_rank_property(
    "compiled-training",
    dtypes=("float32",),
    capabilities=_NEEDS,
    basis="consistency",
    ground="Compiled and eager training of the device must agree",
)
def compiled_fully_sharded(checker: MultiRankChecker) -> None:
    """A compiled model under fully_shard trains like a single process."""
    compare_with_single_process(
        checker,
        checker.run(train_compiled_fsdp2, dtype=checker.dtype, limit=100.0),
        train_single_process(checker.dtype),
    )
