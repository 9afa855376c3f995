"""Make functions of torch that accept a device argument use hpu if a program passes cuda."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from habana_frameworks.torch.internal.patches.wrap_function import replace_function

import torch
import torch.distributed
import torch.distributed.checkpoint.filesystem
import torch.distributed.device_mesh
import torch.nested
import torch.utils._device
from torch.nn.utils.rnn import PackedSequence

from .devices import map_cuda_arguments, to_hpu

_METHODS = (
    "to", "pin_memory", "is_pinned", "new_empty", "new_empty_strided", "new_full", "new_ones", "new_tensor",
    "new_zeros",
)  # fmt: skip
_LIKE = ("empty_like", "full_like", "ones_like", "rand_like", "randint_like", "randn_like", "zeros_like")
_AUTOCAST = ("get_autocast_dtype", "set_autocast_dtype", "set_autocast_enabled")
#: Functions whose cuda arguments are mapped to hpu: owner (a module or class of torch) -> function names.
MAPPED: dict[str, tuple[str, ...]] = {
    "torch": (*_LIKE, *_AUTOCAST, "get_device_module", "set_default_device"),
    "torch.Tensor": _METHODS,
    "torch.nn.Module": ("to", "to_empty"),
    "torch.nn.utils.rnn.PackedSequence": ("to",),
    "torch.amp.autocast": ("__init__",),
    "torch.amp.GradScaler": ("__init__",),
    "torch.amp": ("custom_fwd", "custom_bwd"),
    "torch.random": ("fork_rng",),
    "torch.utils.data.DataLoader": ("__init__",),
    "torch.distributed.device_mesh": ("init_device_mesh",),
    "torch.distributed.device_mesh.DeviceMesh": ("__init__",),
}
#: Functions that are replaced in another way, each with its behaviour on hpu (for the documentation page).
OTHERS = {
    "torch.Tensor.cuda": "Tensor.hpu",
    "torch.Tensor.is_cuda": "true for tensors on hpu",
    "torch.nn.Module.cuda": "Module.hpu",
    "torch.nn.utils.rnn.PackedSequence.cuda": "PackedSequence.hpu",
    "torch.Generator": "a generator of hpu if the device is cuda",
    "torch.get_autocast_gpu_dtype, torch.set_autocast_gpu_dtype": "autocast's dtype on hpu",
    "torch.is_autocast_enabled": "the state of autocast on hpu, if the device type is cuda or omitted",
    "torch.load": "tensors on hpu, if map_location is cuda or the tensors were saved on cuda",
    "torch.set_default_tensor_type": "a type of torch.cuda sets its dtype and the device hpu as defaults",
    "torch.compile": "uses hpu_backend instead of the default, inductor",
    "torch.distributed.init_process_group, new_group": "use hccl instead of nccl",
    "torch.distributed.is_nccl_available": "true",
    "torch.distributed.checkpoint": "copies tensors from hpu to the host while it writes others to files",
    "torch.nn.DataParallel": "an error: a process has one hpu, so use DistributedDataParallel",
}


def _device_constructors() -> Iterator[tuple[ModuleType, str]]:
    constructors = torch.utils._device._device_constructors()
    for module in (torch, torch.fft, torch.nested):
        for name, value in list(vars(module).items()):
            if callable(value) and getattr(value, "__hash__", None) and value in constructors:
                yield module, name


#: Module and name of each function in torch's own list of functions that create tensors on a device.
CONSTRUCTORS = tuple(_device_constructors())
_replaced = False


def patch_torch_functions() -> None:
    """Replace the functions of torch that accept a device or name cuda. A second call does nothing."""
    global _replaced
    if _replaced:
        return
    _replaced = True
    for module, name in CONSTRUCTORS:
        replace_function(module, name, map_cuda_arguments)
    for path, names in MAPPED.items():
        for name in names:
            replace_function(_attribute_at(path), name, map_cuda_arguments)
    torch.Tensor.cuda = _cuda_method  # type: ignore[method-assign]
    torch.nn.Module.cuda = _cuda_method  # type: ignore[method-assign]
    PackedSequence.cuda = _cuda_method  # type: ignore[method-assign]
    is_on_hpu = property(lambda tensor: tensor.device.type == "hpu")
    torch.Tensor.is_cuda = is_on_hpu  # type: ignore[assignment]
    packed_is_on_hpu = property(lambda packed: packed.data.device.type == "hpu")
    PackedSequence.is_cuda = packed_is_on_hpu  # type: ignore[assignment,method-assign]
    torch.Generator = _Generator  # type: ignore[misc]
    torch.get_autocast_gpu_dtype = functools.partial(torch.get_autocast_dtype, "hpu")
    torch.set_autocast_gpu_dtype = functools.partial(torch.set_autocast_dtype, "hpu")
    torch.serialization.register_package(9, lambda storage: None, _restore_cuda_storage_on_hpu)
    for owner, name, make in (
        (torch, "load", _wrap_load),
        (torch, "set_default_tensor_type", _wrap_set_default_tensor_type),
        (torch, "compile", _wrap_compile),
        (torch, "is_autocast_enabled", _wrap_is_autocast_enabled),
        (torch.distributed, "init_process_group", _wrap_nccl_as_hccl),
        (torch.distributed, "new_group", _wrap_nccl_as_hccl),
        (torch.nn.DataParallel, "__init__", _wrap_data_parallel_init),
    ):
        replace_function(owner, name, make)
    torch.distributed.is_nccl_available = lambda: True
    # torch.distributed.checkpoint copies tensors of this device type to the host while it writes other
    # tensors to files. torch's own function would return "cuda", because torch.cuda.is_available() is true.
    checkpoint_files = torch.distributed.checkpoint.filesystem
    checkpoint_files._get_available_device_type = lambda: "hpu"  # type: ignore[attr-defined]


def _attribute_at(path: str) -> Any:
    return functools.reduce(getattr, path.split(".")[1:], torch)


def _cuda_method(self: Any, device: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Copy a tensor to hpu, or move a module to hpu; replaces the method ``cuda``."""
    return self.hpu(to_hpu(device), *args, **kwargs)


class _AnyGenerator(type(torch._C.Generator)):  # type: ignore[misc]
    """Metaclass that makes ``isinstance(generator, _Generator)`` true for every generator of torch."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch._C.Generator)


class _Generator(torch._C.Generator, metaclass=_AnyGenerator):
    """Replacement of ``torch.Generator`` that creates an hpu generator for a cuda device."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return super().__new__(cls, device=to_hpu(device))  # type: ignore[call-arg]


def _restore_cuda_storage_on_hpu(storage: Any, location: str) -> Any:
    """Move a storage to hpu and return it if it was saved on cuda; otherwise return None."""
    return storage.to(device=torch.device("hpu")) if location.startswith("cuda") else None


def _wrap_load(original: Callable[..., Any]) -> Callable[..., Any]:
    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(map_location, dict):
            locations = {source: to_hpu(target) for source, target in map_location.items()}
            # A migrated program saves tensors with the location hpu, but its map_location names cuda. So a
            # cuda key also applies to hpu.
            map_location = {to_hpu(source): target for source, target in locations.items()} | locations
        return original(f, to_hpu(map_location), *args, **kwargs)

    return load


def _wrap_set_default_tensor_type(original: Callable[..., Any]) -> Callable[..., Any]:
    def set_default_tensor_type(kind: Any) -> None:
        name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}"
        if not name.startswith(("torch.cuda.", "torch.hpu.", "habana_frameworks.")):
            original(kind)
            return
        dtype = getattr(torch, _DTYPES.get(name.rpartition(".")[2], ""), None)
        if dtype is None:
            raise TypeError(f"{name} is not a floating-point tensor type. Use torch.set_default_dtype.")
        torch.set_default_dtype(dtype)
        torch.set_default_device("hpu")

    return set_default_tensor_type


_DTYPES = {
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
}


def _wrap_compile(original: Callable[..., Any]) -> Callable[..., Any]:
    def compile(model: Any = None, **kwargs: Any) -> Any:
        if kwargs.get("backend", "inductor") == "inductor":
            # hpu_backend does not support the modes and options of Inductor.
            kwargs = {k: v for k, v in kwargs.items() if k not in ("mode", "options")}
            kwargs["backend"] = "hpu_backend"
        return original(model, **kwargs)

    return compile


def _wrap_is_autocast_enabled(original: Callable[..., Any]) -> Callable[..., Any]:
    def is_autocast_enabled(device_type: str = "hpu") -> bool:
        is_enabled: bool = original(to_hpu(device_type))
        return is_enabled

    return is_autocast_enabled


def _wrap_nccl_as_hccl(original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        values = [_nccl_to_hccl(argument) for argument in args]
        return original(*values, **{name: _nccl_to_hccl(to_hpu(value)) for name, value in kwargs.items()})

    return call


def _nccl_to_hccl(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.lower() == "nccl":
        return "hccl"
    return value.replace("cuda:nccl", "hpu:hccl")


def _wrap_data_parallel_init(original: Callable[..., Any]) -> Callable[..., Any]:
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            "torch.nn.DataParallel needs several devices in one process, but a process has one hpu. "
            "Use torch.nn.parallel.DistributedDataParallel with one process per device."
        )

    return init
