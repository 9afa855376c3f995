"""Views into the device, for tests and for diagnosis of an operator's placement."""

from __future__ import annotations

from habana_frameworks.torch import _C

import torch

from . import graph_dumps as graph_dumps


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
