"""Switches that enable or disable features of the device for the whole process."""

from __future__ import annotations

import warnings
from typing import NamedTuple

from habana_frameworks.torch import _C
from habana_frameworks.torch.internal.settings import bridge_config

import torch

_SYNC_MODES = {"default": False, "warn": True, "error": True}


class ConstSectionSerialization(NamedTuple):
    """Folder and options of the files to which constants of graphs are written."""

    path: str
    clear_path: bool
    use_compression: bool


_inference_mode = bool(bridge_config.value_of("PT_HPU_INFERENCE_MODE"))
_matmul3d_2d_reshape = bool(bridge_config.value_of("PT_HPU_MATMUL3D_2D_RESHAPE"))
_quantization = False
_mark_scales = _mark_non_scales = True
_const_section_serialization: ConstSectionSerialization | None = None


def apply_environment_flags() -> None:
    """Apply the environment variables for synchronous execution and compiled autograd, at import.

    The host waits for each operator if ``PT_ENABLE_HABANA_STREAMASYNC`` is false or ``PT_HPU_SYNC_LAUNCH`` is
    true. ``PT_HPU_ENABLE_COMPILED_AUTOGRAD`` enables Dynamo's compiled autograd.
    """
    if bridge_config.value_of("PT_HPU_SYNC_LAUNCH"):
        bridge_config.assign_flag("PT_ENABLE_HABANA_STREAMASYNC", False)
    _C.set_sync_debug_mode(not bridge_config.value_of("PT_ENABLE_HABANA_STREAMASYNC"))
    if bridge_config.value_of("PT_HPU_ENABLE_COMPILED_AUTOGRAD"):
        import torch._dynamo.config

        torch._dynamo.config.compiled_autograd = True


def enable_dynamic_shape() -> None:
    """Allow one compiled graph to serve a range of shapes (``PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES``)."""
    bridge_config.assign_flag("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES", True)


def disable_dynamic_shape() -> None:
    """Compile a separate graph for each shape."""
    bridge_config.assign_flag("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES", False)


def get_dynamic_shape_status() -> bool:
    """Return whether one compiled graph may serve a range of shapes.

    The environment variable ``PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES`` sets the initial value.
    """
    return bool(bridge_config.value_of("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES"))


def enable_optim_output_sif() -> None:
    """Enable faster inference of output shapes of dynamic operators (``PT_HPU_OPTIM_DYNAMIC_OUTPUT_SIF``)."""
    bridge_config.assign_flag("PT_HPU_OPTIM_DYNAMIC_OUTPUT_SIF", True)


def disable_optim_output_sif() -> None:
    """Undo `enable_optim_output_sif`, which is in effect by default."""
    bridge_config.assign_flag("PT_HPU_OPTIM_DYNAMIC_OUTPUT_SIF", False)


def enable_inference_mode() -> None:
    """Allow optimisations that are valid for inference only. This is not `torch.inference_mode`."""
    global _inference_mode
    _inference_mode = True


def disable_inference_mode() -> None:
    """Undo `enable_inference_mode`."""
    global _inference_mode
    _inference_mode = False


def is_inference_mode_enabled() -> bool:
    """Return whether `enable_inference_mode` is in effect (initially ``PT_HPU_INFERENCE_MODE``)."""
    return _inference_mode


def enable_quantization() -> None:
    """Allow optimisations that are valid for quantized models only."""
    global _quantization
    _quantization = True


def disable_quantization() -> None:
    """Undo `enable_quantization`."""
    global _quantization
    _quantization = False


def enable_matmul3d_2d_reshape() -> None:
    """Allow the product of a 3-d and a 2-d tensor to be computed as a product of 2-d tensors."""
    global _matmul3d_2d_reshape
    _matmul3d_2d_reshape = True


def disable_matmul3d_2d_reshape() -> None:
    """Undo `enable_matmul3d_2d_reshape`."""
    global _matmul3d_2d_reshape
    _matmul3d_2d_reshape = False


def is_matmul3d_2d_reshape_enabled() -> bool:
    """Return whether `enable_matmul3d_2d_reshape` is in effect (initially ``PT_HPU_MATMUL3D_2D_RESHAPE``)."""
    return _matmul3d_2d_reshape


def enable_const_section_serialization(path: str, clear_path: bool, use_compression: bool) -> None:
    """Store constants of graphs in files.

    Args:
        path: folder of the files.
        clear_path: empty the folder before the first file is written.
        use_compression: compress the files.
    """
    global _const_section_serialization
    _const_section_serialization = ConstSectionSerialization(path, clear_path, use_compression)


def disable_const_section_serialization() -> None:
    """Undo `enable_const_section_serialization`."""
    global _const_section_serialization
    _const_section_serialization = None


def set_mark_scale_const(value: bool) -> None:
    """Set whether `core.hpu_initialize` marks quantization scales as constant (initially true)."""
    global _mark_scales
    _mark_scales = bool(value)


def set_mark_non_scale_const(value: bool) -> None:
    """Set whether `core.hpu_initialize` marks tensors other than scales as constant (initially true)."""
    global _mark_non_scales
    _mark_non_scales = bool(value)


def _const_marking_options() -> tuple[bool, bool]:
    """Return whether `core.hpu_initialize` marks scales as constant, and whether all other tensors."""
    return _mark_scales, _mark_non_scales


def set_sync_debug_mode(debug_mode: bool | int | str) -> None:
    """Make the host wait for each operator, so that errors are raised by the call that causes them.

    Args:
        debug_mode: true, 1, 2, "warn" or "error" to wait; false, 0 or "default" not to wait.

    Raises:
        RuntimeError: ``debug_mode`` has any other value.
    """
    wait = _SYNC_MODES.get(debug_mode) if isinstance(debug_mode, str) else bool(debug_mode)
    if wait is None or (not isinstance(debug_mode, str) and debug_mode not in (0, 1, 2)):
        raise RuntimeError(
            f"{debug_mode!r} is not a synchronisation mode. Use 0 or 'default' for off, or 1, 2, 'warn' "
            "or 'error' for on."
        )
    bridge_config.assign_flag("PT_ENABLE_HABANA_STREAMASYNC", not wait)
    _C.set_sync_debug_mode(wait)


def get_sync_debug_mode() -> bool:
    """Return whether the host waits for each operator."""
    return bool(_C.get_sync_debug_mode())


def setDeterministic(val: bool) -> None:
    """Call `torch.use_deterministic_algorithms`. Deprecated: use that function instead."""
    warnings.warn(
        "setDeterministic is deprecated: use torch.use_deterministic_algorithms",
        DeprecationWarning,
        stacklevel=2,
    )
    torch.use_deterministic_algorithms(val)


def getDeterministic() -> bool:
    """Call `torch.are_deterministic_algorithms_enabled`. Deprecated: use that function instead."""
    warnings.warn(
        "getDeterministic is deprecated: use torch.are_deterministic_algorithms_enabled",
        DeprecationWarning,
        stacklevel=2,
    )
    return torch.are_deterministic_algorithms_enabled()
