"""Make the public torchvision wheel importable next to a CPU build of torch, with its operators on hpu.

The public wheel is a CUDA build. Its compiled operators do not load with a CPU build of torch, so its import
fails because operator schemas are missing. This module defines the schemas; models, transforms and datasets
then work. Only three operators have kernels here: `nms` for hpu tensors, and `roi_align` and
`deform_conv2d` for all devices. Calling any other operator raises an error that names the operator.
"""

from __future__ import annotations

from types import ModuleType

import torch

from ..device_type import DISPATCH_KEY
from ..operators import vision
from .import_hooks import run_after_import

_BOXES = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_REGIONS = "Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
_NUMBERS = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
    "SymInt groups, SymInt offset_groups, bool use_mask"
)
_TENSORS = "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
_SCHEMAS = {
    "nms": _BOXES,
    "qnms": _BOXES,
    "roi_align": f"(Tensor input, {_REGIONS}int sampling_ratio, bool aligned) -> Tensor",
    "_roi_align_backward": (
        f"(Tensor grad, {_REGIONS}SymInt batch_size, SymInt channels, SymInt height, SymInt width, "
        "int sampling_ratio, bool aligned) -> Tensor"
    ),
    "deform_conv2d": f"({_TENSORS}{_NUMBERS}) -> Tensor",
    "_deform_conv2d_backward": (
        f"(Tensor grad, {_TENSORS}{_NUMBERS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
    ),
}
_KERNELS = {
    "nms": (vision.nms_indices, DISPATCH_KEY),
    "roi_align": (vision.roi_align, "CompositeImplicitAutograd"),
    "_roi_align_backward": (vision.roi_align_backward, "CompositeImplicitAutograd"),
    "deform_conv2d": (vision.deform_conv2d, "CompositeImplicitAutograd"),
    "_deform_conv2d_backward": (vision.deform_conv2d_backward, "CompositeImplicitAutograd"),
}

_library: torch.library.Library | None = None


def define_torchvision_operators() -> None:
    """Define the operators after torchvision has failed to load its own operators."""
    run_after_import("torchvision.extension", _define_missing)


def _define_missing(extension: ModuleType) -> None:
    global _library
    if getattr(extension, "_HAS_OPS", False) or _library is not None:
        return
    missing = [name for name in _SCHEMAS if not _is_operator_defined(name)]
    if not missing:
        return
    _library = torch.library.Library("torchvision", "FRAGMENT")
    for name in missing:
        _library.define(name + _SCHEMAS[name])
        if name in _KERNELS:
            _library.impl(name, *_KERNELS[name])
    # torchvision's functions call `_assert_has_ops` first. After this change, a missing operator raises its
    # own error.
    extension._assert_has_ops = lambda: None  # type: ignore[attr-defined]


def _is_operator_defined(name: str) -> bool:
    return f"torchvision::{name}" in torch._C._dispatch_get_all_op_names()
