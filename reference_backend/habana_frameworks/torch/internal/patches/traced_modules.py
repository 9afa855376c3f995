"""Make a module that `torch.jit.trace` returns run as one graph on hpu."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE, device_module

import torch
from torch.jit._trace import TopLevelTracedModule
from torch.utils._pytree import tree_leaves

from .wrap_function import replace_function


def patch_jit_trace() -> None:
    """Make `torch.jit.trace` return modules on hpu that capture and replay graphs."""
    replace_function(torch.jit, "trace", _wrap_trace)


def _wrap_trace(original: Callable[..., Any]) -> Callable[..., Any]:
    def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        traced = original(func, example_inputs, *args, **kwargs)
        examples = (example_inputs, kwargs.get("example_kwarg_inputs"))
        if isinstance(traced, TopLevelTracedModule) and _is_on_hpu(traced, examples):
            device_module().graphs.run_traced_as_graph(traced)
        return traced

    return trace


def _is_on_hpu(module: torch.nn.Module, example_inputs: Any) -> bool:
    values = [*module.parameters(), *module.buffers(), *tree_leaves(example_inputs)]
    return any(isinstance(value, torch.Tensor) and value.device.type == DEVICE_TYPE for value in values)
