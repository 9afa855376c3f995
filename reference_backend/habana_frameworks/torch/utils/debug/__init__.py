"""Views into the device, for tests and for diagnosis of an operator's placement."""

from __future__ import annotations

import logging

from habana_frameworks.torch import _C, hpu

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


def _mem_log(text: str) -> None:
    """Write a line with the memory in use into the log."""
    _log.info("memory: %s: %d bytes in use", text, hpu.memory_allocated())
