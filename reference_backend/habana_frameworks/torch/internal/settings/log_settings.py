"""Read the settings of the log from environment variables: selected lines and destination.

    LOG_LEVEL_ALL=N                level of every log module: 0 trace, 1 debug, 2 info, 3 warning, 4 error,
                                   5 critical (the default), 6 off; the names are accepted too
    LOG_LEVEL_ALL_PT=N             level of every log module (on hardware, of the PyTorch bridge only)
    LOG_LEVEL_PT_FALLBACK=N        level of one log module; the most specific variable wins
    PT_HPU_LOG_MOD_MASK=0x80       log modules as bits (syntax of old releases): 0x1 device, 0x2 kernels,
                                   0x4 bridge, 0x8 recipes, 0x10 collectives, 0x20 lazy graphs, 0x40 pinned
                                   memory, 0x80 fallbacks to the CPU; hexadecimal, with or without 0x
    PT_HPU_LOG_TYPE_MASK=0xF       levels of the modules in PT_HPU_LOG_MOD_MASK: 1 fatal, 2 warning, 4 trace,
                                   8 debug; default all
    HABANA_LOGS                    folder of pytorch_log.txt, by default ~/.habana_logs; each rank has a
                                   subfolder
    ENABLE_CONSOLE=true            also print to standard output; lines that PT_HPU_LOG_MOD_MASK selects go to
                                   stderr
    PT_LOG_FILE_SIZE_MB            size at which a log file is closed and a new one started (default 10)
    PT_LOG_FILE_AMOUNT             number of retained files (default 5)

The flags in `_FLAGS` enable log lines of one module in addition to these levels.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import environment

#: Names of the levels. The number of a level is its index.
LEVELS = ("trace", "debug", "info", "warning", "error", "critical", "off")
_SYNONYMS = {"warn": "warning", "err": "error", "fatal": "critical", "none": "off"}
_DEFAULT = LEVELS.index("critical")
_ALL_BITS = 0b111111

#: Log modules of the bits of ``PT_HPU_LOG_MOD_MASK``, the lowest bit first.
_MASK_MODULES = (
    "PT_DEVICE", "PT_KERNEL", "PT_BRIDGE", "PT_SYNHELPER", "PT_DISTRIBUTED", "PT_LAZY", "PT_PINNED",
    "PT_FALLBACK",
)  # fmt: skip
#: For each bit of ``PT_HPU_LOG_TYPE_MASK``, the lowest first: the levels that the bit enables (as bits).
_TYPE_LEVELS = (0b100000, 0b011000, 0b000001, 0b000110)

#: Log modules of the Intel Gaudi bridge that write no lines on this device. Their variables are accepted.
_MODULES_WITHOUT_LINES = frozenset(
    {
        "PT_CONST_SECTION", "PT_CUSTOM", "PT_DYNAMIC_SHAPE", "PT_EAGER", "PT_EXEC_THREAD", "PT_HABHELPER",
        "PT_HOSTSTAT", "PT_IRGRAPH", "PT_LAYOUTS", "PT_LAZY_EAGER", "PT_PARALLEL_ACC", "PT_PROFILER",
        "PT_PYTHON_BINDINGS", "PT_REFINEMENT", "PT_STATS", "PT_TEST", "PT_TOWL", "PT_TRACE", "PT_VIEWTABLE",
    }
)  # fmt: skip

#: Flags that enable log lines: for each flag, the log module and the lowest enabled level.
_FLAGS = {
    "PT_ENABLE_SYNLAUNCH_TIME_CAPTURE": ("PT_SYNHELPER", "debug"),
    "PT_ENABLE_REALTIME_MEMORY_LOGGING": ("PT_DEVMEM", "debug"),
    "PT_ENABLE_LIGHTWEIGHT_MEMORY_USAGE_LOGGING": ("PT_MEMLOG", "debug"),
    "PT_ENABLE_DEFRAGMENTATION_INFO": ("PT_DEVMEM", "info"),
    "PT_HPU_POOL_LOG_FRAGMENTATION_INFO": ("PT_DEVMEM", "info"),
    "PT_HPU_MEM_STATS_DUMP": ("PT_MEMLOG", "info"),
}


@dataclass(frozen=True)
class LogSettings:
    """Settings of the log: selected lines and destination.

    Attributes:
        levels: enabled levels of each log module; bit N enables `LEVELS[N]`.
        folder: folder of the log file, without the rank's subfolder.
        file_bytes: size in bytes at which a log file is closed and a new one started.
        files: number of retained log files, at least 1.
        to_stdout: also write lines to standard output.
        to_stderr: also write lines to stderr.
    """

    levels: Mapping[str, int] = field(default_factory=dict)
    folder: Path = Path()
    file_bytes: int = 10 << 20
    files: int = 5
    to_stdout: bool = False
    to_stderr: bool = False

    def writes_below_critical(self, module: str) -> bool:
        """Return whether any level below critical is enabled for a log module."""
        return bool(self.levels.get(module, 0) & (_ALL_BITS >> 1))


def parse_log_level(text: str) -> int | None:
    """Return the number of a level from its number or name, or None if the text is neither."""
    name = text.strip().lower()
    name = _SYNONYMS.get(name, name)
    if name in LEVELS:
        return LEVELS.index(name)
    return int(name) if name.isdecimal() and int(name) < len(LEVELS) else None


def read_log_settings(modules: Sequence[str]) -> LogSettings:
    """Read the settings from the environment.

    An invalid level, size or switch is ignored with a warning, because other programs use the same variables.

    Args:
        modules: names of the log modules that write lines.

    Raises:
        ValueError: a mask is not a number; the message names the variable.
    """
    _warn_of_unknown_modules(modules)
    levels = {module: _bits_of_levels_from(_read_level(module)) for module in modules}
    for flag, (module, level) in _FLAGS.items():
        if environment.read_variable(flag, "bool", False):
            levels[module] |= _bits_of_levels_from(LEVELS.index(level))
    mask = _read_mask("PT_HPU_LOG_MOD_MASK", len(_MASK_MODULES))
    types = _read_mask("PT_HPU_LOG_TYPE_MASK", len(_TYPE_LEVELS))
    let = sum(bits for i, bits in enumerate(_TYPE_LEVELS) if types is None or types >> i & 1)
    for i, module in enumerate(_MASK_MODULES):
        if (mask or 0) >> i & 1:
            levels[module] |= let
    return LogSettings(
        levels,
        _log_folder(),
        int(_read_or_default("PT_LOG_FILE_SIZE_MB", "u32", 10)) << 20,
        max(1, int(_read_or_default("PT_LOG_FILE_AMOUNT", "u32", 5))),
        bool(_read_or_default("ENABLE_CONSOLE", "switch", False)),
        bool(mask),
    )


def _log_folder() -> Path:
    """Return the folder in ``HABANA_LOGS``. The default is ``.habana_logs`` in the user's home folder.

    If the home folder is unknown, ``.habana_logs`` is in the current folder.
    """
    folder = os.path.expanduser(os.environ.get("HABANA_LOGS", "") or "~/.habana_logs")
    return Path(".habana_logs") if folder.startswith("~") else Path(folder)


def _read_or_default(name: str, kind: str, default: environment.Value) -> environment.Value:
    try:
        return environment.read_variable(name, kind, default)
    except ValueError as error:
        warnings.warn(f"{error} The log uses {default!r}.", RuntimeWarning, stacklevel=3)
        return default


def _read_level(module: str) -> int:
    for variable in (f"LOG_LEVEL_{module}", "LOG_LEVEL_ALL_PT", "LOG_LEVEL_ALL"):
        text = os.environ.get(variable, "")
        if not text.strip():
            continue
        if (level := parse_log_level(text)) is not None:
            return level
        warnings.warn(
            f"{variable}={text!r} is not a log level. Use 0 to 6, or one of {', '.join(LEVELS)}.",
            RuntimeWarning,
            stacklevel=3,
        )
    return _DEFAULT


def _bits_of_levels_from(level: int) -> int:
    return _ALL_BITS & ~((1 << level) - 1)


def _read_mask(variable: str, bits: int) -> int | None:
    text = os.environ.get(variable, "").strip()
    if not text:
        return None
    try:
        value = int(text, 16)
    except ValueError:
        value = -1
    if value >= 1 << bits:
        warnings.warn(
            f"{variable}={text} is the hexadecimal number {value:#x}, but only the bits of "
            f"{(1 << bits) - 1:#x} have a meaning.",
            RuntimeWarning,
            stacklevel=3,
        )
    if value < 0:
        raise ValueError(
            f"{variable}={text!r} is not a mask. Use a hexadecimal number, 0x1 to {(1 << bits) - 1:#x}."
        )
    return value


def _warn_of_unknown_modules(modules: Sequence[str]) -> None:
    valid_modules = {*modules, *_MODULES_WITHOUT_LINES}
    for variable in os.environ:
        module = variable.removeprefix("LOG_LEVEL_")
        if variable.startswith("LOG_LEVEL_PT_") and module not in valid_modules:
            warnings.warn(
                f"{variable} has no effect: log module {module} does not exist. Use {', '.join(modules)}.",
                RuntimeWarning,
                stacklevel=2,
            )
