"""Run the partitions of a graph: recipes, and single calls between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate

from . import inductor
from .context import Partition, graph_outputs

Values = list[Any]


class PartitionSchedule:
    """Boxed callable that takes the graph's inputs in a list, empties the list and returns the outputs.

    Values are stored in slots: first the inputs, then the results of the partitions. A slot is emptied when
    its last reader has taken the value, so that memory is freed as early as possible.

    Args:
        graph_module: the graph, which defines constants and the order of inputs and outputs.
        partitions: the partitions in execution order; each cluster has its recipe.
        expected_strides: strides that outputs must have when they are returned.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        partitions: Sequence[Partition],
        expected_strides: dict[Node, tuple[int, ...]],
    ) -> None:
        self._slots: dict[Node, int] = {}
        self._constants: list[Any] = []
        graph = graph_module.graph
        for node in graph.nodes:
            if node.op == "placeholder":
                self._slots[node] = len(self._slots)
        self._num_inputs = len(self._slots)
        returned = graph_outputs(graph_module)
        read = {*returned, *(node for partition in partitions for node in partition.inputs)}
        for node in graph.nodes:
            if node.op == "get_attr" and node in read:
                self._slots[node] = len(self._slots)
                self._constants.append(attrgetter(node.target)(graph_module))
        last_reader = {node: index for index, p in enumerate(partitions) for node in p.inputs}
        for node in returned:
            if isinstance(node, Node):
                last_reader[node] = len(partitions)
        self._steps = [self._step(p, i, last_reader) for i, p in enumerate(partitions)]
        self._num_results = len(self._slots) - self._num_inputs - len(self._constants)
        self._returned = [self._slots[n] if isinstance(n, Node) else None for n in returned]
        self._fixed: list[Any] = [None if isinstance(n, Node) else n for n in returned]
        self._expected = [
            (index, expected_strides[node])
            for index, node in enumerate(returned)
            if isinstance(node, Node) and node in expected_strides
        ]
        self._whole = self._single_recipe(partitions, returned)

    def __call__(self, inputs: Values) -> list[Any]:
        """Run the graph."""
        if self._whole is not None:
            return self._whole(inputs)  # type: ignore[return-value]
        values = [*inputs, *self._constants, *[None] * self._num_results]
        inputs.clear()
        for step in self._steps:
            step(values)
        results = [
            fixed if slot is None else values[slot]
            for slot, fixed in zip(self._returned, self._fixed, strict=True)
        ]
        for index, strides in self._expected:
            result = results[index]
            if result.stride() != strides:
                results[index] = _restride(result, strides)
        return results

    def _single_recipe(
        self, partitions: Sequence[Partition], returned: list[Any]
    ) -> Callable[[Values], Sequence[Any]] | None:
        """Return one function for the whole graph if the graph is a single recipe, otherwise None.

        Most graphs are a single recipe. Some outputs may be inputs or constants that bypass the recipe.
        """
        if len(partitions) != 1 or self._expected or self._constants:
            return None
        (partition,) = partitions
        recipe = partition.recipe
        if recipe is None:
            return None
        sources = [self._slots[node] for node in partition.inputs]
        past = [node for node in dict.fromkeys(returned) if node not in set(partition.outputs)]
        bypassing_slots = [self._slots[node] for node in past if isinstance(node, Node)]
        constants = [value for value in past if not isinstance(value, Node)]
        order = [node for node in past if isinstance(node, Node)] + constants + partition.outputs
        if sources == list(range(self._num_inputs)) and returned == partition.outputs:
            return recipe
        take, keep = _value_selector(sources), _value_selector(bypassing_slots)
        arrange = _value_selector([order.index(value) for value in returned])

        def run(inputs: Values) -> Sequence[Any]:
            arguments, bypassing = take(inputs), keep(inputs)
            inputs.clear()
            return arrange([*bypassing, *constants, *recipe(arguments)])

        return run

    def _step(
        self, partition: Partition, index: int, last_reader: dict[Node, int]
    ) -> Callable[[Values], None]:
        sources = [self._slots[node] for node in partition.inputs]
        dead = [self._slots[node] for node in partition.inputs if last_reader[node] == index]
        for node in partition.outputs if partition.recipe is not None else partition.nodes:
            self._slots.setdefault(node, len(self._slots))
        if partition.recipe is None:
            (node,) = partition.nodes
            return _call_step(node, self._slots, dead)
        return _recipe_step(partition.recipe, sources, [self._slots[n] for n in partition.outputs], dead)


def _value_selector(positions: list[int]) -> Callable[[Values], Values]:
    """Return a function that lists the values at the given positions."""
    if len(positions) < 2:
        return lambda values: [values[i] for i in positions]
    pick = itemgetter(*positions)
    return lambda values: list(pick(values))


def _recipe_step(
    recipe: Callable[[Values], Sequence[Any]], sources: list[int], targets: list[int], dead: list[int]
) -> Callable[[Values], None]:
    take = _value_selector(sources)

    def step(values: Values) -> None:
        arguments = take(values)
        for i in dead:
            values[i] = None
        for i, result in zip(targets, recipe(arguments), strict=True):
            values[i] = result

    return step


def _call_step(node: Node, slots: dict[Node, int], dead: list[int]) -> Callable[[Values], None]:
    function, target = _callable_of(node), slots[node]
    here = {source: slots[source] for source in node.all_input_nodes}

    def step(values: Values) -> None:
        def value_of(leaf: Any) -> Any:
            return values[here[leaf]] if isinstance(leaf, Node) else leaf

        values[target] = function(*map_aggregate(node.args, value_of), **map_aggregate(node.kwargs, value_of))
        for i in dead:
            values[i] = None

    return step


def _callable_of(node: Node) -> Callable[..., Any]:
    if node.target is inductor.SEEDS:
        return _draw_seeds
    return node.target  # type: ignore[return-value]


def _draw_seeds(count: int, device: torch.device) -> torch.Tensor:
    # Fused recipes draw random numbers only from these seeds, which come from the device's generator.
    bounds = torch.iinfo(torch.int64)
    return torch.randint(bounds.min, bounds.max, [count], device=device, dtype=torch.int64)


def _restride(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """Return the tensor with the given strides, without a copy if its memory already has this order."""
    dimensions = list(zip(tensor.shape, tensor.stride(), strides, strict=True))
    if all(size == 1 or stride == expected_stride for size, stride, expected_stride in dimensions):
        return tensor.as_strided(tensor.shape, strides)
    result = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
    written, source = result, tensor
    for dimension, (size, _, expected_stride) in enumerate(dimensions):
        if (
            expected_stride == 0 and size > 1
        ):  # an expanded dimension: all of its elements are the first element
            written, source = written.narrow(dimension, 0, 1), source.narrow(dimension, 0, 1)
    written.copy_(source)
    return result
