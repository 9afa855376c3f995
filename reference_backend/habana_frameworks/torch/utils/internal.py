"""Functions for the lazy mode of the process, and a timer."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Any

from habana_frameworks.torch.internal.settings.mode import is_lazy

__all__ = ["Timer", "is_lazy", "lazy_only"]

_logger = logging.getLogger(__name__)


def lazy_only(function: Callable[..., Any]) -> Callable[..., None]:
    """Decorate a function so that outside lazy mode its calls do nothing.

    In lazy mode a call runs the function and ignores its result. Outside lazy mode the decorator logs one
    warning.
    """
    if not is_lazy():
        _logger.warning("%s does nothing, because it is for lazy mode only", function.__qualname__)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        if is_lazy():
            function(*args, **kwargs)

    return wrapper


class Timer:
    """Context manager that measures wall time.

    Attributes:
        elapsed: seconds between entry and exit; 0.0 before the exit.
    """

    def __init__(self) -> None:
        self.elapsed = 0.0

    def __enter__(self) -> Timer:
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exception: object) -> None:
        self.elapsed = time.perf_counter() - self._start
