"""Ends of steps. They bound the graphs of lazy mode; in the other modes there is nothing to end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def mark_step(device_str: str = "", sync: bool = False) -> None:
    """End the current graph of lazy mode and run it. Does nothing in the other modes.

    Args:
        device_str: not used.
        sync: wait until the graph has run.
    """


def iter_mark_step(device_str: str = "") -> None:
    """`mark_step` at the end of an iteration. Does nothing outside lazy mode."""


def add_step_closure(closure: Callable[..., Any], args: Sequence[Any] = ()) -> None:
    """Call ``closure(*args)`` after the next `mark_step`. Does nothing outside lazy mode."""


def _mark_step_if_lazy() -> None:
    """`mark_step` in lazy mode, for optimizers that serve all modes."""
    mark_step()
