"""Inspect and control internals of the device, for tests and for diagnosis."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from habana_frameworks.torch import _C, hpu
from habana_frameworks.torch.internal.settings.environment import read_variable

import torch

from . import graph_dumps as graph_dumps
from . import logger as logger

_log = logging.getLogger("habana_frameworks.torch.program")


def _get_fallback_op_count() -> dict[str, int]:
    """Return, by operator name, how often operators fell back to the CPU since the start or last reset."""
    return dict(_C.fallback_counts())


def _reset_fallback_op_count() -> None:
    """Reset the fallback counts that `_get_fallback_op_count` returns."""
    _C.reset_fallback_counts()


def _get_jit_cache_size() -> int:
    """Return the number of entries in the device's cache of output metadata (sizes, dtypes, aliasing).

    The cache contains only calls that the device has queued or recorded in a graph, not calls that ran
    immediately.
    """
    return int(_C.engine_counters()["learned_calls"])


def _clear_jit_cache() -> None:
    """Clear the device's cache of output metadata; the device fills it again."""
    _C.clear_output_metadata_cache()


def _set_fallback_policy(policy: str) -> None:
    """Set which operators may fall back to the CPU.

    Args:
        policy: a value of ``PT_HPU_PLACE_ON_CPU``: an empty string for all operators, ``none`` for no
            operator, or a comma-separated list of operators.
    """
    _C.set_fallback_policy(policy)


def _set_memory_limit(size: int) -> None:
    """Limit the total bytes of all device tensors. Allocations above the limit raise out-of-memory errors."""
    _C.set_memory_limit(size)


def _kernel_table() -> list[tuple[str, str, str]]:
    """Return all kernels of the device as tuples of dispatch key, operator and kind of kernel."""
    return list(_C.kernel_table())


def _host_view(tensor: torch.Tensor) -> torch.Tensor:
    """Return a CPU tensor that shares memory with a device tensor. Synchronise before reading it."""
    view: torch.Tensor = _C.host_view(tensor)
    return view


def _bridge_cleanup() -> None:
    """Finish all device work, clear the caches (output metadata, recipes), and free unused memory."""
    hpu._finish_work()
    _C.clear_output_metadata_cache()
    _C.recipe_cache_clear()
    hpu.empty_cache()


def _flush_disk_cache() -> None:
    """Finish all device work. Nothing else is to flush: recipes are written to disk when compiled."""
    hpu._finish_work()


def _get_shape_agnostic_unsupported_ops() -> set[str]:
    """Return the operators whose compiled form supports one size only: none on this device."""
    return set()


def _get_eager_compiler_unsupported_op_prefixes() -> set[str]:
    """Return prefixes of operators that eager mode does not compile: none, because it compiles nothing."""
    return set()


def _hb_print(text: str) -> None:
    """Write a line to the Python logger ``habana_frameworks.torch.program``."""
    _log.info("%s", text)


def _hg_print(text: str) -> None:
    """Write a line, prefixed with "graph:", to the same logger as `_hb_print`."""
    _log.info("graph: %s", text)


def _memstat_devmem_start_collect(message: str = "", show_callstack: bool = True) -> None:
    """Start recording allocations of device memory; `_memstat_devmem_stop_collect` writes the result.

    Args:
        message: a text for the log.
        show_callstack: record the Python stack of each allocation.
    """
    _log.info("memory: recording starts: %s", message)
    hpu.memory._record_memory_history(
        "state", context="state" if show_callstack else None, stacks="python", clear_history=True
    )


def _memstat_devmem_stop_collect(message: str = "") -> Path:
    """Stop recording, and write a file of the recorded allocations that are still live, largest first.

    The file name is ``PT_HABANA_MEM_LOG_FILENAME`` (default ``habana_log.livealloc.log``), in ``HABANA_LOGS``
    or the current folder. The format of the Gaudi software's file is not public, so the format is our own.

    Returns:
        The path of the file.

    Raises:
        OSError: the file cannot be written.
    """
    blocks = [
        block
        for segment in hpu.memory._snapshot()["segments"]
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    ]
    hpu.memory._record_memory_history(None)
    path = Path(os.environ.get("HABANA_LOGS", "") or ".") / str(
        read_variable("PT_HABANA_MEM_LOG_FILENAME", "str", "habana_log.livealloc.log")
    )
    lines = [f"live device memory: {sum(b['size'] for b in blocks)} bytes in {len(blocks)} blocks: {message}"]
    for block in sorted(blocks, key=lambda block: -block["size"]):
        lines.append(f"{block['size']} bytes at {block['address']:#x} on stream {block['stream']}")
        lines.extend(f"    {frame['filename']}:{frame['line']} {frame['name']}" for frame in block["frames"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def _memstat_livealloc(message: str = "") -> None:
    """Write the device memory in use and the number of live allocations to the log, after ``message``."""
    stats = hpu.memory_stats()
    _log.info("memory: %s: %d bytes in %d blocks", message, stats["InUse"], stats["ActiveAllocs"])


def _mem_log(text: str) -> None:
    """Write ``text`` and the device memory in use to the log."""
    _log.info("memory: %s: %d bytes in use", text, hpu.memory_allocated())
