"""Enable log lines of the backend by log module and level.

Levels are the Gaudi bridge's numbers (0 trace, 1 debug, 2 info, 3 warning, 4 error, 5 critical, 6 off) or
their names. Lines are written to the backend's log (see ``LOG_LEVEL_PT_...``) and to Python loggers below
``habana_frameworks.torch``.
"""

from __future__ import annotations

import logging

from habana_frameworks.torch.dynamo.debug_utils.logger import Logger
from habana_frameworks.torch.internal import logs
from habana_frameworks.torch.internal.settings.log_settings import LEVELS

__all__ = ["Logger", "enable_logging", "get_log_level"]

#: The level of Python's `logging` for each of the bridge's levels, in the order of `LEVELS`.
_NUMBERS = (*logs.PYTHON_LEVELS, logging.CRITICAL + 1)


def get_log_level(level: int | str) -> int:
    """Return the level of Python's `logging` for a level of the bridge.

    Raises:
        ValueError: the level does not exist.
    """
    name = str(level).lower()
    if name.isdigit() and int(name) < len(LEVELS):
        name = LEVELS[int(name)]
    if name not in LEVELS:
        raise ValueError(f"{level!r} is not a log level. Use 0 to 6, or one of {', '.join(LEVELS)}.")
    return _NUMBERS[LEVELS.index(name)]


def enable_logging(name: str, level: int | str) -> None:
    """Enable the log lines of a log module at a level and above.

    Args:
        name: a log module, such as ``PT_COMPILE`` or ``PT_KERNEL``, or the name of a Python logger below
            ``habana_frameworks.torch``.
        level: number or name of a level (see the module).
    """
    number = get_log_level(level)
    if logs.set_level(name, number):
        return
    logging.getLogger(f"habana_frameworks.torch.{name}").setLevel(number)
