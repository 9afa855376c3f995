"""Deprecated module with three functions of ``torch.hpu``. Use ``torch.hpu`` instead."""

from __future__ import annotations

import warnings

from habana_frameworks.torch.hpu import device_count, get_device_name, is_available

__all__ = ["device_count", "get_device_name", "is_available"]

warnings.warn("torch_hpu is deprecated: use torch.hpu", DeprecationWarning, stacklevel=2)
