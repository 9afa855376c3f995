"""Statistics of device memory. All sizes are in bytes.

A device argument must denote the device of this process: None, ``"hpu"``, ``"hpu:0"`` or 0. For any other
device the functions raise an `AssertionError` "Invalid device id", because the memory of other modules
belongs to other processes.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from habana_frameworks.torch import _C
from habana_frameworks.torch.internal.device_type import DEVICE_TYPE
from habana_frameworks.torch.internal.settings.visible_modules import own_module_id

from ._utils import _get_device_index
from .memory_history import (
    _attach_out_of_memory_observer as _attach_out_of_memory_observer,
)
from .memory_history import _change_profiler_count as _change_profiler_count
from .memory_history import _dump_snapshot as _dump_snapshot
from .memory_history import _get_memory_metadata as _get_memory_metadata
from .memory_history import _record_memory_history as _record_memory_history
from .memory_history import _set_memory_metadata as _set_memory_metadata
from .memory_history import _snapshot as _snapshot

_STATISTICS = (
    "Limit",
    "InUse",
    "MaxInUse",
    "NumAllocs",
    "NumFrees",
    "ActiveAllocs",
    "MaxAllocSize",
    "TotalSystemAllocs",
    "TotalSystemFrees",
    "TotalActiveAllocs",
)


def memory_stats(device: Any = None) -> dict[str, int]:
    """Return ten statistics of the device memory allocator, as a dict.

    - ``Limit``: bytes that the allocator may use.
    - ``InUse``, ``MaxInUse``: current and maximum bytes of tensors.
    - ``NumAllocs``, ``NumFrees``: numbers of allocations and frees since the last reset.
    - ``TotalSystemAllocs``, ``TotalSystemFrees``: the same numbers since the start of the process.
    - ``ActiveAllocs``, ``TotalActiveAllocs``: number of live allocations.
    - ``MaxAllocSize``: bytes of the largest allocation.
    """
    _check_device(device)
    stats = _C.memory_stats()
    return {name: stats[name] for name in _STATISTICS}


def memory_allocated(device: Any = None) -> int:
    """Return the bytes that tensors currently use (``InUse``)."""
    return memory_stats(device)["InUse"]


def max_memory_allocated(device: Any = None) -> int:
    """Return the maximum of the bytes used by tensors (``MaxInUse``) since the start or the last reset."""
    return memory_stats(device)["MaxInUse"]


def memory_reserved(device: Any = None) -> int:
    """Return the bytes that the allocator may use (``Limit``). The device reserves all memory at once."""
    return memory_stats(device)["Limit"]


def max_memory_reserved(device: Any = None) -> int:
    """Return the same number as `memory_reserved`, because the reserved memory never changes."""
    return memory_stats(device)["Limit"]


def memory_cached(device: Any = None) -> int:
    """Call `memory_reserved`, with a `FutureWarning`: this name is deprecated."""
    warnings.warn("memory_cached is deprecated: use memory_reserved", FutureWarning, stacklevel=2)
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """Call `max_memory_reserved`, with a `FutureWarning`: this name is deprecated."""
    warnings.warn("max_memory_cached is deprecated: use max_memory_reserved", FutureWarning, stacklevel=2)
    return max_memory_reserved(device)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return free and total bytes: (``Limit`` - ``InUse``, ``Limit``)."""
    stats = memory_stats(device)
    return stats["Limit"] - stats["InUse"], stats["Limit"]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Set the statistic ``MaxInUse`` to ``InUse``, as the function of the same name in `torch.cuda`."""
    _check_device(device)
    _C.reset_peak_memory_stats()


def reset_max_memory_allocated(device: Any = None) -> None:
    """Call `reset_peak_memory_stats`, of which this is an older name."""
    reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Set ``NumAllocs``, ``NumFrees`` and ``MaxAllocSize`` to 0, and ``MaxInUse`` to ``InUse``.

    The accumulated statistics of `torch.accelerator.memory_stats` are set to 0 as well.
    """
    _check_device(device)
    _C.reset_accumulated_memory_stats()


def empty_cache() -> None:
    """Release unused device memory to the operating system. Tensors are not affected."""
    _C.empty_cache()


def memory_summary(device: Any = None) -> str:
    """Return a text table of all figures of `memory_stats`, the workspace and the largest free block."""
    stats = memory_stats(device)
    extended = _extended_memory_summary_dict(device)
    rows = [*stats.items(), ("Workspace", extended["workspace"]), ("Persistent", extended["persistent"])]
    rows.append(("LargestFreeChunk", extended["max_cntgs_chunk"]))
    width = max(len(name) for name, _ in rows)
    digits = max(len(f"{value:,}") for _, value in rows)
    lines = [f"{name:<{width}}  {value:>{digits},}" for name, value in rows]
    rule = "-" * len(lines[0])
    return "\n".join([rule, f"Memory of {DEVICE_TYPE}:0 (sizes in bytes)", rule, *lines, rule])


def _extended_memory_summary_dict(device: Any = None) -> dict[str, int]:
    """Return twelve statistics of device memory under the names of the public bridge.

    ``persistent`` is the memory of tensors, ``future`` is the memory of queued work, and ``max_cntgs_chunk``
    is the size of the largest free block. ``workspace``, ``last_workspace`` and ``future`` are 0 if the
    allocator does not measure them.
    """
    stats = memory_stats(device)
    figures = {
        "limit": stats["Limit"],
        "in_use": stats["InUse"],
        "persistent": stats["InUse"],
        "workspace": 0,
        "last_workspace": 0,
        "future": 0,
        "max_cntgs_chunk": stats["Limit"] - stats["InUse"],
        "max_in_use": stats["MaxInUse"],
        "num_allocs": stats["NumAllocs"],
        "num_free": stats["NumFrees"],
        "max_alloc_size": stats["MaxAllocSize"],
        "active_allocs": stats["ActiveAllocs"],
    }
    measured = _C.extended_memory_stats()
    return {name: int(measured.get(name, value)) for name, value in figures.items()}


def _get_hlml_shared_object_name() -> str:
    """Return the name that the management library's shared memory object of this process has on hardware.

    The reference device has no management driver, so no shared memory object with this name exists.
    """
    module = own_module_id()
    return f"/hlml_hpu_{0 if module is None else module}_{os.getpid()}"


def _check_device(device: Any) -> None:
    index = _get_device_index(device, optional=True)
    if index != 0:
        raise AssertionError(f"Invalid device id {index}: this process has one device, {DEVICE_TYPE}:0")
