"""Logs of the bridge by name and level.

Levels are the bridge's numbers (0 trace, 1 debug, 2 info, 3 warning, 4 error, 5 critical, 6 off) or names.
Lines go to Python's `logging` under ``habana_frameworks.torch``.
"""

from __future__ import annotations

import logging

from habana_frameworks.torch.dynamo.debug_utils.logger import TRACE, Logger

__all__ = ["Logger", "enable_logging", "get_log_level"]

_LEVELS = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "off": logging.CRITICAL + 1,
}


def get_log_level(level: int | str) -> int:
    """Level of Python's `logging` for one of the bridge's.

    Raises:
        ValueError: the bridge has no such level.
    """
    names = list(_LEVELS)
    name = str(level).lower()
    if name.isdigit() and int(name) < len(names):
        name = names[int(name)]
    if name not in _LEVELS:
        raise ValueError(f"{level!r} is not a level of a log: use 0 to 6, or one of {', '.join(names)}")
    return _LEVELS[name]


def enable_logging(name: str, level: int | str) -> None:
    """Let lines of a log of the bridge through from a level on.

    Args:
        name: the part of the bridge, as in ``PT_COMPILE``, or a name below ``habana_frameworks.torch``.
        level: as in `get_log_level`.
    """
    parts = {"PT_COMPILE": "dynamo"}
    channel = logging.getLogger(f"habana_frameworks.torch.{parts.get(name, name)}")
    channel.setLevel(get_log_level(level))
