"""Average gradients under FSDP2 without NCCL's averaging operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

from .import_hooks import run_after_import
from .wrap_function import replace_function

#: Parameter of `_get_gradient_divide_factors` that selects a sum followed by a division.
_BY_SUM = "force_sum_reduction_for_comms"


def patch_fsdp_divide_factors() -> None:
    """Make FSDP2 sum gradients on hpu and divide afterwards, instead of using NCCL's averaging operator."""
    run_after_import("torch.distributed.fsdp._fully_shard._fsdp_collectives", _patch_fsdp_collectives)


def _patch_fsdp_collectives(module: ModuleType) -> None:
    # Older supported releases of torch do not have this private function.
    if hasattr(module, "_get_gradient_divide_factors"):
        replace_function(module, "_get_gradient_divide_factors", _wrap_gradient_divide_factors)


def _wrap_gradient_divide_factors(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    def get_gradient_divide_factors(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        if bound.arguments.get("device_type") == DEVICE_TYPE and _BY_SUM in signature.parameters:
            bound.arguments[_BY_SUM] = True
        return original(*bound.args, **bound.kwargs)

    return get_gradient_divide_factors
