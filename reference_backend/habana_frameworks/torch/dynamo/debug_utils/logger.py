"""The log of the compile backend: lines that start with ``[PT_COMPILE] ``, which tests can also collect.

Lines go to Python's ``logging`` under ``habana_frameworks.torch.dynamo``; what is printed is the program's
choice.
"""

from __future__ import annotations

import functools
import logging

TRACE = 5

_channel = logging.getLogger("habana_frameworks.torch.dynamo")


class Logger:
    """A log with a name in front of each line.

    Attributes:
        data: the lines since `set_store_data` was last called, where it was called with True.
    """

    def __init__(self, name: str) -> None:
        self._prefix = f"[{name}] "
        self._store = False
        self.data: list[str] = []

    def set_store_data(self, store: bool) -> None:
        """Begin (or stop) to collect lines of every level in `data`, which starts empty."""
        self._store = bool(store)
        self.data.clear()

    def is_enabled_for(self, level: int) -> bool:
        """Whether a line of this level would go anywhere; for lines that are costly to make."""
        return self._store or _channel.isEnabledFor(level)

    def log(self, level: int, message: str, *args: object) -> None:
        """Log ``message % args``."""
        if not self.is_enabled_for(level):
            return
        line = self._prefix + (message % args if args else message)
        if self._store:
            self.data.append(line)
        _channel.log(level, "%s", line)

    def trace(self, message: str, *args: object) -> None:
        self.log(TRACE, message, *args)

    def debug(self, message: str, *args: object) -> None:
        self.log(logging.DEBUG, message, *args)

    def info(self, message: str, *args: object) -> None:
        self.log(logging.INFO, message, *args)

    def warning(self, message: str, *args: object) -> None:
        self.log(logging.WARNING, message, *args)

    warn = warning

    def error(self, message: str, *args: object) -> None:
        self.log(logging.ERROR, message, *args)

    def critical(self, message: str, *args: object) -> None:
        self.log(logging.CRITICAL, message, *args)


@functools.cache
def get_compile_backend_logger() -> Logger:
    """The logger of the compile backend."""
    return Logger("PT_COMPILE")
