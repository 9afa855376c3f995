"""Make Inductor, which cannot generate code for hpu, raise a clear error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .import_hooks import when_imported
from .wrap_function import replace_function


def refuse_hpu() -> None:
    """Make Inductor reject hpu tensors before it compiles."""
    when_imported(
        "torch._inductor.compile_fx", lambda module: replace_function(module, "compile_fx", _wrap_compile_fx)
    )


def _wrap_compile_fx(original: Callable[..., Any]) -> Callable[..., Any]:
    def compile_fx(model_: Any, example_inputs_: Any, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(value, torch.Tensor) and value.device.type == "hpu" for value in example_inputs_):
            raise RuntimeError(
                "Inductor does not compile for hpu tensors. Use torch.compile(..., backend='hpu_backend')."
            )
        return original(model_, example_inputs_, *args, **kwargs)

    return compile_fx
