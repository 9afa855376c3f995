"""Experimental functions of the Gaudi bridge: device properties, recompilation, emulated peers."""

from __future__ import annotations

from habana_frameworks.torch import hpu
from habana_frameworks.torch.hpu.properties import simulated_device_type, synDeviceType

import torch

from . import detect_recompilation, distributed_emulation
from .detect_recompilation import (
    const_shape_dataloader,
    data_dynamicity,
    detect_recompilation_auto_model,
    get_shape,
)
from .hardware import _record_params, _reset_device_memory, _set_profiler_tracer_memory

__all__ = [
    "_compute_stream",
    "_data_ptr",
    "_get_device_type",
    "_is_fp16_supported",
    "_record_params",
    "_reset_device_memory",
    "_set_profiler_tracer_memory",
    "const_shape_dataloader",
    "data_dynamicity",
    "detect_recompilation",
    "detect_recompilation_auto_model",
    "distributed_emulation",
    "get_shape",
    "hpu",
    "synDeviceType",
]


def _data_ptr(tensor: torch.Tensor) -> int:
    """Return the device address of a tensor's first element. The host cannot access this address."""
    return tensor.data_ptr()


def _get_device_type() -> synDeviceType:
    """Return the Gaudi generation that the device simulates, as a member of `synDeviceType`."""
    return simulated_device_type()


def _is_fp16_supported() -> bool:
    """Return whether the simulated Gaudi supports float16. The first generation does not."""
    return simulated_device_type() != synDeviceType.synDeviceGaudi


def _compute_stream() -> int:
    """Return the id of the current stream."""
    return hpu.current_stream().stream_id
