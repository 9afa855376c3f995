"""Prepare a model and the device for inference. Each function is also available under older names."""

from __future__ import annotations

from typing import Any

from habana_frameworks.torch.hpu import flags
from habana_frameworks.torch.internal.fuse_conv_bn import fuse

import torch

from . import quantization


def hpu_set_env(model: torch.nn.Module | None = None) -> torch.nn.Module | None:
    """Enable inference mode and the matmul reshape, and fold batch norms of a model into convolutions.

    Args:
        model: a model in evaluation mode, on the CPU, and traceable by `torch.fx`. Any other model stays
            unchanged, and the reason is printed.

    Returns:
        A new, folded model, or `model` unchanged.
    """
    flags.enable_inference_mode()
    flags.enable_matmul3d_2d_reshape()
    return None if model is None else fuse(model)


def hpu_initialize(
    model: torch.nn.Module | None = None,
    mark_only_scales_as_const: bool = False,
    optimizer: torch.optim.Optimizer | None = None,
    args: Any = None,
    *,
    mark_scales: bool = True,
    mark_non_scales: bool = True,
) -> None:
    """Mark the parameters and buffers of a model as constant.

    Args:
        model: a model on hpu. If it is None, the function does nothing.
        mark_only_scales_as_const: mark only the quantization scales.
        optimizer, args: accepted, not used.
        mark_scales, mark_non_scales: mark the quantization scales, and all other tensors, unless
            `hpu.set_mark_scale_const` or `hpu.set_mark_non_scale_const` has disabled it.

    Raises:
        RuntimeError: a parameter or buffer is not on hpu.
    """
    if model is not None:
        scales, non_scales = flags._marked_as_const()
        quantization._mark_params_as_const(
            model,
            scales=mark_scales and scales,
            non_scales=mark_non_scales and non_scales and not mark_only_scales_as_const,
        )


def hpu_reset_env() -> None:
    """Disable inference mode and the matmul reshape."""
    flags.disable_inference_mode()
    flags.disable_matmul3d_2d_reshape()


hpu_inference_set_env = hpu_set_inference_env = hpu_set_env
hpu_inference_initialize = hpu_initialize
hpu_inference_reset_env = hpu_teardown_inference_env = hpu_reset_env
