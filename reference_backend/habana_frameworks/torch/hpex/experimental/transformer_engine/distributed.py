"""Activation checkpoints of modules that compute in fp8."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils import checkpoint as torch_checkpoint

from .fp8 import FP8GlobalStateManager


@contextlib.contextmanager
def activation_checkpointing() -> Iterator[None]:
    """Mark a forward pass that a checkpoint will run again.

    Within torch's checkpoint the second run happens in the backward pass; scales then stay as they are, so
    that it computes what the first one did.
    """
    before = FP8GlobalStateManager.RECOMPUTING
    FP8GlobalStateManager.RECOMPUTING = False
    try:
        yield
    finally:
        FP8GlobalStateManager.RECOMPUTING = before


@contextlib.contextmanager
def _again(state: tuple[bool, Any, Any]) -> Iterator[None]:
    before, recomputing = FP8GlobalStateManager.get_fp8_autocast_state(), FP8GlobalStateManager.RECOMPUTING
    FP8GlobalStateManager.set_fp8_autocast_state(state)
    FP8GlobalStateManager.RECOMPUTING = True
    try:
        yield
    finally:
        FP8GlobalStateManager.set_fp8_autocast_state(before)
        FP8GlobalStateManager.RECOMPUTING = recomputing


def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a function without its intermediate results; the backward pass runs it again, in fp8 as before."""

    def contexts() -> tuple[Any, Any]:
        state = FP8GlobalStateManager.get_fp8_autocast_state()
        return activation_checkpointing(), _again(state)

    return torch_checkpoint.checkpoint(function, *args, use_reentrant=False, context_fn=contexts, **kwargs)
