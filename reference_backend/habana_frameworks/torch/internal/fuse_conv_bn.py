"""Public import path of `patches.fuse_conv_bn`."""

from __future__ import annotations

from .patches.fuse_conv_bn import fuse

__all__ = ["fuse"]
