"""Deprecated: use ``torch.hpu``. Three functions of ``torch.hpu`` under an older module name."""

from __future__ import annotations

import warnings

from habana_frameworks.torch.hpu import device_count, get_device_name, is_available

__all__ = ["device_count", "get_device_name", "is_available"]

warnings.warn("torch_hpu is deprecated: use torch.hpu", DeprecationWarning, stacklevel=2)
