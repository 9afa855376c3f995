"""Activation checkpoints of modules that compute in fp8."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import checkpoint as torch_checkpoint

from .fp8 import FP8GlobalStateManager, in_backward


class activation_checkpointing(contextlib.ContextDecorator):
    """Let the function of a checkpoint compute in fp8 as it does now if the backward pass runs it again.

    Decorates the function, or wraps a ``with`` block. Modules themselves know a second run, in which they
    leave their scales as they are. A compiled module in a checkpoint that is not compiled does not: its steps
    count twice.
    """

    def __init__(self) -> None:
        """Remember the state of `fp8_autocast`."""
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
    """Run a function without its intermediate results; the backward pass runs it again, in fp8 as before."""
    if torch.compiler.is_compiling():  # the state is traced once, with what the graph computes again
        return torch_checkpoint.checkpoint(function, *args, use_reentrant=False, **kwargs)
    again = activation_checkpointing()

    def contexts() -> tuple[Any, Any]:
        return contextlib.nullcontext(), again

    return torch_checkpoint.checkpoint(function, *args, use_reentrant=False, context_fn=contexts, **kwargs)
