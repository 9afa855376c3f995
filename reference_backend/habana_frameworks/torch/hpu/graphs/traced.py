"""Make modules of `torch.jit.trace` run as captured graphs on hpu, one graph for each kind of inputs."""

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

#: Maximum number of graphs of a module. Above the maximum, new kinds of inputs run operator by operator.
_MAX_GRAPHS = 32
#: One thread of the process captures at a time, because all captures use one stream.
_capture_lock = threading.RLock()


class GraphedTracedModule(TopLevelTracedModule):
    """A module of `torch.jit.trace` whose calls capture and replay graphs."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module: replay or capture a graph if possible, else run operator by operator."""
        return call_without_dynamo(self.__dict__["_hpu_graphs"], *args, **kwargs)


def run_traced_as_graph(traced: TopLevelTracedModule) -> None:
    """Change a traced module in place, so that its calls capture and replay one graph per kind of inputs.

    The following calls still run operator by operator:

    - calls that need gradients;
    - calls of a module with hooks, or with a parameter or a buffer that is not on hpu;
    - calls inside another capture, or while a dispatch mode observes operators;
    - all calls of a module that cannot be captured. A warning gives the reason.

    In lazy mode this function does nothing, because a lazy graph already contains the whole module.
    """
    if is_lazy():
        return
    traced.__dict__["_hpu_graphs"] = _TracedGraphs(traced)
    # The module's own __setattr__ would set the attribute of the wrapped script module.
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
                self._clear_graphs_if_state_changed()
                return self._cache(*args, **kwargs)
        except Uncacheable:
            return self._run_operators(*args, **kwargs)
        except (AssertionError, RuntimeError, NotImplementedError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            # If the call itself is wrong, such as a wrong shape, the operators raise the error here.
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

    def _clear_graphs_if_state_changed(self) -> None:
        """Remove all graphs if the mode, a parameter or a buffer has changed since the last call.

        The graphs read the memory of the parameters and buffers with which they were captured.
        """
        tensors = [*self._traced.parameters(), *self._traced.buffers()]
        state = (
            self._traced.training,
            tuple((tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()) for tensor in tensors),
        )
        if state != self._state:
            self._cache.clear_cache()
            self._state = state
