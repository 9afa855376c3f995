"""Modules of `torch.jit.trace` on hpu: each kind of inputs runs as one graph."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Hashable
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE
from habana_frameworks.torch.internal.settings.mode import is_lazy

import torch
from torch.autograd import forward_ad
from torch.jit._trace import TopLevelTracedModule, is_tracing
from torch.nn.modules import module as module_hooks
from torch.utils._python_dispatch import _get_current_dispatch_mode

from .capture import is_current_stream_capturing
from .inference import GraphCache, call_without_dynamo
from .pytree_keys import Uncacheable, tensors_of

#: Maximum number of graphs of a module. A call with a further kind of inputs runs operator by operator.
_MAX_GRAPHS = 32
#: One thread of the process captures at a time, because all captures use one stream.
_capture_lock = threading.RLock()


class GraphedTracedModule(TopLevelTracedModule):
    """A module of `torch.jit.trace` whose calls replay a graph."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module, through a graph if possible."""
        return call_without_dynamo(self.__dict__["_hpu_graphs"], *args, **kwargs)


def run_traced_as_graph(traced: TopLevelTracedModule) -> None:
    """Make the calls of a traced module run as one graph per kind of inputs. The module is changed in place.

    The first call of a kind captures the graph, and the later calls launch it. These calls run operator by
    operator: calls that need gradients; calls of a module with hooks, or with a parameter or a buffer that is
    not on hpu; calls inside another capture, or while a dispatch mode observes operators. If a module cannot
    be captured, all its calls do, and a warning names the reason. In lazy mode nothing is changed: a lazy
    graph contains the whole module already.
    """
    if is_lazy():
        return
    traced.__dict__["_hpu_graphs"] = _TracedGraphs(traced)
    # The module's own __setattr__ sets attributes of the script module that it wraps.
    object.__setattr__(traced, "__class__", GraphedTracedModule)


class _TracedGraphs:
    def __init__(self, traced: TopLevelTracedModule) -> None:
        self._traced = traced
        self._cache = GraphCache(
            self._run_operators,
            asynchronous=False,
            disable_tensor_cache=True,
            dry_run=True,
            max_graphs=_MAX_GRAPHS,
            verbose=False,
            log_frequency=1,
            state=lambda: None,
        )
        self._state: Hashable = None
        self._can_capture = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._can_capture or self._must_run_operators(args, kwargs):
            return self._run_operators(*args, **kwargs)
        try:
            with _capture_lock:
                self._forget_graphs_of_other_state()
                return self._cache(*args, **kwargs)
        except Uncacheable:
            return self._run_operators(*args, **kwargs)
        except (AssertionError, RuntimeError, NotImplementedError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            # If the call itself is wrong, it raises its own error here.
            results = self._run_operators(*args, **kwargs)
            self._can_capture = False
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            warnings.warn(
                f"the traced module {self._traced.original_name} cannot be captured as a graph, so it runs "
                f"operator by operator: {reason}",
                stacklevel=4,
            )
            return results

    def _run_operators(self, *args: Any, **kwargs: Any) -> Any:
        return TopLevelTracedModule.__call__(self._traced, *args, **kwargs)

    def _must_run_operators(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        own = [*self._traced.parameters(), *self._traced.buffers()]
        inputs = tensors_of((args, kwargs))
        return (
            any(tensor.device.type != DEVICE_TYPE for tensor in own)
            or any(type(tensor) not in (torch.Tensor, torch.nn.Parameter) for tensor in inputs)
            or (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (*inputs, *own)))
            or forward_ad._current_level >= 0
            or _get_current_dispatch_mode() is not None
            or bool(self._traced._forward_hooks or self._traced._forward_pre_hooks)
            or module_hooks._has_any_global_hook()
            or is_current_stream_capturing()
            or is_tracing()
        )

    def _forget_graphs_of_other_state(self) -> None:
        """Remove all graphs if a parameter or buffer was replaced, because they read the old one."""
        tensors = [*self._traced.parameters(), *self._traced.buffers()]
        state = (
            self._traced.training,
            tuple((tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()) for tensor in tensors),
        )
        if state != self._state:
            self._cache.clear_cache()
            self._state = state
