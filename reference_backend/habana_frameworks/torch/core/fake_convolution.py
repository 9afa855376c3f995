"""Fake convolutions on hpu, with the strides that the device gives.

torch finds out the memory format of a fake convolution by asking which implementation would run. For hpu the
answer is one that says nothing about formats, while the device runs the CPU's. So the question is put for the
CPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch.utils import _pytree as pytree

_OPERATORS = (
    "convolution.default",
    "_convolution.default",
    "_convolution.deprecated",
    "convolution_backward.default",
)


def ask_the_cpu(fake_impls: ModuleType) -> None:
    """Replace the implementations of convolution in `torch._subclasses.fake_impls` by ones that know hpu."""
    implementations = fake_impls.op_implementations_dict
    for name in _OPERATORS:
        packet, overload = name.split(".")
        operator = getattr(getattr(torch.ops.aten, packet), overload)
        if operator in implementations:
            implementations[operator] = _asking(implementations[operator])


def _asking(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def convolution(fake_mode: Any, operator: Any, *args: Any, **kwargs: Any) -> Any:
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if any(tensor.device.type != "hpu" for tensor in tensors):
            return original(fake_mode, operator, *args, **kwargs)
        with fake_mode:
            args, kwargs = pytree.tree_map_only(torch.Tensor, _like("cpu"), (args, kwargs))
        result = original(fake_mode, operator, *args, **kwargs)
        with fake_mode:
            return pytree.tree_map_only(torch.Tensor, _like("hpu:0"), result)

    return convolution


def _like(device: str) -> Callable[[torch.Tensor], torch.Tensor]:
    def make(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device)

    return make
