"""The log: C++ and Python write one, with one form of line, into one file per rank.

A line is ``[date time][module][level][process:thread] text``. Lines of Python's loggers below
``habana_frameworks.torch`` go there too, each under the module of its logger, and `torch._logging` knows the
log ``hpu_backend`` and the artifact ``hpu_recipes`` (``TORCH_LOGS="+hpu_backend,hpu_recipes"``). Lines of C++
are not in ``TORCH_LOGS``: they come from threads that must not wait for the interpreter.
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
#: Logger of the compile backend, which torch registers; its lines come from `COMPILE_LINES` below it, since
#: torch resets the level of what it registers.
COMPILE = f"{ROOT}.dynamo"
COMPILE_LINES = f"{COMPILE}.lines"
RECIPES = "hpu_recipes"
#: Module of the log for each logger of Python and those below it; others are lines of PT_BRIDGE.
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
#: Levels of Python's loggers, in the order of `LEVELS`.
PYTHON_LEVELS = (5, logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)


def start(core: ModuleType) -> None:
    """Set the log up as the environment has it.

    Raises:
        ValueError: a variable is not of its kind.
    """
    settings = log_settings.read(core.log_modules())
    apply(core, settings)
    if settings.lets_through("PT_FALLBACK"):
        atexit.register(_sum_up_fallbacks, core)
    _register_with_torch()


def apply(core: ModuleType, settings: LogSettings) -> None:
    """Apply settings to C++ and to the loggers of Python."""
    _HANDLER.core = core
    _set_core(settings)
    for name, module in _MODULES.items():
        lowest = _lowest(settings.levels.get(module, 0))
        # Otherwise what the program or TORCH_LOGS has set counts, and the log takes what it wants of that.
        if lowest < logging.WARNING:
            logging.getLogger(name).setLevel(lowest)


def set_level(module: str, number: int) -> bool:
    """Let lines of a module through from a level on, in the log and to the handlers of Python's loggers.

    Args:
        module: as in ``PT_KERNEL``.
        number: a level of Python's `logging`; one above CRITICAL lets nothing through.

    Returns:
        False if the log has no such module.
    """
    if module not in _HANDLER.core.log_modules():
        return False
    bits = sum(1 << i for i, level in enumerate(PYTHON_LEVELS) if level >= number)
    _set_core(replace(_HANDLER.settings, levels={**_HANDLER.settings.levels, module: bits}))
    for name, of in _MODULES.items():
        if of == module:
            logging.getLogger(name).setLevel(number)
    return True


def _set_core(settings: LogSettings) -> None:
    _HANDLER.settings = settings
    _HANDLER.core.set_log(
        dict(settings.levels),
        str(settings.folder),
        settings.file_bytes,
        settings.files,
        settings.to_output,
        settings.to_errors,
    )
    for name, module in _MODULES.items():
        # Not further up: torch keeps what it registers from its parents.
        logger = logging.getLogger(name)
        if settings.lets_through(module):
            logger.addHandler(_HANDLER)
        else:
            logger.removeHandler(_HANDLER)


def module_of(logger: str) -> str:
    """Module of the log for a logger of Python."""
    if logger.startswith(COMPILE):
        return "PT_COMPILE"
    return next((module for name, module in _MODULES.items() if logger.startswith(name)), "PT_BRIDGE")


def log_recipe(name: str, text: Callable[[], str]) -> None:
    """Write a compiled graph if settings of torch ask for it: ``TORCH_LOGS=hpu_recipes``, ``TORCH_TRACE``.

    Args:
        name: of the graph.
        text: makes its text; called only if it goes somewhere.
    """
    if torch_logging.log_registry.is_artifact(RECIPES):
        recipes = _recipes()
        if recipes.isEnabledFor(logging.DEBUG):
            recipes.debug("%s\n%s", name, text())
    torch_logging.trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": f"hpu_recipe_{name}", "encoding": "string"},
        payload_fn=text,
        expect_trace_id=False,
    )


class _Handler(logging.Handler):
    """Hands lines of Python's loggers to the log."""

    core: ModuleType
    settings: LogSettings

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; one that the module's level does not let through is dropped by the core."""
        try:
            level = max((i for i, number in enumerate(PYTHON_LEVELS) if number <= record.levelno), default=0)
            module = module_of(record.name)
            self.core.write_log(module, level, self.format(record).removeprefix(f"[{module}] "))
        except Exception:
            self.handleError(record)
        shown = logging.lastResort
        # Without this handler Python would have shown it.
        if shown and record.levelno >= shown.level and not _has_another_handler(record.name, self):
            shown.handle(record)


_HANDLER = _Handler()


def _has_another_handler(name: str, handler: logging.Handler) -> bool:
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        if any(one is not handler for one in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def _lowest(bits: int) -> int:
    return next((number for i, number in enumerate(PYTHON_LEVELS) if bits >> i & 1), logging.CRITICAL)


def _register_with_torch() -> None:
    # torch takes the lines of what it registers from the program's own handlers, so only if it is asked to.
    if os.environ.get(torch_logging.LOG_ENV_VAR) and not torch_logging.log_registry.is_log("hpu_backend"):
        torch_logging.register_log("hpu_backend", [COMPILE, f"{ROOT}.internal.fusion"])
        torch_logging.register_artifact(
            RECIPES, "Prints each graph that the hpu device compiles.", visible=True, off_by_default=True
        )


@functools.cache
def _recipes() -> logging.Logger:
    return torch_logging.getArtifactLogger(COMPILE, RECIPES)


def _sum_up_fallbacks(core: ModuleType) -> None:
    counts = core.fallback_counts()
    if counts:
        lines = [f"{count}\t{name}" for name, count in sorted(counts.items(), key=lambda one: -one[1])]
        text = "\n".join(["Frequency of op and op name that were executed on CPU:", *lines])
        core.write_log("PT_FALLBACK", LEVELS.index("debug"), text)
