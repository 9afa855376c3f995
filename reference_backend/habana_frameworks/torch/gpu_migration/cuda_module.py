"""``torch.cuda`` by means of ``torch.hpu``.

A public function of ``torch.cuda`` either is the one of ``torch.hpu`` with the same meaning, or raises one
sentence that says that hpu has none. Names that are no functions (classes of errors and storages, submodules)
stay torch's, but for the functions in them.
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

from .devices import mapped


@dataclasses.dataclass(frozen=True)
class DeviceProperties:
    """Properties of the device under the names that CUDA's have.

    Attributes:
        name: name of the device.
        total_memory: bytes that tensors may use.
        major: first number of the capability, as torch.cuda.get_device_capability has it.
        minor: second number.
        multi_processor_count: 1, as the device runs one kernel of a stream at a time.
        gcnArchName: the name too; Inductor asks builds of torch without CUDA for it.
    """

    name: str
    total_memory: int
    major: int
    minor: int
    multi_processor_count: int = 1
    gcnArchName: str = "hpu"


def device_properties(device: Any = None) -> DeviceProperties:
    """Properties of a device, by default the current one."""
    total = hpu.mem_get_info()[1]
    return DeviceProperties(hpu.get_device_name(mapped(device)), total, *device_capability(device))


def device_capability(device: Any = None) -> tuple[int, int]:
    """First two numbers of the device's capability, which is a version: they are not those of a GPU."""
    major, minor = hpu.get_device_capability(mapped(device)).split(".")[:2]
    return int(major), int(minor)


def memory_stats(device: Any = None) -> dict[str, int]:
    """Statistics of the allocator under the names that CUDA's have, bytes and counts."""
    index = _utils._get_device_index(device, optional=True)
    if hasattr(torch.accelerator, "memory_stats"):
        # It asks the device's allocator in the form that torch gives CUDA's.
        return dict(torch.accelerator.memory_stats(index))
    found = hpu.memory_stats(index)
    now = {
        "allocated_bytes": found["InUse"],
        "active_bytes": found["InUse"],
        "reserved_bytes": found["Limit"],
    }
    most = now | {"allocated_bytes": found["MaxInUse"], "active_bytes": found["MaxInUse"]}
    return {f"{name}.all.{end}": of[name] for end, of in (("current", now), ("peak", most)) for name in of}


#: Names of ``torch.cuda`` whose counterpart has another name, is another function, or is a plain answer.
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
#: Private names that torch itself or many programs call.
PRIVATE = ("_is_in_bad_fork", "_lazy_init", "_exchange_device", "_maybe_exchange_device", "_set_stream_by_id")
#: Submodules whose functions are replaced, or refused, like those of ``torch.cuda``.
SUBMODULES = ("memory", "random", "streams", "graphs", "nvtx", "nccl", "profiler", "comm")


def counterpart(name: str) -> Any | None:
    """Counterpart on hpu of a name of ``torch.cuda``, None if there is none."""
    if name in COUNTERPARTS:
        return COUNTERPARTS[name]
    found = getattr(hpu, name, None)
    return None if isinstance(found, ModuleType) else found


def refused(name: str) -> bool:
    """Say whether a public name of ``torch.cuda`` is a function that hpu has no counterpart for."""
    # Once replaced, the name holds the function that refuses, which is a function too.
    return counterpart(name) is None and inspect.isfunction(getattr(torch.cuda, name))


def replace_functions() -> None:
    """Replace the functions of ``torch.cuda`` and of its submodules; a second call changes nothing more.

    From then on, functions of ``torch.hpu`` take a device of cuda for the one of hpu with its index.
    """
    _utils._DEVICE_TYPES.add("cuda")
    for name in [*torch.cuda.__all__, *PRIVATE]:
        if (found := counterpart(name)) is not None:
            setattr(torch.cuda, name, found)
        elif refused(name):
            setattr(torch.cuda, name, refusing(f"torch.cuda.{name}"))
    for part in SUBMODULES:
        module = getattr(torch.cuda, part, None)
        for name, function in _own_functions(module) if module is not None else ():
            found = COUNTERPARTS.get(name) or getattr(getattr(hpu, part, None), name, None)
            setattr(module, name, found or refusing(f"torch.cuda.{part}.{name}"))
            if function is getattr(torch.cuda, name, None):
                setattr(torch.cuda, name, getattr(module, name))


def _own_functions(module: ModuleType) -> list[tuple[str, Callable[..., Any]]]:
    return [
        (name, value)
        for name, value in vars(module).items()
        if not name.startswith("_") and inspect.isfunction(value) and value.__module__ == module.__name__
    ]


def refusing(name: str) -> Callable[..., Any]:
    """Make the function that stands for one without a counterpart.

    It raises:
        NotImplementedError: always, with the name.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{name} has no counterpart on hpu: remove the call, or guard it by a check of the device"
        )

    call.__name__ = call.__qualname__ = name.rpartition(".")[2]
    call.__module__ = __name__
    return call
