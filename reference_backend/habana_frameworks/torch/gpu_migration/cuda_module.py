"""Implement ``torch.cuda`` with ``torch.hpu``.

Each public function of ``torch.cuda`` is replaced: by the corresponding function of ``torch.hpu``, or by a
function that raises an error if hpu has no counterpart. Functions in submodules such as ``torch.cuda.memory``
are replaced too. Other names (error classes, storages) are unchanged.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from habana_frameworks.torch import hpu
from habana_frameworks.torch.hpu import _utils

import torch

from .devices import to_hpu


@dataclasses.dataclass(frozen=True)
class DeviceProperties:
    """Properties of an hpu device, with the field names of ``torch.cuda.get_device_properties``.

    Attributes:
        name: name of the device.
        total_memory: bytes that tensors may use.
        major: first number of the device's version.
        minor: second number of the device's version.
        multi_processor_count: 1, because the device runs one kernel of a stream at a time.
        gcnArchName: "hpu"; Inductor reads this field in builds of torch without CUDA.
    """

    name: str
    total_memory: int
    major: int
    minor: int
    multi_processor_count: int = 1
    gcnArchName: str = "hpu"


def device_properties(device: Any = None) -> DeviceProperties:
    """Return the properties of an hpu device, by default of the current device."""
    total = hpu.mem_get_info()[1]
    return DeviceProperties(hpu.get_device_name(to_hpu(device)), total, *device_capability(device))


def device_capability(device: Any = None) -> tuple[int, int]:
    """Return the first two numbers of the device's version, in place of a GPU's compute capability."""
    major, minor = hpu.get_device_capability(to_hpu(device)).split(".")[:2]
    return int(major), int(minor)


def memory_stats(device: Any = None) -> dict[str, int]:
    """Return the device allocator's statistics with the key names of ``torch.cuda.memory_stats``."""
    index = _utils._get_device_index(device, optional=True)
    if hasattr(torch.accelerator, "memory_stats"):
        # This function of torch returns the device allocator's statistics with CUDA's key names.
        return dict(torch.accelerator.memory_stats(index))
    stats = hpu.memory_stats(index)
    now = {
        "allocated_bytes": stats["InUse"],
        "active_bytes": stats["InUse"],
        "reserved_bytes": stats["Limit"],
    }
    most = now | {"allocated_bytes": stats["MaxInUse"], "active_bytes": stats["MaxInUse"]}
    return {f"{name}.all.{end}": of[name] for end, of in (("current", now), ("peak", most)) for name in of}


#: Counterparts on hpu of names of ``torch.cuda``, for which ``torch.hpu`` has no suitable object of that
#: name.
COUNTERPARTS: dict[str, Any] = {
    "CUDAGraph": hpu.HPUGraph,
    "get_device_capability": device_capability,
    "get_device_properties": device_properties,
    "memory_stats": memory_stats,
    "get_allocator_backend": lambda: "native",
    "ipc_collect": lambda: None,
    "is_bf16_supported": lambda including_emulation=True: hpu.is_bf16_supported(),
    "is_tf32_supported": lambda: False,
    "reset_max_memory_cached": hpu.reset_peak_memory_stats,
}
#: Private functions of ``torch.cuda`` that are also replaced, because torch or many programs call them.
PRIVATE = ("_is_in_bad_fork", "_lazy_init", "_exchange_device", "_maybe_exchange_device", "_set_stream_by_id")
#: Submodules of ``torch.cuda`` whose functions are replaced like the functions of ``torch.cuda`` itself.
SUBMODULES = ("memory", "random", "streams", "graphs", "nvtx", "nccl", "profiler", "comm")


def hpu_counterpart(name: str) -> Any | None:
    """Return the object that replaces ``torch.cuda.<name>`` on hpu, or None if hpu has no counterpart."""
    if name in COUNTERPARTS:
        return COUNTERPARTS[name]
    function = getattr(hpu, name, None)
    return None if isinstance(function, ModuleType) else function


def is_function_without_hpu_counterpart(name: str) -> bool:
    """Return whether a public name of ``torch.cuda`` is a function without a counterpart on hpu."""
    # The result is the same after `patch_torch_cuda`, which binds such a name to a function that raises.
    return hpu_counterpart(name) is None and inspect.isfunction(getattr(torch.cuda, name))


def patch_torch_cuda() -> None:
    """Replace the functions of ``torch.cuda`` and its submodules. A second call has no further effect.

    After this call, functions of ``torch.hpu`` treat a cuda device as the hpu device with the same index.
    """
    _utils._DEVICE_TYPES.add("cuda")
    for name in [*torch.cuda.__all__, *PRIVATE]:
        if (replacement := hpu_counterpart(name)) is not None:
            setattr(torch.cuda, name, replacement)
        elif is_function_without_hpu_counterpart(name):
            setattr(torch.cuda, name, make_unsupported_function(f"torch.cuda.{name}"))
    for part in SUBMODULES:
        module = getattr(torch.cuda, part, None)
        for name, function in _functions_defined_in(module) if module is not None else ():
            replacement = COUNTERPARTS.get(name) or getattr(getattr(hpu, part, None), name, None)
            setattr(module, name, replacement or make_unsupported_function(f"torch.cuda.{part}.{name}"))
            if function is getattr(torch.cuda, name, None):
                setattr(torch.cuda, name, getattr(module, name))


def _functions_defined_in(module: ModuleType) -> list[tuple[str, Callable[..., Any]]]:
    return [
        (name, value)
        for name, value in vars(module).items()
        if not name.startswith("_") and inspect.isfunction(value) and value.__module__ == module.__name__
    ]


def make_unsupported_function(name: str) -> Callable[..., Any]:
    """Return a function that always raises NotImplementedError: hpu has no counterpart of ``name``."""

    def call(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{name} has no counterpart on hpu. Remove the call, or call it only on a cuda device."
        )

    call.__name__ = call.__qualname__ = name.rpartition(".")[2]
    call.__module__ = __name__
    return call
