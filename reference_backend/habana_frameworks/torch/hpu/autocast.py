"""Automatic mixed precision: older spellings of torch's switches, and files with operator lists."""

from __future__ import annotations

import os
import warnings

from habana_frameworks.torch import _C

import torch


def set_autocast_hpu_enabled(enabled: bool) -> None:
    """Same as ``torch.set_autocast_enabled("hpu", enabled)``."""
    torch.set_autocast_enabled("hpu", enabled)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that ``torch.autocast("hpu")`` accepts (contract 1.10)."""
    return [torch.bfloat16, torch.float16]


def is_autocast_hpu_enabled() -> bool:
    """Same as ``torch.is_autocast_enabled("hpu")``."""
    return torch.is_autocast_enabled("hpu")


def set_autocast_hpu_dtype(dtype: torch.dtype) -> None:
    """Same as ``torch.set_autocast_dtype("hpu", dtype)``."""
    torch.set_autocast_dtype("hpu", dtype)


def get_autocast_hpu_dtype() -> torch.dtype:
    """Same as ``torch.get_autocast_dtype("hpu")``; bfloat16 at start."""
    return torch.get_autocast_dtype("hpu")


def register_lists() -> None:
    """Set the operator lists of autocast in the core: the default ones, or those in files.

    ``PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST`` and ``PT_HPU_AUTOCAST_FP32_OPS_LIST`` name files with one
    operator per line; ``LOWER_LIST`` and ``FP32_LIST`` are older names of these. For a file that cannot be
    read there is a warning, and the default list.
    """
    # The core takes the lists once; None stands for its default list.
    if not _C.autocast_lists():
        _C.set_autocast_lists(
            _operators("PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST", "LOWER_LIST"),
            _operators("PT_HPU_AUTOCAST_FP32_OPS_LIST", "FP32_LIST"),
        )


def _operators(name: str, older: str) -> list[str] | None:
    variable = name if os.environ.get(name) else older
    path = os.environ.get(variable, "")
    if not path:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        warnings.warn(
            f"{variable}={path!r} cannot be read ({error}) and the default list is used: name a text file",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return [line.strip() for line in lines if line.strip()]
