"""`wrap_in_hpu_graph`: inference with a cache of captured graphs, one for each kind of inputs."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

from habana_frameworks.torch.internal.patches.compile_calls import GRAPHED_FORWARD_ATTRIBUTE
from habana_frameworks.torch.internal.settings import environment

import torch

from .capture import HPUGraph, graph, is_current_stream_capturing, preserve_random_state
from .io_binding import BoundGraph, CopyingGraph
from .pytree_keys import (
    TensorPacker,
    Uncacheable,
    describe,
    input_key,
    require_supported_leaf_types,
    tensors_of,
)

_logger = logging.getLogger(__name__)


@dataclass
class CachedParams:
    """One entry of a cache of captured graphs.

    Attributes:
        graph_inputs: inputs of the capture; None if their memory is not retained.
        graph_outputs: results of the capture, to which `HPUGraph.replay` writes; None if their memory is not
            retained.
        graph: the captured graph.
        out_tinfo_list: packer with the structure of the results.
        asynchronous: replays return before their work is finished.
    """

    graph_inputs: Any
    graph_outputs: Any
    graph: HPUGraph
    out_tinfo_list: TensorPacker | None = None
    asynchronous: bool = False


class _CachedGraph(NamedTuple):
    params: CachedParams
    function: BoundGraph | CopyingGraph


class GraphCache:
    """Callable that runs a function by captured graphs, one for each kind of inputs.

    Inputs are of the same kind if `pytree_keys.input_key` returns the same key.

    Args:
        function: the function to capture.
        state: function whose result is part of the key.
        asynchronous, disable_tensor_cache, dry_run, max_graphs, verbose, log_frequency: see
            `wrap_in_hpu_graph`.

    Attributes:
        hits: number of replays.
        captures: number of captures.
        bypasses: number of calls without a graph.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        asynchronous: bool,
        disable_tensor_cache: bool,
        dry_run: bool | None,
        max_graphs: int | None,
        verbose: bool,
        log_frequency: int,
        state: Callable[[], Hashable],
    ) -> None:
        self._function = function
        self._asynchronous = asynchronous
        self._keeps_results = not (
            disable_tensor_cache
            or environment.read_variable("PT_HPUGRAPH_DISABLE_TENSOR_CACHE", "bool", False)
        )
        if dry_run is None:
            dry_run = bool(environment.read_variable("PT_HPUGRAPH_ENABLE_DRY_RUN", "bool", False))
        self._dry_run = dry_run
        self._max_graphs = max_graphs
        self._verbose = verbose
        self._log_frequency = max(1, log_frequency)
        self._state = state
        self._entries: dict[Hashable, _CachedGraph | None] = {}
        self.hits = self.captures = self.bypasses = 0

    def __call__(
        self,
        *args: Any,
        bypass_hpu_graphs: bool = False,
        warmup_mode: bool = False,
        cache_tensors_list: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Run the function: replay or capture a graph if possible, else call the function.

        Args:
            args, kwargs: arguments of the function.
            bypass_hpu_graphs: run the function without a graph.
            warmup_mode, cache_tensors_list: accepted, not used.
        """
        if self._verbose and (self.hits + self.captures + self.bypasses) % self._log_frequency == 0:
            print(
                f"HPU graphs: {self.captures} captured, {self.hits} replayed, {self.bypasses} calls without "
                "a graph"
            )
        # Inside another capture, call the function, so that its work is captured in the outer graph.
        if bypass_hpu_graphs or is_current_stream_capturing():
            return self._run_without_graph(args, kwargs)
        try:
            key = (self._state(), input_key((args, kwargs)))
        except Uncacheable as reason:
            _logger.info("no graph for %s, because it contains %s", describe((args, kwargs)), reason)
            return self._run_without_graph(args, kwargs)
        if key in self._entries:
            cached_entry = self._entries[key]
            if cached_entry is None:
                return self._run_without_graph(args, kwargs)
            self.hits += 1
            return self._replay(cached_entry, (args, kwargs))
        if self._max_graphs is not None and len(self._entries) >= self._max_graphs:
            return self._run_without_graph(args, kwargs)
        self.captures += 1
        entry, outputs = self._capture(args, kwargs)
        self._entries[key] = entry
        if entry is None:
            return outputs
        if not self._keeps_results:
            entry.params.graph_inputs = entry.params.graph_outputs = None
        return self._replay(entry, (args, kwargs)) if self._dry_run else outputs

    def clear_cache(self) -> None:
        """Remove all graphs and free their memory."""
        self._entries.clear()

    def clear_inputs(self) -> None:
        """Free the memory of the inputs of all captures. Graphs stay usable: each call passes new inputs."""
        for entry in self._entries.values():
            if entry is not None:
                entry.params.graph_inputs = None

    def _run_without_graph(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.bypasses += 1
        return self._function(*args, **kwargs)

    def _capture(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[_CachedGraph | None, Any]:
        """Capture the function. Return a cache entry (None if a replay is impossible) and the results."""
        captured = HPUGraph()
        packer = TensorPacker(is_out_pack=True)
        # Restore the generator after a dry run, so that the following replay draws the numbers of this call.
        random_state = preserve_random_state() if self._dry_run else contextlib.nullcontext()
        with random_state, graph(captured, dry_run=self._dry_run):
            outputs = self._function(*args, **kwargs)
            # Detach the results of the capture, because results of a replay have no autograd history either.
            results = tuple(tensor.detach() for tensor in packer.pack(outputs)[0])
        try:
            require_supported_leaf_types(outputs)
        except Uncacheable as reason:
            _logger.info("no graph, because the results contain %s", reason)
            return None, outputs
        outputs = packer.unpack(results)
        function = captured.bind_io(tensors_of((args, kwargs)), results, into_captured=self._keeps_results)
        params = CachedParams((args, kwargs), outputs, captured, packer, self._asynchronous)
        return _CachedGraph(params, function), outputs

    def _replay(self, entry: _CachedGraph, inputs: Any) -> Any:
        assert entry.params.out_tinfo_list is not None
        results = entry.function.run(tensors_of(inputs), entry.params.asynchronous)
        return entry.params.out_tinfo_list.unpack(results)


def call_without_dynamo(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function and return its result, while Dynamo traces neither the function nor its callees.

    `torch.compiler.disable` has the same effect, but imports Dynamo.
    """
    set_eval_frame = torch._C._dynamo.eval_frame.set_eval_frame
    callback = set_eval_frame(None)
    try:
        return function(*args, **kwargs)
    finally:
        set_eval_frame(callback)


def wrap_in_hpu_graph(
    module: torch.nn.Module,
    asynchronous: bool = False,
    disable_tensor_cache: bool = False,
    dry_run: bool | None = None,
    max_graphs: int | None = None,
    free_inplace: bool = True,
    verbose: bool = False,
    log_frequency: int = 100,
) -> torch.nn.Module:
    """Replace the `forward` of a module by a forward that captures a graph for each kind of inputs.

    Later calls with inputs of the same kind replay the graph. Inputs are of the same kind if structure,
    shapes, strides, dtypes, aliasing, autocast and all values other than hpu tensors agree
    (`pytree_keys.input_key`). A call inside another capture, or with inputs for which no key exists, runs
    without a graph. Results have no autograd history, so use this function for inference only.

    Args:
        module: the module, which is changed in place.
        asynchronous: replays return before their work is finished.
        disable_tensor_cache: create new results at each call. Otherwise each replay of a graph returns the
            same tensors and overwrites them. ``PT_HPUGRAPH_DISABLE_TENSOR_CACHE`` has the same effect.
        dry_run: capture without executing, then replay. None: use ``PT_HPUGRAPH_ENABLE_DRY_RUN``.
        max_graphs: maximum number of graphs; further kinds of inputs run without a graph. None: no limit.
        free_inplace: accepted, not used (see `HPUGraph.mark_user_outputs`).
        verbose: print the numbers of captures and replays every `log_frequency` calls.
        log_frequency: with `verbose`, number of calls between two printed lines.

    Returns:
        The module. Its calls also accept the arguments `bypass_hpu_graphs` (run without a graph),
        `warmup_mode` and `cache_tensors_list`. Its methods `clear_cache()` and `clear_inputs()` free memory.
    """
    cache = GraphCache(
        module.forward,
        asynchronous,
        disable_tensor_cache,
        dry_run,
        max_graphs,
        verbose,
        log_frequency,
        lambda: module.training,
    )
    # functools.wraps keeps the original signature visible to `inspect.signature`.
    forward = functools.wraps(module.forward)(
        lambda *args, **kwargs: call_without_dynamo(cache, *args, **kwargs)
    )
    setattr(forward, GRAPHED_FORWARD_ATTRIBUTE, True)
    module.forward = forward
    module.clear_cache = cache.clear_cache  # type: ignore[assignment]
    module.clear_inputs = cache.clear_inputs  # type: ignore[assignment]
    return module


def wrap_in_hpu_graph_func(
    func: Callable[..., Any],
    asynchronous: bool = False,
    disable_tensor_cache: bool = False,
    dry_run: bool | None = None,
    max_graphs: int | None = None,
    free_inplace: bool = True,
    verbose: bool = False,
    log_frequency: int = 100,
) -> Callable[..., Any]:
    """Return a function that captures a graph for each kind of inputs, and later replays the graph.

    Args:
        func: the function to wrap.
        asynchronous, disable_tensor_cache, dry_run, max_graphs: see `wrap_in_hpu_graph`.
        free_inplace, verbose, log_frequency: see `wrap_in_hpu_graph`.

    Returns:
        The new function, with the attributes `clear_cache` and `clear_inputs`, functions that free memory.
    """
    cache = GraphCache(
        func, asynchronous, disable_tensor_cache, dry_run, max_graphs, verbose, log_frequency, lambda: None
    )
    wrapped = functools.wraps(func)(lambda *args, **kwargs: call_without_dynamo(cache, *args, **kwargs))
    wrapped.clear_cache = cache.clear_cache  # type: ignore[attr-defined]
    wrapped.clear_inputs = cache.clear_inputs  # type: ignore[attr-defined]
    return wrapped
