"""Views into the device, for tests and for diagnosis of an operator's placement."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from habana_frameworks.torch import _C, hpu
from habana_frameworks.torch.internal.settings.environment import read

import torch

from . import graph_dumps as graph_dumps
from . import logger as logger

_log = logging.getLogger("habana_frameworks.torch.program")


def _get_fallback_op_count() -> dict[str, int]:
    """Number of fallbacks to the CPU since the start or the last reset, by operator name."""
    return dict(_C.fallback_counts())


def _reset_fallback_op_count() -> None:
    """Reset the counts of `_get_fallback_op_count`."""
    _C.reset_fallback_counts()


def _get_jit_cache_size() -> int:
    """Number of kinds of operator call whose results the engine knows without running them.

    The engine looks a call up when it defers or records it; calls that run inline leave no trace.
    """
    return int(_C.engine_counters()["learned_calls"])


def _clear_jit_cache() -> None:
    """Clear the calls that `_get_jit_cache_size` counts; the engine learns them again."""
    _C.clear_learned()


def _set_fallback_policy(policy: str) -> None:
    """Set which operators may fall back to the CPU.

    Args:
        policy: as ``PT_HPU_PLACE_ON_CPU``: empty for all, ``none`` for none, or a comma list of operators.
    """
    _C.set_fallback_policy(policy)


def _set_memory_limit(size: int) -> None:
    """Set the memory in bytes that all tensors together may use; more is an out-of-memory error."""
    _C.set_memory_limit(size)


def _kernel_table() -> list[tuple[str, str, str]]:
    """List all kernels of the device as (dispatch key, operator, kind)."""
    return list(_C.kernel_table())


def _host_view(tensor: torch.Tensor) -> torch.Tensor:
    """Make a CPU tensor over the same bytes as a device tensor. Synchronise first; writes go through."""
    return _C.host_view(tensor)


def _bridge_cleanup() -> None:
    """Finish all work, and drop what the bridge keeps for later: learned calls, recipes, unused memory."""
    hpu._finish_work()
    _C.clear_learned()
    _C.recipe_cache_clear()
    hpu.empty_cache()


def _flush_disk_cache() -> None:
    """Finish all work, and with it what the recipe cache on disk is to hold: it is written as it is made."""
    hpu._finish_work()


def _get_shape_agnostic_unsupported_ops() -> set[str]:
    """Operators whose compiled form cannot serve other sizes: none, as kernels take any."""
    return set()


def _get_eager_compiler_unsupported_op_prefixes() -> set[str]:
    """Beginnings of names of operators that eager mode does not compile: none, as it compiles nothing."""
    return set()


def _hb_print(text: str) -> None:
    """Write a line of the program into the log, under ``habana_frameworks.torch.program``."""
    _log.info("%s", text)


def _hg_print(text: str) -> None:
    """As `_hb_print`, for lines about graphs."""
    _log.info("graph: %s", text)


def _memstat_devmem_start_collect(message: str = "", show_callstack: bool = True) -> None:
    """Start to record allocations of device memory, for `_memstat_devmem_stop_collect`.

    Args:
        message: goes into the log.
        show_callstack: keep the program's stack of each allocation.
    """
    _log.info("memory: recording begins: %s", message)
    hpu.memory._record_memory_history(
        "state", context="state" if show_callstack else None, stacks="python", clear_history=True
    )


def _memstat_devmem_stop_collect(message: str = "") -> Path:
    """Stop, and write the live allocations that were made since, largest first.

    The file is the one that ``PT_HABANA_MEM_LOG_FILENAME`` names (``habana_log.livealloc.log``), in
    ``HABANA_LOGS`` or the current folder. No public document gives its lines: they are the simulator's own.

    Returns:
        The file.

    Raises:
        OSError: it cannot be written.
    """
    blocks = [
        block
        for segment in hpu.memory._snapshot()["segments"]
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    ]
    hpu.memory._record_memory_history(None)
    path = Path(os.environ.get("HABANA_LOGS", "") or ".") / str(
        read("PT_HABANA_MEM_LOG_FILENAME", "str", "habana_log.livealloc.log")
    )
    lines = [f"live device memory: {sum(b['size'] for b in blocks)} bytes in {len(blocks)} blocks: {message}"]
    for block in sorted(blocks, key=lambda block: -block["size"]):
        lines.append(f"{block['size']} bytes at {block['address']:#x} on stream {block['stream']}")
        lines.extend(f"    {one['filename']}:{one['line']} {one['name']}" for one in block["frames"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def _memstat_livealloc(message: str = "") -> None:
    """Write the memory in use and the number of live allocations into the log."""
    stats = hpu.memory_stats()
    _log.info("memory: %s: %d bytes in %d blocks", message, stats["InUse"], stats["ActiveAllocs"])


def _mem_log(text: str) -> None:
    """Write a line with the memory in use into the log."""
    _log.info("memory: %s: %d bytes in use", text, hpu.memory_allocated())
