"""Give fake hpu tensors the strides of the eager results.

torch has a rule for hpu: fake tensors and reference implementations make the results of elementwise, indexing
and convolution operators contiguous, as on Gaudi hardware. The reference device runs the CPU's kernels and
preserves strides like the CPU. Fake tensors must have the strides of eager results, so the rule is disabled:
`torch._subclasses.fake_impls.is_noncontiguous_supported` and the function of the same name in `torch._refs`
are patched to return True for hpu, and fake convolutions use the strides of the CPU (`fake_shapes`). The
patches are applied when the two modules are imported. Other devices are not affected.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

from .fake_shapes import patch_fake_metadata
from .import_hooks import run_after_import
from .wrap_function import replace_function


def patch_fake_strides() -> None:
    """Patch torch so that fake hpu tensors have the strides of eager results."""
    for name in ("torch._subclasses.fake_impls", "torch._refs"):
        run_after_import(name, _patch_contiguity_rule)
    run_after_import("torch._subclasses.fake_impls", patch_fake_metadata)


def _patch_contiguity_rule(module: ModuleType) -> None:
    if hasattr(module, "is_noncontiguous_supported"):
        replace_function(module, "is_noncontiguous_supported", _wrap_is_noncontiguous_supported)


def _wrap_is_noncontiguous_supported(original: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def is_noncontiguous_supported(device: Any) -> bool:
        return (device is not None and device.type == DEVICE_TYPE) or original(device)

    return is_noncontiguous_supported
