"""Capture and restore the global state of a process, and seed its generators before each case."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy
import torch

from conformance.target.target import Target

State = tuple[Any, ...]


def _set_deterministic(mode: Any) -> None:
    torch.set_deterministic_debug_mode(mode)


_PARTS: tuple[tuple[str, Callable[[], Any], Callable[[Any], Any]], ...] = (
    ("the default dtype", torch.get_default_dtype, torch.set_default_dtype),
    ("gradient mode", torch.is_grad_enabled, torch.set_grad_enabled),
    ("deterministic mode", torch.get_deterministic_debug_mode, _set_deterministic),
    ("the number of threads", torch.get_num_threads, torch.set_num_threads),
    ("inference mode", torch.is_inference_mode_enabled, lambda value: None),
    ("warn-always", torch.is_warn_always_enabled, torch.set_warn_always),
)


def capture_global_state() -> State:
    """Return the current global state."""
    return tuple(read() for _, read, _ in _PARTS)


def restore_global_state(state: State) -> list[str]:
    """Restore a captured state, and return the names of the parts that had changed."""
    changed = []
    for (name, read, write), value in zip(_PARTS, state, strict=True):
        if read() != value:
            changed.append(name)
            write(value)
    return changed


def seed(value: int, target: Target) -> None:
    """Seed Python, NumPy, torch's CPU generator and the device, and enable the argument checks of
    torch.distributions.

    ``torch.manual_seed`` is not used, because it also queues a call with a formatted stack for each
    accelerator type that is not initialized. Queuing takes a millisecond, and the memory of the queue is
    never freed.
    """
    # At its first use, Dynamo disables the argument checks of torch.distributions in the whole process.
    # Restore torch's default.
    torch.distributions.Distribution.set_default_validate_args(__debug__)
    random.seed(value)
    numpy.random.seed(value & 0xFFFFFFFF)
    torch.default_generator.manual_seed(value)
    target.seed(value)
