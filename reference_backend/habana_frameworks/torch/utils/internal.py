"""The mode of the process, and a timer."""

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
    """Decorator: outside lazy mode the function does nothing, and decorating it logs a warning.

    In lazy mode the function runs; its result is dropped.
    """
    if not is_lazy():
        _logger.warning("%s does nothing, since it is for lazy mode only", function.__qualname__)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        if is_lazy():
            function(*args, **kwargs)

    return wrapper


class Timer:
    """Context manager that measures wall time.

    Attributes:
        elapsed: seconds between entering and leaving, 0.0 before.
    """

    def __init__(self) -> None:
        self.elapsed = 0.0

    def __enter__(self) -> Timer:
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exception: object) -> None:
        self.elapsed = time.perf_counter() - self._start
