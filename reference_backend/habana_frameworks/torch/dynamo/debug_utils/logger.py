"""The logger of the compile backend. Its lines start with ``[PT_COMPILE] ``, and tests can collect them.

Lines are written to Python's ``logging`` below ``habana_frameworks.torch.dynamo``. The program selects lines
with ``logging``, ``LOG_LEVEL_PT_COMPILE`` or ``TORCH_LOGS="+hpu_backend"``.
"""

from __future__ import annotations

import functools
import logging

from habana_frameworks.torch.internal.logs import COMPILE_LINES

TRACE = 5

_channel = logging.getLogger(COMPILE_LINES)


class Logger:
    """A logger that prefixes each line with a name.

    Attributes:
        data: the lines since the last call of ``set_store_data(True)``.
    """

    def __init__(self, name: str) -> None:
        self._prefix = f"[{name}] "
        self._store = False
        self.data: list[str] = []

    def set_store_data(self, store: bool) -> None:
        """Start or stop collecting lines of every level in `data`, and clear `data`."""
        self._store = bool(store)
        self.data.clear()

    def is_enabled_for(self, level: int) -> bool:
        """Return whether a line of this level is written or collected. If not, callers can skip the line."""
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
        """Log at level 5, below DEBUG."""
        self.log(TRACE, message, *args)

    def debug(self, message: str, *args: object) -> None:
        """Log at level DEBUG."""
        self.log(logging.DEBUG, message, *args)

    def info(self, message: str, *args: object) -> None:
        """Log at level INFO."""
        self.log(logging.INFO, message, *args)

    def warning(self, message: str, *args: object) -> None:
        """Log at level WARNING."""
        self.log(logging.WARNING, message, *args)

    warn = warning

    def error(self, message: str, *args: object) -> None:
        """Log at level ERROR."""
        self.log(logging.ERROR, message, *args)

    def critical(self, message: str, *args: object) -> None:
        """Log at level CRITICAL."""
        self.log(logging.CRITICAL, message, *args)


@functools.cache
def get_compile_backend_logger() -> Logger:
    """Return the logger of the compile backend."""
    return Logger("PT_COMPILE")
