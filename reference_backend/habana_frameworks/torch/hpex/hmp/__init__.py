"""Habana Mixed Precision (hmp), an interface that is older than `torch.autocast("hpu")`."""

from __future__ import annotations

from .casts import convert, disable_casts

__all__ = ["convert", "disable_casts"]
