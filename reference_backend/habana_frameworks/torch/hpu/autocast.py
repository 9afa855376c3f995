"""Autocast on hpu: older names of torch's functions, and operator lists from files."""

from __future__ import annotations

import os
import warnings

from habana_frameworks.torch import _C
from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

import torch


def set_autocast_hpu_enabled(enabled: bool) -> None:
    """Same as ``torch.set_autocast_enabled("hpu", enabled)``."""
    torch.set_autocast_enabled(DEVICE_TYPE, enabled)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the dtypes that ``torch.autocast("hpu")`` accepts."""
    return [torch.bfloat16, torch.float16]


def is_autocast_hpu_enabled() -> bool:
    """Same as ``torch.is_autocast_enabled("hpu")``."""
    return torch.is_autocast_enabled(DEVICE_TYPE)


def set_autocast_hpu_dtype(dtype: torch.dtype) -> None:
    """Same as ``torch.set_autocast_dtype("hpu", dtype)``."""
    torch.set_autocast_dtype(DEVICE_TYPE, dtype)


def get_autocast_hpu_dtype() -> torch.dtype:
    """Same as ``torch.get_autocast_dtype("hpu")``; initially bfloat16 (float16 with PrivateUse1)."""
    return torch.get_autocast_dtype(DEVICE_TYPE)


def register_lists() -> None:
    """Pass autocast's operator lists (lower precision, float32) from files to the core, or the default lists.

    The variables ``PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST`` and ``PT_HPU_AUTOCAST_FP32_OPS_LIST``, with the
    older names ``LOWER_LIST`` and ``FP32_LIST``, are paths of files with one operator per line. If a file
    cannot be read, this function warns and uses the default list.
    """
    # The core accepts lists only once. None selects the core's default list.
    if not _C.autocast_lists():
        _C.set_autocast_lists(
            _operators_from_file("PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST", "LOWER_LIST"),
            _operators_from_file("PT_HPU_AUTOCAST_FP32_OPS_LIST", "FP32_LIST"),
        )


def _operators_from_file(variable_name: str, older_name: str) -> list[str] | None:
    variable = variable_name if os.environ.get(variable_name) else older_name
    path = os.environ.get(variable, "")
    if not path:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        warnings.warn(
            f"{variable}={path!r} could not be read ({error}), so the default list is used. Use a text file.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return [line.strip() for line in lines if line.strip()]
