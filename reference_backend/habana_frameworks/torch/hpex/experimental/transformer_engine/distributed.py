"""Activation checkpointing for modules that compute in fp8."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import checkpoint as torch_checkpoint

from .fp8 import FP8GlobalStateManager, is_in_backward


class activation_checkpointing(contextlib.ContextDecorator):
    """Context manager that restores the fp8 state when the backward pass reruns a checkpointed function.

    It can also decorate the function. Modules detect the second run of the function and do not update their
    scales in this run. Limitation: a compiled module in a checkpoint that is not compiled cannot detect the
    second run, so its steps are counted twice.
    """

    def __init__(self) -> None:
        """Store the current state of `fp8_autocast`, which the second run restores."""
        self._state = FP8GlobalStateManager.get_fp8_autocast_state()
        self._before: list[tuple[bool, Any, Any]] = []

    def __enter__(self) -> activation_checkpointing:
        now = FP8GlobalStateManager.get_fp8_autocast_state()
        self._before.append(now)
        if is_in_backward():
            FP8GlobalStateManager.set_fp8_autocast_state(self._state)
        else:
            self._state = now
        return self

    def __exit__(self, *error: object) -> None:
        FP8GlobalStateManager.set_fp8_autocast_state(self._before.pop())


def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a function without saving intermediate results (activation checkpointing), and return its result.

    The backward pass reruns the function with the fp8 state of the first run.
    """
    if torch.compiler.is_compiling():  # the traced graph contains the fp8 state for both runs
        return torch_checkpoint.checkpoint(function, *args, use_reentrant=False, **kwargs)
    rerun_context = activation_checkpointing()

    def contexts() -> tuple[Any, Any]:
        return contextlib.nullcontext(), rerun_context

    return torch_checkpoint.checkpoint(function, *args, use_reentrant=False, context_fn=contexts, **kwargs)
