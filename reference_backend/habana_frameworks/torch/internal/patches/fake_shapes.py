"""Give fake hpu tensors the shapes and strides that the device's kernels produce.

The device runs the CPU's kernels. For some operators, torch derives the metadata of a fake result from the
device type, or from the kernel of the device type. The metadata for hpu then differs from the metadata for
the CPU. This module computes the metadata of these operators on fake CPU tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

import torch
from torch.utils import _pytree as pytree

#: Operators whose fake implementation depends on the memory format of the kernel that torch would select.
_CONVOLUTIONS = (
    "convolution.default",
    "_convolution.default",
    "_convolution.deprecated",
    "convolution_backward.default",
)

#: Operators whose Meta kernel chooses the strides of the result by the device type.
_BY_DEVICE = ("nonzero_static.default",)


def patch_fake_metadata(fake_impls: ModuleType) -> None:
    """Change `torch._subclasses.fake_impls` so that fake hpu results have the metadata of CPU results."""
    implementations = fake_impls.op_implementations_dict
    for name in _CONVOLUTIONS:
        operator = _aten_operator(name)
        if operator in implementations:
            implementations[operator] = _wrap_fake_implementation(implementations[operator])
    for name in _BY_DEVICE:
        operator = _aten_operator(name)
        implementations.setdefault(operator, _wrap_fake_implementation(_run_operator))


def _aten_operator(name: str) -> Any:
    packet, overload = name.split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


def _run_operator(fake_mode: Any, operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an operator as torch does for operators without an entry in ``op_implementations_dict``."""
    with fake_mode:
        return operator(*args, **kwargs)


def _wrap_fake_implementation(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def implementation(fake_mode: Any, operator: Any, *args: Any, **kwargs: Any) -> Any:
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if any(tensor.device.type != DEVICE_TYPE for tensor in tensors):
            if original is _run_operator:
                return NotImplemented
            return original(fake_mode, operator, *args, **kwargs)
        with fake_mode:
            args, kwargs = pytree.tree_map_only(torch.Tensor, _make_empty_copier("cpu"), (args, kwargs))
        result = original(fake_mode, operator, *args, **kwargs)
        with fake_mode:
            return pytree.tree_map_only(torch.Tensor, _make_empty_copier(f"{DEVICE_TYPE}:0"), result)

    return implementation


def _make_empty_copier(device: str) -> Callable[[torch.Tensor], torch.Tensor]:
    def make(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device)

    return make
