"""Write the log of C++ and Python: one format of lines, one file per rank.

A line is ``[date time][module][level][process:thread] text``. Lines of Python loggers below
``habana_frameworks.torch`` are written to the same file, under the log module that belongs to the logger.
`torch._logging` has the log ``hpu_backend`` and the artifact ``hpu_recipes``
(``TORCH_LOGS="+hpu_backend,hpu_recipes"``). Lines of C++ do not appear in ``TORCH_LOGS``, because they come
from threads that must not wait for the GIL.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import torch._logging._internal as torch_logging

from .settings import log_settings
from .settings.log_settings import LEVELS, LogSettings

ROOT = "habana_frameworks.torch"
#: Logger of the compile backend, which is registered with torch. The backend writes to the child logger
#: `COMPILE_LINES`, because torch resets the level of registered loggers.
COMPILE = f"{ROOT}.dynamo"
COMPILE_LINES = f"{COMPILE}.lines"
RECIPES = "hpu_recipes"
#: Log module of each Python logger and its children. Other loggers belong to PT_BRIDGE.
_MODULES = {
    COMPILE_LINES: "PT_COMPILE",
    f"{ROOT}.internal.fusion.service": "PT_COMPILE",
    f"{ROOT}.internal.fusion.policy": "PT_COMPILE",
    f"{ROOT}.hpu.graphs": "PT_HPUGRAPH",
    f"{ROOT}.program": "PT_PYTHON",
    f"{ROOT}.utils": "PT_BRIDGE",
    f"{ROOT}.internal.events": "PT_BRIDGE",
    f"{ROOT}.profiler": "PT_BRIDGE",
}
#: For each level of `LEVELS` except ``off``: the number of the level in Python's `logging`.
PYTHON_LEVELS = (5, logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)


def start_log(core: ModuleType) -> None:
    """Configure the log from environment variables.

    Raises:
        ValueError: a variable has an invalid value.
    """
    settings = log_settings.read_log_settings(core.log_modules())
    apply_log_settings(core, settings)
    if settings.writes_below_critical("PT_FALLBACK"):
        atexit.register(_log_fallback_counts, core)
    _register_with_torch()


def apply_log_settings(core: ModuleType, settings: LogSettings) -> None:
    """Apply the settings to C++ and to the Python loggers."""
    _HANDLER.core = core
    _apply_to_core(settings)
    for name, module in _MODULES.items():
        lowest = _lowest_python_level(settings.levels.get(module, 0))
        # If only warnings and above are written, keep the logger's level: the program or TORCH_LOGS may have
        # set it. The log then drops the lines below its own level.
        if lowest < logging.WARNING:
            logging.getLogger(name).setLevel(lowest)


def set_level(module: str, number: int) -> bool:
    """Set the lowest level at which lines of a log module are written.

    Args:
        module: name of a log module, such as ``PT_KERNEL``.
        number: a level of Python's `logging`. At a level above CRITICAL, no line is written.

    Returns:
        False if the log module does not exist.
    """
    if module not in _HANDLER.core.log_modules():
        return False
    bits = sum(1 << i for i, level in enumerate(PYTHON_LEVELS) if level >= number)
    _apply_to_core(replace(_HANDLER.settings, levels={**_HANDLER.settings.levels, module: bits}))
    for name, of in _MODULES.items():
        if of == module:
            logging.getLogger(name).setLevel(number)
    return True


def _apply_to_core(settings: LogSettings) -> None:
    _HANDLER.settings = settings
    _HANDLER.core.set_log(
        dict(settings.levels),
        str(settings.folder),
        settings.file_bytes,
        settings.files,
        settings.to_stdout,
        settings.to_stderr,
    )
    for name, module in _MODULES.items():
        # The handler is not added to a parent logger, because torch does not propagate lines of registered
        # loggers.
        logger = logging.getLogger(name)
        if settings.writes_below_critical(module):
            logger.addHandler(_HANDLER)
        else:
            logger.removeHandler(_HANDLER)


def log_module_of(logger: str) -> str:
    """Return the log module of a Python logger."""
    if logger.startswith(COMPILE):
        return "PT_COMPILE"
    return next((module for name, module in _MODULES.items() if logger.startswith(name)), "PT_BRIDGE")


def log_recipe(name: str, text: Callable[[], str]) -> None:
    """Write the text of a compiled graph if ``TORCH_LOGS=hpu_recipes`` or ``TORCH_TRACE`` requests it.

    Args:
        name: name of the graph.
        text: returns the text of the graph; called only if the text is written.
    """
    if torch_logging.log_registry.is_artifact(RECIPES):
        recipes = _recipe_logger()
        if recipes.isEnabledFor(logging.DEBUG):
            recipes.debug("%s\n%s", name, text())
    torch_logging.trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": f"hpu_recipe_{name}", "encoding": "string"},
        payload_fn=text,
        expect_trace_id=False,
    )


class _LogForwardingHandler(logging.Handler):
    """Forwards lines of Python loggers to the log."""

    core: ModuleType
    settings: LogSettings

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line. The core drops the line if its level is not enabled for the log module."""
        try:
            level = max((i for i, number in enumerate(PYTHON_LEVELS) if number <= record.levelno), default=0)
            module = log_module_of(record.name)
            self.core.write_log(module, level, self.format(record).removeprefix(f"[{module}] "))
        except Exception:
            self.handleError(record)
        last_resort = logging.lastResort
        # Print the line if Python would print it without this handler.
        if (
            last_resort
            and record.levelno >= last_resort.level
            and not _has_another_handler(record.name, self)
        ):
            last_resort.handle(record)


_HANDLER = _LogForwardingHandler()


def _has_another_handler(name: str, handler: logging.Handler) -> bool:
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        if any(candidate is not handler for candidate in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def _lowest_python_level(bits: int) -> int:
    return next((number for i, number in enumerate(PYTHON_LEVELS) if bits >> i & 1), logging.CRITICAL)


def _register_with_torch() -> None:
    # Register only if TORCH_LOGS is set: torch does not pass the lines of registered loggers to the program's
    # own handlers.
    if os.environ.get(torch_logging.LOG_ENV_VAR) and not torch_logging.log_registry.is_log("hpu_backend"):
        torch_logging.register_log("hpu_backend", [COMPILE, f"{ROOT}.internal.fusion"])
        torch_logging.register_artifact(
            RECIPES, "Prints each graph that the hpu device compiles.", visible=True, off_by_default=True
        )


@functools.cache
def _recipe_logger() -> logging.Logger:
    return torch_logging.getArtifactLogger(COMPILE, RECIPES)


def _log_fallback_counts(core: ModuleType) -> None:
    counts = core.fallback_counts()
    if counts:
        lines = [f"{count}\t{name}" for name, count in sorted(counts.items(), key=lambda item: -item[1])]
        text = "\n".join(["Frequency of op and op name that were executed on CPU:", *lines])
        core.write_log("PT_FALLBACK", LEVELS.index("debug"), text)
