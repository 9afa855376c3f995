"""Behaviours of custom operators in graphs that are traced with real values, fake tensors or dynamic shapes,
and in compiled functions.
"""

from __future__ import annotations

import torch
from torch.library import custom_op

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.custom_operators.definition import SPACE


@behaviour(
    "custom-operators",
    must_detect=("value",),
    ground="The page says that tracing does not look inside the operator, and shows an example",
)
def graphs_of_operators(lab: Lab) -> None:
    """A custom operator with a fake kernel is one call in a traced graph, and is compiled without a graph
    break. The operator accepts dynamic sizes as arguments. The size of its result may depend on data.
    """

    @custom_op(f"{SPACE}::reshaped", mutates_args=())
    def reshaped(x: torch.Tensor, shape: list[int]) -> torch.Tensor:
        return x.clone().view(shape)

    @reshaped.register_fake
    def fake_reshaped(x: torch.Tensor, shape: list[int]) -> torch.Tensor:
        return x.new_empty(shape)

    @custom_op(f"{SPACE}::places", mutates_args=())
    def positions_of_positive(x: torch.Tensor) -> torch.Tensor:
        return (x > 0).nonzero()

    @positions_of_positive.register_fake
    def fake_positions_of_positive(x: torch.Tensor) -> torch.Tensor:
        size = torch.library.get_ctx().new_dynamic_size()
        return x.new_empty((size, x.dim()), dtype=torch.int64)

    def reshape_by_sizes(x: torch.Tensor) -> torch.Tensor:
        return reshaped(x, [x.shape[1], x.shape[0]]) * 2  # type: ignore[no-any-return]

    x, y = lab.integers(2, 3), lab.integers(4, 3)
    for sizes in ("real", "fake", "symbolic"):
        graph = torch_testing_internals.graph_of_function(reshape_by_sizes, x, sizes=sizes)
        names = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
        lab.holds(f"called, {sizes}", f"{SPACE}.reshaped.default" in names)
        lab.expect(f"value, {sizes}", graph(x), (x.view(3, 2) * 2).cpu())
    lab.expect("at another size", graph(y), (y.view(3, 4) * 2).cpu())
    for sizes in ("fake", "symbolic"):
        graph = torch_testing_internals.graph_of_function(positions_of_positive, x, sizes=sizes)
        lab.same(f"a result whose size depends on data, {sizes}", [graph(x), graph(x * 0 + 1)])
    torch_testing_internals.reset_dynamo()
    compiled = torch.compile(reshape_by_sizes, backend="eager", fullgraph=True)
    lab.expect("compiled", compiled(x), (x.view(3, 2) * 2).cpu())
    lab.expect("compiled, at another size", compiled(y), (y.view(3, 4) * 2).cpu())
    torch_testing_internals.reset_dynamo()
