"""Wait for pending work before process-wide settings change, because a running kernel reads the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from habana_frameworks.torch.internal.device_type import device_module

import torch

from .wrap_function import replace_function

#: Functions of `torch._C` that change the settings.
SETTERS = (
    "_set_default_dtype",
    "_set_deterministic_algorithms",
    "_set_deterministic_fill_uninitialized_memory",
    "_set_float32_matmul_precision",
    "_set_mkldnn_deterministic",
    "_set_mkldnn_enabled",
)


def patch_setters_to_wait_for_work() -> None:
    """Make the setters wait for queued and recorded work, which must run with the old setting."""
    for name in SETTERS:
        if hasattr(torch._C, name):
            replace_function(torch._C, name, _wrap_to_finish_work_first)


def _wrap_to_finish_work_first(original: Callable[..., None]) -> Callable[..., None]:
    def change(*arguments: Any, **named: Any) -> None:
        if not device_module()._is_in_bad_fork():
            device_module()._finish_work()
        original(*arguments, **named)

    return change
