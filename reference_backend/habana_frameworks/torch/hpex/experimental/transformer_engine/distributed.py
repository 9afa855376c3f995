"""Activation checkpointing of modules that compute in fp8."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import checkpoint as torch_checkpoint

from .fp8 import FP8GlobalStateManager, in_backward


class activation_checkpointing(contextlib.ContextDecorator):
    """Restore the fp8 state of a checkpointed function when the backward pass reruns the function.

    Decorates the function, or wraps a ``with`` block. Modules detect the second run of the function and do
    not update their scales in the second run. A compiled module in a checkpoint that is not compiled cannot
    detect the second run, so its steps are counted twice.
    """

    def __init__(self) -> None:
        """Store the state of `fp8_autocast`."""
        self._state = FP8GlobalStateManager.get_fp8_autocast_state()
        self._before: list[tuple[bool, Any, Any]] = []

    def __enter__(self) -> activation_checkpointing:
        now = FP8GlobalStateManager.get_fp8_autocast_state()
        self._before.append(now)
        if in_backward():
            FP8GlobalStateManager.set_fp8_autocast_state(self._state)
        else:
            self._state = now
        return self

    def __exit__(self, *error: object) -> None:
        FP8GlobalStateManager.set_fp8_autocast_state(self._before.pop())


def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a function and save no intermediate results. The backward pass reruns it in the same fp8 state."""
    if torch.compiler.is_compiling():  # the trace already contains the fp8 state for both runs
        return torch_checkpoint.checkpoint(function, *args, use_reentrant=False, **kwargs)
    rerun_context = activation_checkpointing()

    def contexts() -> tuple[Any, Any]:
        return contextlib.nullcontext(), rerun_context

    return torch_checkpoint.checkpoint(function, *args, use_reentrant=False, context_fn=contexts, **kwargs)
