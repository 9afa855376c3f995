"""Everything that the backend changes in torch, in one place. `apply` does it, once.

Fake tensors. torch has a rule for hpu: fake tensors, and the reference implementations behind them, make the
results of elementwise, indexing and convolution operators contiguous, because the hardware bridge lays them
out so. This device runs the CPU's kernels and keeps strides as the CPU does, and what is compiled must agree
with what is eager. Eager could follow the rule, at the price of copies and of a table for each release of
torch; instead `torch._subclasses.fake_impls.is_noncontiguous_supported` and its twin in `torch._refs` answer
yes for hpu too, and fake convolutions take the strides that the CPU would give (`fake_results`), as soon
as those modules are there. No other device is touched.

Seeding goes through the hook that torch calls for devices it does not know
(`torch.random._seed_custom_device`), so that `torch.manual_seed` and `torch.seed` stay the functions that
Dynamo and others recognise by identity, and that names imported earlier seed hpu too.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

from habana_frameworks.torch import hpu
from habana_frameworks.torch.internal.patches.fake_results import ask_the_cpu
from habana_frameworks.torch.internal.patches.import_hooks import when_imported

import torch
from torch.nn.utils.rnn import PackedSequence
from torch.overrides import handle_torch_function, has_torch_function_unary

_applied = False


def apply() -> None:
    """Apply the patches; a second call does nothing."""
    global _applied
    if _applied:
        return
    _applied = True
    for patch, reason in PATCHES.items():
        assert reason
        patch()


def _seed() -> None:
    _replace(torch.random, "_seed_custom_device", _seeding_hpu)


def _fork_rng() -> None:
    _replace(torch.random, "fork_rng", _forking_hpu)


def _methods() -> None:
    for owner, name, value in (
        (torch.Tensor, "hpu", _tensor_hpu),
        (torch.Tensor, "is_hpu", property(_is_hpu)),
        (torch.nn.Module, "hpu", _module_hpu),
        (PackedSequence, "hpu", _packed_sequence_hpu),
        (PackedSequence, "is_hpu", property(_packed_sequence_is_hpu)),
    ):
        # A fork-like build, or a later torch, may bring its own.
        if not hasattr(owner, name):
            setattr(owner, name, value)


def _sparse_new() -> None:
    _replace(torch.Tensor, "new", _making_sparse)  # type: ignore[arg-type]


def _making_sparse(original: Callable[..., Any]) -> Callable[..., Any]:
    def new(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if self.layout == torch.sparse_coo and self.device.type == "hpu" and args:
            return torch.sparse_coo_tensor(*args, dtype=self.dtype, device=self.device)
        return original(self, *args, **kwargs)

    return new


def _byteswap() -> None:
    _replace(torch.UntypedStorage, "byteswap", _swapping_on_the_host)  # type: ignore[arg-type]


def _swapping_on_the_host(original: Callable[..., Any]) -> Callable[..., Any]:
    def byteswap(self: torch.UntypedStorage, dtype: torch.dtype) -> None:
        if self.device.type != "hpu":
            return original(self, dtype)
        host = self.cpu()
        original(host, dtype)
        self.copy_(host)
        return None

    return byteswap


def _foreach() -> None:
    # Other modules hold the functions under their names and would go on with the old ones.
    for holder in ("torch.utils._foreach_utils", "torch.optim.optimizer", "torch.optim.swa_utils"):
        module = importlib.import_module(holder)
        for name in ("_get_foreach_kernels_supported_devices", "_get_fused_kernels_supported_devices"):
            if hasattr(module, name):
                _replace(module, name, _including_hpu)


def _contiguity() -> None:
    for name in ("torch._subclasses.fake_impls", "torch._refs"):
        when_imported(name, _lift_contiguity)
    when_imported("torch._subclasses.fake_impls", ask_the_cpu)


def _inductor() -> None:
    when_imported("torch._inductor.compile_fx", lambda module: _replace(module, "compile_fx", _refusing_hpu))


def _sharding() -> None:
    when_imported("torch.distributed.fsdp._fully_shard._fsdp_collectives", _sum_and_divide)


def _accelerator() -> None:
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 7):
        _replace(torch.accelerator, "device_count", _counting_hpu)


PATCHES: dict[Callable[[], None], str] = {
    _seed: "torch.manual_seed and torch.seed seed every device that torch knows, and hpu is not among them",
    _fork_rng: "fork_rng should save hpu's generator by default, and only that of this process's device",
    _methods: "Tensor.hpu, Tensor.is_hpu and the like exist on fork-like builds only",
    _sparse_new: "the legacy constructor that SparseAdam uses knows no sparse hpu tensors",
    _byteswap: "torch swaps bytes through the host's pointer, which faults on device memory",
    _foreach: "optimizers take foreach= and fused= on the devices of lists that hpu is missing from",
    _contiguity: "fake results must have the strides of eager ones (see above)",
    _inductor: "Inductor has no code for hpu and would say so with a KeyError, late",
    _accelerator: "torch 2.6 asks the guard for the number of devices, which tells its engine of one",
    _sharding: "FSDP2 averages by an operator of NCCL's; hccl has the sum, to be divided afterwards",
}


def _replace(owner: ModuleType, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    original = getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(make(original)))


def _counting_hpu(original: Callable[[], int]) -> Callable[[], int]:
    def device_count() -> int:
        return hpu.device_count()

    return device_count


def _seeding_hpu(original: Callable[[int], None]) -> Callable[[int], None]:
    def seed_custom_device(seed: int) -> None:
        original(seed)
        # Workers of a data loader seed torch too; they have no device to seed.
        if not hpu._is_in_bad_fork():
            hpu.manual_seed_all(seed)

    return seed_custom_device


def _forking_hpu(
    original: Callable[..., AbstractContextManager[None]],
) -> Callable[..., AbstractContextManager[None]]:
    def fork_rng(
        devices: Any = None,
        enabled: bool = True,
        _caller: str = "fork_rng",
        _devices_kw: str = "devices",
        device_type: str | None = "hpu",
    ) -> AbstractContextManager[None]:
        device_type = device_type or "hpu"
        if devices is None and device_type == "hpu":
            devices = [] if hpu._is_in_bad_fork() else [0]
        return original(devices, enabled, _caller, _devices_kw, device_type)

    return fork_rng


def _including_hpu(original: Callable[[], list[str]]) -> Callable[[], list[str]]:
    def supported_devices() -> list[str]:
        devices = original()
        return devices if "hpu" in devices else [*devices, "hpu"]

    return supported_devices


#: The parameter of torch's function by which it sums and divides.
_BY_SUM = "force_sum_reduction_for_comms"


def _sum_and_divide(module: ModuleType) -> None:
    # The name is private and newer than some supported releases of torch.
    if hasattr(module, "_get_gradient_divide_factors"):
        _replace(module, "_get_gradient_divide_factors", _summing_on_hpu)


def _summing_on_hpu(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    def get_gradient_divide_factors(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        if (
            given.arguments.get("device_type") == "hpu"
            and "force_sum_reduction_for_comms" in signature.parameters
        ):
            given.arguments["force_sum_reduction_for_comms"] = True
        return original(*given.args, **given.kwargs)

    return get_gradient_divide_factors


def _lift_contiguity(module: ModuleType) -> None:
    if hasattr(module, "is_noncontiguous_supported"):
        _replace(module, "is_noncontiguous_supported", _supporting_hpu)


def _supporting_hpu(original: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def is_noncontiguous_supported(device: Any) -> bool:
        return (device is not None and device.type == "hpu") or original(device)

    return is_noncontiguous_supported


def _refusing_hpu(original: Callable[..., Any]) -> Callable[..., Any]:
    def compile_fx(model_: Any, example_inputs_: Any, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(value, torch.Tensor) and value.device.type == "hpu" for value in example_inputs_):
            raise RuntimeError(
                "Inductor does not compile for hpu tensors: use torch.compile(..., backend='hpu_backend')"
            )
        return original(model_, example_inputs_, *args, **kwargs)

    return compile_fx


def _tensor_hpu(
    self: torch.Tensor,
    device: Any = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> torch.Tensor:
    """Copy of the tensor on hpu, or the tensor itself where it is there already.

    Args:
        device: an hpu device or an index, by default the current one.
        non_blocking: do not wait for the copy, where the source is pinned.
        memory_format: layout of the copy.

    Raises:
        ValueError: `device` is not an hpu device.
    """
    if has_torch_function_unary(self):
        return handle_torch_function(
            _tensor_hpu, (self,), self, device=device, non_blocking=non_blocking, memory_format=memory_format
        )
    index = hpu._utils._get_device_index(device, optional=True)
    return self.to(torch.device("hpu", index), non_blocking=non_blocking, memory_format=memory_format)


def _is_hpu(self: torch.Tensor) -> bool:
    """Whether the tensor is on hpu."""
    return self.device.type == "hpu"


def _module_hpu(self: torch.nn.Module, device: Any = None) -> torch.nn.Module:
    """Move all parameters and buffers to hpu, in place, and return the module."""
    return self._apply(lambda tensor: tensor.hpu(device))


def _packed_sequence_hpu(
    self: PackedSequence, device: Any = None, non_blocking: bool = False
) -> PackedSequence:
    """Copy of the sequence on hpu, or the sequence itself where it is there already."""
    index = hpu._utils._get_device_index(device, optional=True)
    return self.to(torch.device("hpu", index), non_blocking=non_blocking)


def _packed_sequence_is_hpu(self: PackedSequence) -> bool:
    """Whether the data of the sequence is on hpu."""
    return self.data.device.type == "hpu"
