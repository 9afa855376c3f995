"""Makes the public torchvision wheel importable next to a CPU build of torch.

The wheel on the public index is a CUDA build, whose compiled operators do not load there; its import then
fails because two operator schemas are missing. With the schemas its models, transforms and datasets work;
calling the operators themselves is an error that names them.
"""

from __future__ import annotations

from types import ModuleType

import torch

from .import_hooks import when_imported

_SCHEMAS = ("nms", "qnms")

_library: torch.library.Library | None = None


def install() -> None:
    """Define the schemas after torchvision has failed to load its own operators."""
    when_imported("torchvision.extension", _define_missing)


def _define_missing(extension: ModuleType) -> None:
    global _library
    if getattr(extension, "_HAS_OPS", False) or _library is not None:
        return
    missing = [name for name in _SCHEMAS if not _exists(name)]
    if missing:
        _library = torch.library.Library("torchvision", "FRAGMENT")
        for name in missing:
            _library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def _exists(name: str) -> bool:
    return f"torchvision::{name}" in torch._C._dispatch_get_all_op_names()
