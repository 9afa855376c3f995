"""Wait for pending work before process-wide settings change, because kernels read them when they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .wrap_function import replace

#: Functions of `torch._C` that change the settings.
SETTERS = (
    "_set_default_dtype",
    "_set_deterministic_algorithms",
    "_set_deterministic_fill_uninitialized_memory",
    "_set_float32_matmul_precision",
    "_set_mkldnn_deterministic",
    "_set_mkldnn_enabled",
)


def finish_work_before_changes() -> None:
    """Make the setters wait for queued and recorded work, which must run with the old setting."""
    for name in SETTERS:
        if hasattr(torch._C, name):
            replace(torch._C, name, _waiting)


def _waiting(original: Callable[..., None]) -> Callable[..., None]:
    def change(*arguments: Any, **named: Any) -> None:
        if not torch.hpu._is_in_bad_fork():
            torch.hpu._finish_work()
        original(*arguments, **named)

    return change
