"""Make `torch.compile` use ``hpu_backend`` by default, and reject modules wrapped in an HPU graph."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

import torch
from torch.utils._pytree import tree_leaves

from .import_hooks import run_after_import
from .wrap_function import replace_function

#: Name of the attribute that marks a forward installed by `wrap_in_hpu_graph`.
GRAPHED_FORWARD_ATTRIBUTE = "_runs_hpu_graphs"


def patch_inductor_compile_fx() -> None:
    """Make Inductor pass graphs with hpu tensors to ``hpu_backend``.

    Inductor is the default backend of `torch.compile`, and cannot generate code for hpu. One warning per
    process reports that ``hpu_backend`` is used.
    """
    run_after_import(
        "torch._inductor.compile_fx", lambda module: replace_function(module, "compile_fx", _wrap_compile_fx)
    )


def patch_torch_compile() -> None:
    """Make `torch.compile` raise an error for a module that `wrap_in_hpu_graph` has changed."""
    replace_function(torch, "compile", _wrap_compile)


def _wrap_compile_fx(original: Callable[..., Any]) -> Callable[..., Any]:
    def compile_fx(model_: Any, example_inputs_: Any, *args: Any, **kwargs: Any) -> Any:
        if not _uses_hpu(model_, example_inputs_):
            return original(model_, example_inputs_, *args, **kwargs)
        _warn_once(
            "torch.compile uses the backend 'hpu_backend' for hpu tensors, because Inductor cannot generate "
            "code for hpu. Options of Inductor are ignored."
        )
        return torch._dynamo.lookup_backend("hpu_backend")(model_, example_inputs_)

    return compile_fx


@functools.cache
def _warn_once(message: str) -> None:
    warnings.warn(message, stacklevel=3)


def _uses_hpu(model: Any, example_inputs: Any) -> bool:
    tensors = [value for value in example_inputs if isinstance(value, torch.Tensor)]
    if isinstance(model, torch.nn.Module):
        tensors += [*model.parameters(), *model.buffers()]
    if any(tensor.device.type == DEVICE_TYPE for tensor in tensors):
        return True
    nodes = model.graph.nodes if isinstance(model, torch.fx.GraphModule) else ()
    values = tree_leaves([node.meta.get("example_value", node.meta.get("val")) for node in nodes])
    return any(isinstance(value, torch.Tensor) and value.device.type == DEVICE_TYPE for value in values)


def _wrap_compile(original: Callable[..., Any]) -> Callable[..., Any]:
    def compile(model: Any = None, *args: Any, **kwargs: Any) -> Any:
        # Module.compile passes the bound method _call_impl.
        names = ("_call_impl", "forward", "__call__")
        is_call = getattr(model, "__name__", "") in names and hasattr(model, "__self__")
        module = model.__self__ if is_call else model
        for name, part in module.named_modules() if isinstance(module, torch.nn.Module) else ():
            if hasattr(vars(part).get("forward"), GRAPHED_FORWARD_ATTRIBUTE):
                raise RuntimeError(
                    f"torch.compile of {f'the submodule {name}' if name else type(part).__name__} is not "
                    "supported, because wrap_in_hpu_graph has replaced its forward. Use only one of the two."
                )
        return original(model, *args, **kwargs)

    return compile
