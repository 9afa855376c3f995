"""The module that programs import as ``htcore``: steps of lazy mode, inference settings, patches to torch."""

from __future__ import annotations

import importlib
from typing import Any

from habana_frameworks.torch import hpu
from habana_frameworks.torch.internal.patches.registration import register_device_module
from habana_frameworks.torch.utils import debug as htdebug
from habana_frameworks.torch.utils import experimental as htexp
from habana_frameworks.torch.utils.internal import is_lazy

from . import quantization, step_closure, torch_overwrites, weight_sharing
from .inference import (
    hpu_inference_initialize,
    hpu_inference_reset_env,
    hpu_inference_set_env,
    hpu_initialize,
    hpu_reset_env,
    hpu_set_env,
    hpu_set_inference_env,
    hpu_teardown_inference_env,
)
from .step_closure import add_step_closure, iter_mark_step, mark_step

_NEED_TORCHAO = ("quantize_pt2e", "quantizer")


def __getattr__(name: str) -> Any:
    """Import the quantization modules at first use, because they need torchao."""
    if name in _NEED_TORCHAO:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


register_device_module(hpu)
torch_overwrites.apply_patches()

__all__ = [
    "add_step_closure",
    "hpu",
    "hpu_inference_initialize",
    "hpu_inference_reset_env",
    "hpu_inference_set_env",
    "hpu_initialize",
    "hpu_reset_env",
    "hpu_set_env",
    "hpu_set_inference_env",
    "hpu_teardown_inference_env",
    "htdebug",
    "htexp",
    "is_lazy",
    "iter_mark_step",
    "mark_step",
    "quantization",
    "step_closure",
    "torch_overwrites",
    "weight_sharing",
]
