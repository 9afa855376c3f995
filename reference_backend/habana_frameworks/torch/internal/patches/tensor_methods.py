"""Add the methods of the device, ``hpu()`` and ``is_hpu``, to tensors, modules and packed sequences."""

from __future__ import annotations

from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE, device_module

import torch
from torch.nn.utils.rnn import PackedSequence
from torch.overrides import handle_torch_function, has_torch_function_unary


def add_hpu_methods() -> None:
    """Add the methods, named by `DEVICE_TYPE`, to torch's classes that do not have them."""
    for owner, name, value in (
        (torch.Tensor, DEVICE_TYPE, _tensor_hpu),
        (torch.Tensor, f"is_{DEVICE_TYPE}", property(_is_hpu)),
        (torch.nn.Module, DEVICE_TYPE, _module_hpu),
        (PackedSequence, DEVICE_TYPE, _packed_sequence_hpu),
        (PackedSequence, f"is_{DEVICE_TYPE}", property(_packed_sequence_is_hpu)),
    ):
        # A fork-like build or a later release of torch may define the attribute itself.
        if not hasattr(owner, name):
            setattr(owner, name, value)


def _tensor_hpu(
    self: torch.Tensor,
    device: Any = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> torch.Tensor:
    """Return a copy of the tensor on hpu, or the tensor itself if it is already on hpu.

    Args:
        device: an hpu device or an index; by default the current device.
        non_blocking: do not wait for the copy if the source is pinned.
        memory_format: memory format of the copy.

    Raises:
        ValueError: `device` is not an hpu device.
    """
    if has_torch_function_unary(self):
        return handle_torch_function(
            _tensor_hpu, (self,), self, device=device, non_blocking=non_blocking, memory_format=memory_format
        )
    index = device_module()._utils._get_device_index(device, optional=True)
    return self.to(torch.device(DEVICE_TYPE, index), non_blocking=non_blocking, memory_format=memory_format)


def _is_hpu(self: torch.Tensor) -> bool:
    """Return whether the tensor is on hpu."""
    return self.device.type == DEVICE_TYPE


def _module_hpu(self: torch.nn.Module, device: Any = None) -> torch.nn.Module:
    """Move all parameters and buffers to hpu, in place, and return the module."""
    moved: torch.nn.Module = self._apply(lambda tensor: _tensor_hpu(tensor, device))
    return moved


def _packed_sequence_hpu(
    self: PackedSequence, device: Any = None, non_blocking: bool = False
) -> PackedSequence:
    """Return a copy of the sequence on hpu, or the sequence itself if it is already on hpu."""
    index = device_module()._utils._get_device_index(device, optional=True)
    return self.to(torch.device(DEVICE_TYPE, index), non_blocking=non_blocking)  # type: ignore[arg-type]


def _packed_sequence_is_hpu(self: PackedSequence) -> bool:
    """Return whether the data of the sequence is on hpu."""
    return self.data.device.type == DEVICE_TYPE
