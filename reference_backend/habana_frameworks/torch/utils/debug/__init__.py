"""Views into the device, for tests and for finding out where an operator ran."""

from __future__ import annotations

from habana_frameworks.torch import _C

import torch


def _get_fallback_op_count() -> dict[str, int]:
    """How often each operator fell back to the CPU since the start or the last reset, by operator name."""
    return dict(_C.fallback_counts())


def _reset_fallback_op_count() -> None:
    """Forget the counts of `_get_fallback_op_count`."""
    _C.reset_fallback_counts()


def _get_jit_cache_size() -> int:
    """How many kinds of operator call the engine knows the results of without running them.

    A call is looked up there when it is deferred or recorded; what runs inline leaves no trace.
    """
    return int(_C.engine_counters()["learned_calls"])


def _clear_jit_cache() -> None:
    """Forget the calls that `_get_jit_cache_size` counts; they are learned again."""
    _C.clear_learned()


def _set_fallback_policy(policy: str) -> None:
    """Say which operators may fall back to the CPU.

    Args:
        policy: as ``PT_HPU_PLACE_ON_CPU``: empty for all, ``none`` for none, or a comma list of operators.
    """
    _C.set_fallback_policy(policy)


def _set_memory_limit(size: int) -> None:
    """Set how many bytes tensors may hold together; past it there is an out-of-memory error."""
    _C.set_memory_limit(size)


def _kernel_table() -> list[tuple[str, str, str]]:
    """Every kernel of the device: dispatch key, operator, kind."""
    return list(_C.kernel_table())


def _host_view(tensor: torch.Tensor) -> torch.Tensor:
    """CPU tensor over the same bytes as a device tensor. Synchronise first; writes go through."""
    return _C.host_view(tensor)
