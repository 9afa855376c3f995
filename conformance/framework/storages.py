"""Read the storages of tensors. The tensors of some devices have no storage.

A device whose tensors are opaque (a handle of another framework, a node of a graph) raises an exception when
a program asks for the storage of a tensor. Values, dtypes and errors of such a device can still be
checked.
"""

from __future__ import annotations

import functools

import torch


@functools.cache
def _device_has_storages(device_type: str) -> bool:
    """Return whether tensors of a device have storages. The function creates a tensor to find out.

    It does not read the storage of a tensor under test. On a lazy device, this access may start the
    computation or raise its error, and both must happen in the check that reads the values.
    """
    try:
        torch.empty(1, device=device_type).untyped_storage().data_ptr()
    except RuntimeError:  # this includes NotImplementedError
        return False
    return True


def has_storage(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is strided and on a device whose tensors have storages."""
    return tensor.layout is torch.strided and _device_has_storages(tensor.device.type)


def address_of(tensor: torch.Tensor) -> int | None:
    """Return the address of the first element of a tensor; None if the tensor has no storage."""
    return tensor.data_ptr() if has_storage(tensor) else None


def share_storage(first: torch.Tensor, second: torch.Tensor) -> bool | None:
    """Return whether two strided tensors have the same storage; None if one of them has no storage."""
    if not (has_storage(first) and has_storage(second)):
        return None
    return bool(first.untyped_storage()._cdata == second.untyped_storage()._cdata)
