"""End a step of lazy mode, and call registered functions at the end of a step.

Outside lazy mode, the functions of this module do nothing. The public bridge logs a warning for each of these
functions if the bridge is imported outside lazy mode (`utils.internal.lazy_only`). This device does not warn,
because ``import torch`` already imports the backend, also in programs that do not use these functions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from habana_frameworks.torch import _C
from habana_frameworks.torch.internal.events import EventDispatcher, EventId
from habana_frameworks.torch.internal.fusion import policy as fusion_policy
from habana_frameworks.torch.utils.internal import is_lazy

_closures: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()


def mark_step(device_str: str = "", sync: bool = False) -> None:
    """End and run the current graph of lazy mode, then call the functions given to `add_step_closure`.

    Outside lazy mode, this function does nothing.

    Args:
        device_str: not used.
        sync: wait until the graph has run.

    Raises:
        RuntimeError: an operator of an earlier graph has failed.
    """
    if not is_lazy():
        return
    _C.lazy_flush(sync)
    fusion_policy.fuse_hot_recipes(_C)
    EventDispatcher.instance().publish(EventId.MARK_STEP)
    # Closures that are added by a closure belong to the next step.
    for _ in range(len(_closures)):
        closure, args = _closures.popleft()
        closure(*args)


def iter_mark_step(device_str: str = "") -> None:
    """Call `mark_step` at the end of an iteration. Does nothing outside lazy mode."""
    mark_step(device_str)


def add_step_closure(closure: Callable[..., Any], args: Sequence[Any] = ()) -> None:
    """Call ``closure(*args)`` once, after the next `mark_step`. Does nothing outside lazy mode.

    Args:
        closure: the function to call; its result is ignored.
        args: arguments, stored until the call. At the call, their tensors have been computed, so that reading
            them does not launch a graph.
    """
    if is_lazy():
        _closures.append((closure, tuple(args)))


def _mark_step_if_lazy() -> None:
    """Call `mark_step`, which does nothing outside lazy mode; for optimizers that support all modes."""
    mark_step()
