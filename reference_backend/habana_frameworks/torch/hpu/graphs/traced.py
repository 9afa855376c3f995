"""Modules of `torch.jit.trace` on hpu: each kind of inputs runs as one graph."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from typing import Any

from habana_frameworks.torch.internal.settings.mode import is_lazy

import torch
from torch.jit._trace import TopLevelTracedModule, is_tracing

from .callables import GraphedPasses, parameters_of
from .capture import is_current_stream_capturing
from .inference import GraphCache
from .pytree_keys import Uncacheable, input_key, tensors_of

#: Maximum number of graphs of a module, and of pairs of graphs (forward, backward). A call with further kinds
#: of inputs runs operator by operator.
_MAX_GRAPHS = 32


class GraphedTracedModule(TopLevelTracedModule):
    """A module of `torch.jit.trace` whose calls replay a graph."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module, through a graph if possible."""
        return self.__dict__["_hpu_graphs"](*args, **kwargs)


def run_traced_as_graph(traced: TopLevelTracedModule) -> None:
    """Make the calls of a traced module run as one graph per kind of inputs. The module is changed in place.

    The first call of a kind captures the graph, and the later calls launch it. If a call needs gradients, its
    forward is one graph, and its backward is another one. A module that cannot be captured runs operator by
    operator, as the fallback of a graph, and a warning names the reason. In lazy mode nothing is changed: a
    lazy graph contains the whole module already.
    """
    if is_lazy():
        return
    traced.__dict__["_hpu_graphs"] = _TracedGraphs(traced)
    # The module's own __setattr__ sets attributes of the script module that it wraps.
    object.__setattr__(traced, "__class__", GraphedTracedModule)


class _TracedGraphs:
    def __init__(self, traced: TopLevelTracedModule) -> None:
        self._traced = traced
        self._inference = GraphCache(
            self._run_operators,
            asynchronous=False,
            disable_tensor_cache=True,
            dry_run=True,
            max_graphs=_MAX_GRAPHS,
            verbose=False,
            log_frequency=1,
            state=self._state,
        )
        self._training: dict[Hashable, GraphedPasses] = {}
        self._works = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._works or self._has_hooks() or is_current_stream_capturing() or is_tracing():
            return self._run_operators(*args, **kwargs)
        try:
            if self._needs_gradients(args, kwargs):
                return self._differentiable(args, kwargs)
            return self._inference(*args, **kwargs)
        except Uncacheable:
            return self._run_operators(*args, **kwargs)
        except (AssertionError, RuntimeError, NotImplementedError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            # If the call itself is wrong, it raises its own error here.
            results = self._run_operators(*args, **kwargs)
            self._works = False
            warnings.warn(
                f"{self._traced.original_name} of torch.jit.trace is not one graph on hpu, so it runs "
                f"operator by operator: {str(error).strip().splitlines()[0]}",
                stacklevel=3,
            )
            return results

    def _run_operators(self, *args: Any, **kwargs: Any) -> Any:
        return TopLevelTracedModule.__call__(self._traced, *args, **kwargs)

    def _differentiable(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        key = (self._state(), input_key((args, kwargs)))
        passes = self._training.get(key)
        if passes is None:
            if len(self._training) >= _MAX_GRAPHS:
                return self._run_operators(*args, **kwargs)
            passes = self._training[key] = GraphedPasses(
                self._run_operators,
                parameters_of(self._traced),
                args,
                sample_keywords=kwargs,
                allow_unused_input=True,
                dry_run=True,
            )
        return passes(*args, **kwargs)

    def _state(self) -> Hashable:
        """Return everything beside the inputs that a capture depends on."""
        tensors = [*self._traced.parameters(), *self._traced.buffers()]
        return (
            self._traced.training,
            tuple((tensor.data_ptr(), tensor.requires_grad, tensor.dtype) for tensor in tensors),
        )

    def _has_hooks(self) -> bool:
        return bool(self._traced._forward_hooks or self._traced._forward_pre_hooks)

    def _needs_gradients(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return torch.is_grad_enabled() and any(
            tensor.requires_grad for tensor in (*tensors_of((args, kwargs)), *self._traced.parameters())
        )
