"""Legacy constructors and storage methods that torch supports for its own devices only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .wrap_function import replace


def construct_sparse() -> None:
    """Make ``Tensor.new`` construct sparse hpu tensors."""
    replace(torch.Tensor, "new", _making_sparse)


def swap_bytes_on_the_host() -> None:
    """Make ``UntypedStorage.byteswap`` copy an hpu storage to the host and back."""
    replace(torch.UntypedStorage, "byteswap", _swapping_on_the_host)


def _making_sparse(original: Callable[..., Any]) -> Callable[..., Any]:
    def new(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if self.layout == torch.sparse_coo and self.device.type == "hpu" and args:
            return torch.sparse_coo_tensor(*args, dtype=self.dtype, device=self.device)
        return original(self, *args, **kwargs)

    return new


def _swapping_on_the_host(original: Callable[..., Any]) -> Callable[..., Any]:
    def byteswap(self: torch.UntypedStorage, dtype: torch.dtype) -> None:
        if self.device.type != "hpu":
            return original(self, dtype)
        host = self.cpu()
        original(host, dtype)
        self.copy_(host)
        return None

    return byteswap
