"""`ModuleCacher`: training with a cache of captured graphs, one for each shape of the inputs."""

from __future__ import annotations

import copy
import logging
import warnings
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from habana_frameworks.torch.internal.settings import environment
from habana_frameworks.torch.internal.settings.mode import is_lazy

import torch

from .callables import GraphedPasses, parameters_of, require_graphable_module
from .capture import is_current_stream_capturing
from .pytree_keys import Uncacheable, describe, input_key

_logger = logging.getLogger(__name__)


class GraphedForward:
    """Replacement of a module's `forward` that captures and replays a graph for each kind of arguments.

    Arguments are of the same kind if `pytree_keys.input_key` returns the same key. Graphs are used while the
    module is in training mode and gradients are enabled; other calls run the original forward. Copies and
    pickles of the module start without graphs.

    Args:
        module: the module whose `forward` is replaced.
        max_graphs, use_lfu: see `ModuleCacher`.
        lazy_only: use graphs in lazy mode only.
        options: the remaining arguments of `ModuleCacher.__call__`.

    Attributes:
        hits: number of replays.
        captures: number of captures.
        bypasses: number of calls without a graph.
        evictions: number of removed graphs.
    """

    def __init__(
        self, module: torch.nn.Module, max_graphs: int, use_lfu: bool, lazy_only: bool, **options: Any
    ) -> None:
        self._module = module
        self._lazy_only = lazy_only
        # Store only a forward that is an attribute of the module itself. The forward of the module's class is
        # looked up at each call, because pickling a stored bound method would lead back to this object.
        self._own_forward = module.__dict__.get("forward")
        self._max_graphs = max_graphs
        self._use_lfu = use_lfu
        self._verbose = options.pop("verbose")
        self._log_frequency = max(1, options.pop("log_frequency"))
        self._options = options
        self._reset_graphs()

    def _reset_graphs(self) -> None:
        self._graphs: OrderedDict[Hashable, GraphedPasses] = OrderedDict()
        self._uses: dict[Hashable, int] = {}
        self._iteration = 0
        self._capturing = True
        self.hits = self.captures = self.bypasses = self.evictions = 0

    def __getstate__(self) -> dict[str, Any]:
        dropped = (
            "_graphs",
            "_uses",
            "_iteration",
            "_capturing",
            "hits",
            "captures",
            "bypasses",
            "evictions",
        )
        return {name: value for name, value in self.__dict__.items() if name not in dropped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset_graphs()

    def original(self, *arguments: Any, **keywords: Any) -> Any:
        """Run the original forward of the module."""
        if self._own_forward is not None:
            return self._own_forward(*arguments, **keywords)
        return type(self._module).forward(self._module, *arguments, **keywords)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run the module's forward: replay or capture a graph if possible, else call the original."""
        calls = self.hits + self.captures + self.bypasses
        if self._verbose and calls and calls % self._log_frequency == 0:
            self.log_stats()
        passes = self._graph_for_inputs(arguments, keywords)
        if passes is None:
            self.bypasses += 1
            return self.original(*arguments, **keywords)
        return passes(*arguments, **keywords)

    def _graph_for_inputs(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> GraphedPasses | None:
        if not (self._module.training and torch.is_grad_enabled()):
            return None
        if self._lazy_only and not is_lazy():
            return None
        if is_current_stream_capturing():
            return None
        try:
            key = input_key((arguments, keywords))
        except Uncacheable as reason:
            _logger.info("no graph for %s, because it contains %s", describe((arguments, keywords)), reason)
            return None
        if key in self._graphs:
            self.hits += 1
        elif not self._capturing or self._max_graphs < 1:
            return None
        else:
            try:
                passes = self._capture(arguments, keywords)
            except Uncacheable as reason:
                _logger.info(
                    "no graphs for %s, because its result contains %s", type(self._module).__name__, reason
                )
                self._capturing = False
                return None
            self.captures += 1
            self._evict_graphs()
            self._graphs[key] = passes
        self._uses[key] = self._uses.get(key, 0) + 1
        self._graphs.move_to_end(key)
        return self._graphs[key]

    def _capture(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> GraphedPasses:
        require_graphable_module(self._module)
        return GraphedPasses(
            self.original,
            parameters_of(self._module),
            arguments,
            sample_keywords=keywords,
            **self._options,
        )

    def _evict_graphs(self) -> None:
        while len(self._graphs) >= self._max_graphs:
            oldest = next(iter(self._graphs))
            # The dict is ordered by last use. So min returns the least recently used graph of the graphs with
            # the smallest number of uses.
            key = min(self._graphs, key=self._uses.__getitem__) if self._use_lfu else oldest
            del self._graphs[key], self._uses[key]
            self.evictions += 1

    def set_iteration_count(self, count: int) -> None:
        """Set the current iteration, which `log_stats` prints. The number has no other effect."""
        self._iteration = count

    def capture_start(self) -> None:
        """Capture a graph for each new input key from now on. This is the initial state."""
        self._capturing = True

    def capture_end(self) -> None:
        """Run calls with a new input key without a graph from now on."""
        self._capturing = False

    def log_stats(self) -> None:
        """Print the numbers of captures, replays, calls without a graph, and removed graphs."""
        print(
            f"HPU graphs of {type(self._module).__name__}, iteration {self._iteration}: {self.captures} "
            f"captured, {self.hits} replayed, {self.bypasses} calls without a graph, {self.evictions} removed"
        )


_CONTROLS = ("set_iteration_count", "capture_start", "capture_end", "log_stats")


class ModuleCacher:
    """Callable that makes a module train by capturing and replaying graphs.

    Args:
        max_graphs: maximum number of graphs per module. Above the maximum, the least recently used graph is
            removed.

    Calling the cacher with a module returns the module with a new `forward` and the methods
    `set_iteration_count`, `capture_start`, `capture_end` and `log_stats`. The cacher has these methods too;
    they apply to the module of its latest call. As in the public bridge, graphs are used in lazy mode only;
    in other modes the module works without graphs.
    """

    def __init__(self, max_graphs: int = 10) -> None:
        if max_graphs < 1:
            warnings.warn(
                f"max_graphs is {max_graphs}, so that no graph is captured. Use at least 1, or train without "
                "ModuleCacher.",
                RuntimeWarning,
                stacklevel=2,
            )
        self._max_graphs = max_graphs
        self._cache: GraphedForward | None = None

    def __call__(
        self,
        model: torch.nn.Module,
        use_lfu: bool = False,
        inplace: bool = True,
        allow_unused_input: bool = False,
        asynchronous: bool = False,
        have_grad_accumulation: bool = False,
        log_frequency: int = 100,
        verbose: bool = False,
        disable_tensor_cache: bool = False,
        dry_run: bool = False,
    ) -> torch.nn.Module:
        """Replace the `forward` of a module by a forward that captures and replays graphs.

        Args:
            model: a module without hooks and without buffers that require grad.
            use_lfu: remove the least often used graph instead of the least recently used graph.
            inplace: change `model` instead of a deep copy.
            allow_unused_input: accept inputs and parameters that get no gradient.
            asynchronous: replays return before their work is finished.
            have_grad_accumulation: accepted; gradients of graphs can always be accumulated.
            log_frequency: with `verbose`, number of calls between two printed lines.
            verbose: call `log_stats` every `log_frequency` calls.
            disable_tensor_cache: accepted, not used; results are never in the memory of a graph.
            dry_run: capture without executing, then replay; ``PT_HPUGRAPH_ENABLE_DRY_RUN`` has the same
                effect.

        Returns:
            `model`, or its copy if `inplace` is false. Calls of the returned module that capture a graph
            raise the errors of `make_graphed_callables`.
        """
        if not inplace:
            model = copy.deepcopy(model)
        self._cache = GraphedForward(
            model,
            self._max_graphs,
            use_lfu,
            lazy_only=True,
            allow_unused_input=allow_unused_input,
            asynchronous=asynchronous,
            log_frequency=log_frequency,
            verbose=verbose,
            dry_run=dry_run or bool(environment.read_variable("PT_HPUGRAPH_ENABLE_DRY_RUN", "bool", False)),
        )
        model.forward = self._cache
        for name in _CONTROLS:
            setattr(model, name, getattr(self._cache, name))
        return model

    def _latest_graphed_forward(self) -> GraphedForward:
        if self._cache is None:
            raise RuntimeError("this ModuleCacher has no module yet. Call it with a module first.")
        return self._cache

    def set_iteration_count(self, count: int) -> None:
        """Set the current iteration, which `log_stats` prints."""
        self._latest_graphed_forward().set_iteration_count(count)

    def capture_start(self) -> None:
        """Capture a graph for each new input key from now on."""
        self._latest_graphed_forward().capture_start()

    def capture_end(self) -> None:
        """Run calls with a new input key without a graph from now on."""
        self._latest_graphed_forward().capture_end()

    def log_stats(self) -> None:
        """Print the numbers of captures, replays, calls without a graph, and removed graphs."""
        self._latest_graphed_forward().log_stats()
