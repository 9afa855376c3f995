"""Prepare a model and the device for inference. Each function is also available under older names."""

from __future__ import annotations

from typing import Any

from habana_frameworks.torch.hpu import flags
from habana_frameworks.torch.internal.fuse_conv_bn import fuse

import torch

from . import quantization


def hpu_set_env(model: torch.nn.Module | None = None) -> torch.nn.Module | None:
    """Enable the flags for inference, and fold the batch norms of a model into its convolutions.

    The flags are inference mode and the reshape of 3-d matrix products to 2-d.

    Args:
        model: a model in evaluation mode, on the CPU, and traceable by `torch.fx`. For any other model, the
            function prints the reason and returns the model unchanged.

    Returns:
        A new, folded model; or `model` itself, if it was not folded.
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
        mark_scales: mark the quantization scales, unless `hpu.set_mark_scale_const` has disabled marking.
        mark_non_scales: mark all other tensors, unless `hpu.set_mark_non_scale_const` has disabled marking.

    Raises:
        RuntimeError: a parameter or buffer is not on hpu.
    """
    if model is not None:
        scales, non_scales = flags._const_marking_options()
        quantization._mark_params_as_const(
            model,
            scales=mark_scales and scales,
            non_scales=mark_non_scales and non_scales and not mark_only_scales_as_const,
        )


def hpu_reset_env() -> None:
    """Disable the flags that `hpu_set_env` enables: inference mode and the reshape of matrix products."""
    flags.disable_inference_mode()
    flags.disable_matmul3d_2d_reshape()


hpu_inference_set_env = hpu_set_inference_env = hpu_set_env
hpu_inference_initialize = hpu_initialize
hpu_inference_reset_env = hpu_teardown_inference_env = hpu_reset_env
