"""Core of the bridge: steps, inference settings, and the patches to torch; by convention ``htcore``."""

from __future__ import annotations

from habana_frameworks.torch import hpu
from habana_frameworks.torch.internal.patches.registration import register_device_module
from habana_frameworks.torch.utils import debug as htdebug
from habana_frameworks.torch.utils import experimental as htexp
from habana_frameworks.torch.utils.internal import is_lazy

from . import quantization, step_closure, torch_overwrites
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

register_device_module(hpu)
torch_overwrites.apply()

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
]
