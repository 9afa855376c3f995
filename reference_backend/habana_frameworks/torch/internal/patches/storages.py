"""Patches for a constructor and a storage method that torch implements for its own devices only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

import torch

from .wrap_function import replace_function


def patch_tensor_new() -> None:
    """Make ``Tensor.new`` construct sparse hpu tensors."""
    replace_function(torch.Tensor, "new", _wrap_tensor_new)


def patch_byteswap() -> None:
    """Make ``UntypedStorage.byteswap`` copy an hpu storage to the host and back."""
    replace_function(torch.UntypedStorage, "byteswap", _wrap_byteswap)


def _wrap_tensor_new(original: Callable[..., Any]) -> Callable[..., Any]:
    def new(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if self.layout == torch.sparse_coo and self.device.type == DEVICE_TYPE and args:
            return torch.sparse_coo_tensor(*args, dtype=self.dtype, device=self.device)
        created: torch.Tensor = original(self, *args, **kwargs)
        return created

    return new


def _wrap_byteswap(original: Callable[..., Any]) -> Callable[..., Any]:
    def byteswap(self: torch.UntypedStorage, dtype: torch.dtype) -> None:
        if self.device.type != DEVICE_TYPE:
            original(self, dtype)
            return
        host = self.cpu()
        original(host, dtype)
        self.copy_(host)
        return None

    return byteswap
