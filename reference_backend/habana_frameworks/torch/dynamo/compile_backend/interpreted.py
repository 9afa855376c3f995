"""Interpreted recipes: the calls of a cluster, captured at the first run and replayed on other inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from habana_frameworks.torch import _C, hpu

import torch
from torch.fx import GraphModule

from .aliases import module_writes_to_inputs
from .log import logger
from .operator_by_operator import count_cluster_run, make_operator_by_operator_recipe

#: Maximum number of captures for one set of sizes. Captures with the same sizes differ, for example, in the
#: inputs that share memory.
_MOST_CAPTURES = 8


class InterpretedRecipe:
    """Boxed callable that captures a graph at the first call with new input metadata and replays it later.

    A captured graph is valid for inputs with the same metadata, the same numbers and the same sharing of
    memory. If the device cannot capture the cluster, its operators run one by one.
    """

    def __init__(self, module: GraphModule, name: str) -> None:
        self.name = name
        self._run = make_operator_by_operator_recipe(module)
        self._mutates = module_writes_to_inputs(module)
        self._captures: dict[Any, list[_Capture]] = {}
        self._refused = False

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        """Run the recipe on a list of inputs and empty the list."""
        if self._refused or _C.is_capturing():
            return self._run(inputs)
        key = tuple(value.shape if isinstance(value, torch.Tensor) else value for value in inputs)
        captures = self._captures.setdefault(key, [])
        for capture in captures:
            if capture.accepts(inputs):
                count_cluster_run("interpreted")
                return capture.call(inputs)
        if len(captures) == _MOST_CAPTURES:
            return self._run(inputs)
        try:
            capture, results = self._capture(list(inputs))
        except RuntimeError as refusal:
            # If the error is the program's own error, it occurs again here, outside the capture.
            results = self._run(inputs)
            logger.info(
                "the operators of %s run one by one, because their capture failed: %s", self.name, refusal
            )
            self._refused = True
            return results
        captures.append(capture)
        if results is None:
            return capture.call(inputs)
        inputs.clear()
        return results

    def _capture(self, inputs: list[Any]) -> tuple[_Capture, Sequence[Any] | None]:
        """Capture a run. Return the graph and the results.

        If the cluster writes to its inputs, the capture is a dry run, which undoes the writes, and the
        results are None.
        """
        graph = _C.Graph()
        state = hpu.get_rng_state()
        # Capture the calls of this thread only: all calls of the cluster come from this thread, and other
        # threads may use the stream at the same time.
        graph.begin(dry_run=self._mutates, this_thread=True)
        try:
            results = self._run(list(inputs))
        except BaseException:
            # The end of a dry run restores the inputs.
            graph.end()
            graph.reset()
            hpu.set_rng_state(state)
            raise
        graph.end()
        if self._mutates:
            hpu.set_rng_state(state)
        capture = _Capture(graph, inputs, results)
        return capture, None if self._mutates else results


class _Capture:
    """A captured graph, with the positions of the tensors among its inputs and results."""

    def __init__(self, graph: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        self._graph = graph
        self._sources = [i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
        self._targets = [i for i, value in enumerate(results) if isinstance(value, torch.Tensor)]
        self._numbers = [None if isinstance(value, torch.Tensor) else value for value in results]
        graph.set_io_binding(self._tensors(inputs), [results[i] for i in self._targets])

    def accepts(self, inputs: Sequence[Any]) -> bool:
        return bool(self._graph.accepts(self._tensors(inputs)))

    def call(self, inputs: list[Any]) -> list[Any]:
        results = list(self._numbers)
        for position, tensor in zip(self._targets, self._graph.call(self._tensors(inputs)), strict=True):
            results[position] = tensor
        inputs.clear()
        return results

    def _tensors(self, values: Sequence[Any]) -> list[torch.Tensor]:
        return [values[i] for i in self._sources]
