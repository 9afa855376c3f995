"""Collect facts about a target's dispatch keys, its module and its registration with torch, without running a
kernel.

A fact fails only if the target declares the capability or mode that needs the missing function or kernel.
Otherwise the fact is for information only.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework.calls import attempt
from conformance.target.target import Target

#: The functions that torch calls on a device's module, each with the capability that needs the function.
#: None: every device needs the function.
MODULE_FUNCTIONS: dict[str, str | None] = {
    "is_available": None,
    "device_count": None,
    "current_device": None,
    "set_device": None,
    "synchronize": "asynchronous",
    "is_initialized": "fork",
    "_is_in_bad_fork": "fork",
    "_lazy_init": "serialization",
    "device": "serialization",
    "get_rng_state": "generator",
    "set_rng_state": "generator",
    "manual_seed": "generator",
    "manual_seed_all": "generator",
    "initial_seed": "generator",
    "Stream": "streams",
    "current_stream": "streams",
    "Event": "events",
    "memory_allocated": "memory_statistics",
    "get_amp_supported_dtype": "autocast",
}
_ACCELERATOR_MEMORY = ("memory_allocated", "memory_reserved", "memory_stats", "get_memory_info")
_SHOWN = 400


@dataclasses.dataclass(frozen=True)
class Fact:
    """One line of the doctor's table.

    ``ok`` is None if the fact is for information only. ``step`` describes the fix. ``impact`` describes the
    results that are blocked and the file of openreg that implements the feature. ``operators`` are the
    operators that need the fix.
    """

    subject: str
    ok: bool | None
    text: str
    items: tuple[str, ...] = ()
    step: str = ""
    operators: tuple[str, ...] = ()
    impact: str = ""


def dispatch_key_of(target: Target) -> str:
    """Return the dispatch key of the target's device, e.g. ``HPU``."""
    return str(torch._C._dispatch_key_for_device(torch.device(target.device).type))


def collect_registration_facts(target: Target) -> list[Fact]:
    """Return all facts of this module in the order in which the doctor prints them. The backend must be
    imported already.
    """
    facts: list[Fact] = []
    for part in (
        _dispatch_key_facts,
        _accelerator_facts,
        _operator_facts,
        _autocast_facts,
        _distributed_facts,
        _device_module_facts,
        _device_index_facts,
        _seed_facts,
        _memory_facts,
        _optimizer_facts,
    ):
        try:
            facts += part(target)
        except Exception as error:
            facts.append(Fact(part.__name__.strip("_"), False, f"raised {type(error).__name__}: {error}"))
    return facts


def _is_dispatch_key(key: str) -> bool:
    try:
        torch._C._dispatch_has_kernel_for_dispatch_key("aten::add.Tensor", key)
    except RuntimeError:
        return False
    return True


def _dispatch_key_facts(target: Target) -> Iterator[Fact]:
    key = dispatch_key_of(target)
    family = ("", "Autograd", "Autocast", "Sparse", "SparseCsr", "Quantized", "NestedTensor")
    valid_keys = [prefix + key for prefix in family if _is_dispatch_key(prefix + key)]
    yield Fact("dispatch keys", key in valid_keys, f"{', '.join(valid_keys)} can be named from Python")


def _accelerator_facts(target: Target) -> Iterator[Fact]:
    """Yield facts about the device's accelerator hooks and device guard, which ``torch.accelerator``
    calls.
    """
    if target.is_cpu:
        return
    if not target.capable("accelerator"):
        yield Fact("torch.accelerator", None, "not declared; the target file's hooks replace it")
        if target.hook("synchronize") is not None:
            yield dataclasses.replace(
                _fact_of_call("synchronize", target.synchronize), text="the target file's hook"
            )
        return
    hooks = (
        "register the device's hooks (for PrivateUse1: at::RegisterPrivateUse1HooksInterface) and override "
        "isAvailable, deviceCount and getCurrentDevice in them"
    )
    current = torch_testing_internals.current_accelerator()
    kind = torch.device(target.device).type
    is_current = current is not None and current.type == kind
    text = "no accelerator is present" if current is None else f"{current.type} is the accelerator"
    yield Fact("torch.accelerator", is_current, text, step=hooks)
    for name in ("is_available", "device_count", "current_device_index"):
        fact = _fact_of_call(f"torch.accelerator.{name}", getattr(torch.accelerator, name))
        nothing = name != "current_device_index" and fact.text in ("False", "0")
        yield dataclasses.replace(fact, ok=bool(fact.ok and not nothing), step=hooks)
    if target.hook("synchronize") is not None:
        yield dataclasses.replace(
            _fact_of_call("synchronize", target.synchronize), text="the target file's hook"
        )
        return
    fact = _fact_of_call("torch.accelerator.synchronize", torch.accelerator.synchronize)
    yield dataclasses.replace(
        fact,
        ok=fact.ok if fact.ok or target.capable("asynchronous") else None,
        text="works" if fact.ok else fact.text,
        step="override synchronizeDevice in the device guard, name a function of your own under [hooks], or "
        "declare asynchronous = false if every call has finished when it returns",
    )


def overloads_of_namespace(namespace: str) -> list[str]:
    """Return all overloads of a namespace in the dispatcher."""
    return sorted(name for name in torch._C._dispatch_get_all_op_names() if name.startswith(namespace + "::"))


def _has_computed_kernel(name: str, key: str) -> bool:
    return bool(torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, key))


def _has_own_kernel(name: str, key: str) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))


def _operator_facts(target: Target) -> Iterator[Fact]:
    key = dispatch_key_of(target)
    on_cpu = [name for name in overloads_of_namespace("aten") if _has_computed_kernel(name, "CPU")]
    missing = tuple(name for name in on_cpu if not _has_computed_kernel(name, key))
    direct = sum(_has_own_kernel(name, key) for name in on_cpu)
    reached = len(on_cpu) - len(missing)
    text = (
        f"{reached} of the CPU's {len(on_cpu)} overloads have a kernel, {direct} are registered under {key}"
    )
    # This fact is for information only, because no device has a kernel for every operator.
    # ``declaration_checks`` finds the missing kernels that a level needs.
    yield Fact("aten operators", None, text, missing)
    composite = tuple(
        name
        for name in on_cpu
        if _has_own_kernel(name, "CPU") and not _has_own_kernel(name, key) and _has_composite_kernel(name)
    )
    if key != "CPU":
        yield Fact("composites in place of CPU kernels", None, f"{len(composite)} operators", composite)


def _has_composite_kernel(name: str) -> bool:
    return _has_own_kernel(name, "CompositeExplicitAutograd") or _has_own_kernel(
        name, "CompositeImplicitAutograd"
    )


def _autocast_facts(target: Target) -> Iterator[Fact]:
    key = f"Autocast{dispatch_key_of(target)}"
    declared = target.capable("autocast")
    step = f"register torch.autocast's fallthrough and casts under {key}, or declare autocast = false"
    if not _is_dispatch_key(key):
        yield Fact("autocast", False if declared else None, f"torch does not have a key {key}", step=step)
        return
    fallthrough = _has_computed_kernel("aten::add.Tensor", key)
    listed = sum(_has_own_kernel(name, key) for name in overloads_of_namespace("aten"))
    text = f"{'present' if fallthrough else 'absent'} on {key}"
    yield Fact("autocast fallthrough", fallthrough if declared else None, text, step=step)
    yield Fact(
        "autocast cast list", listed > 0 if declared else None, f"{listed} operators are cast", step=step
    )


#: Kernels that a device does not need, because torch.distributed.monitored_barrier() accepts only gloo.
_GLOO_ONLY = ("c10d::monitored_barrier_",)


def _distributed_facts(target: Target) -> Iterator[Fact]:
    if not torch.distributed.is_available():
        yield Fact("c10d kernels", None, "this torch has no distributed package")
        return
    key = dispatch_key_of(target)
    expected = [
        name
        for name in overloads_of_namespace("c10d")
        if _has_own_kernel(name, "CPU") and name not in _GLOO_ONLY
    ]
    missing = tuple(name for name in expected if not _has_own_kernel(name, key))
    # The collectives are required only if the target declares mode distributed.
    ok = not missing if "distributed" in target.modes else None
    step = f"register these collectives under {key}, or remove mode distributed from the target file"
    yield Fact("c10d kernels", ok, f"{len(expected) - len(missing)} of {len(expected)}", missing, step)


def _device_module_facts(target: Target) -> Iterator[Fact]:
    if not target.is_cpu and not target.is_known_to_torch_accelerator:
        return
    try:
        module = torch.get_device_module(target.device)
    except RuntimeError as error:
        step = "register the device's module with torch._register_device_module"
        yield Fact("module", False, str(error).splitlines()[0], step=step)
        return
    expected = [
        name
        for name, capability in MODULE_FUNCTIONS.items()
        if capability is None or target.capable(capability)
    ]
    if target.is_cpu:
        expected = [
            "is_available",
            "device_count",
            "current_device",
            "set_device",
            "synchronize",
            "current_stream",
        ]
    missing = tuple(name for name in expected if not hasattr(module, name))
    yield Fact(
        f"module {module.__name__}",
        not missing,
        f"{len(expected) - len(missing)} of {len(expected)} names that torch calls",
        missing,
        "add these names to the module" + _capabilities_to_withdraw(missing),
    )


def _capabilities_to_withdraw(missing: tuple[str, ...]) -> str:
    """Return the end of an advice sentence: the capabilities that the target file may set to false, if the
    backend does not add the missing names.
    """
    capabilities = dict.fromkeys(
        capability for capability in map(MODULE_FUNCTIONS.get, missing) if capability is not None
    )
    return f", or declare {', '.join(capabilities)} = false" if capabilities else ""


def new_tensors_lack_index(device: str) -> bool:
    """Return True if the attribute ``device`` of new tensors has no index.

    Operators compare the devices of their arguments, and treat ``DEVICE`` and ``DEVICE:0`` as different
    devices.
    """
    if torch.device(device).type == "cpu" or ":" in device:
        return False
    made = attempt(lambda: str(torch.empty(1, device=device).device))
    return made.ok and ":" not in made.value


def _device_index_facts(target: Target) -> Iterator[Fact]:
    """Yield a fact if the attribute ``device`` of new tensors has no index."""
    if new_tensors_lack_index(target.device):
        text = f"torch.empty(1, device={target.device!r}).device has no index"
        step = f'give new tensors an index, or set device = "{target.device}:0" in the target file'
        yield Fact("device index", False, text, step=step)


def _seed_facts(target: Target) -> Iterator[Fact]:
    """Yield a fact that reports whether ``torch.manual_seed`` seeds the generator of the device."""
    if target.is_cpu:
        yield Fact(
            "torch.manual_seed", torch.manual_seed(5).initial_seed() == 5, "reaches the CPU's generator"
        )
        return
    if not target.capable("generator") or not target.is_known_to_torch_accelerator:
        return
    module = torch.get_device_module(target.device)
    step = "add manual_seed_all and get_rng_state to the module, or declare generator = false"
    if not hasattr(module, "get_rng_state"):
        yield Fact("torch.manual_seed", False, f"{module.__name__} has no get_rng_state", step=step)
        return
    states = []
    for seed in (5, 6, 5):
        torch.manual_seed(seed)
        states.append(module.get_rng_state().tolist())
    reached = states[0] == states[2] != states[1]
    text = "reaches the device's generator" if reached else "does not seed the device"
    yield Fact("torch.manual_seed", reached, text, step=step)


def _fact_of_call(subject: str, test: Callable[[], object]) -> Fact:
    try:
        text = str(test())
    except Exception as error:
        return Fact(
            subject,
            False,
            f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200],
        )
    return Fact(subject, True, text)


def _describe_result_type(function: Callable[[], object]) -> str:
    return f"returns {type(function()).__name__}"


def _memory_facts(target: Target) -> Iterator[Fact]:
    if not target.is_known_to_torch_accelerator or not target.capable("memory_statistics"):
        return
    for name in _ACCELERATOR_MEMORY:
        function: Any = getattr(torch.accelerator, name, None)
        if function is not None:
            fact = _fact_of_call(
                f"torch.accelerator.{name}", functools.partial(_describe_result_type, function)
            )
            step = "register an allocator that counts, or declare memory_statistics = false"
            yield dataclasses.replace(fact, step=step)


def _optimizer_facts(target: Target) -> Iterator[Fact]:
    try:
        from torch.utils import _foreach_utils
    except ImportError:
        return
    kind = torch.device(target.device).type
    for subject, name in (("foreach optimizers", "_get_foreach_kernels_supported_devices"),
                          ("fused optimizers", "_get_fused_kernels_supported_devices")):  # fmt: skip
        function = getattr(_foreach_utils, name, None)
        if function is None or not inspect.isfunction(function):
            continue
        listed = kind in function()
        yield Fact(subject, None, f"{kind} is {'' if listed else 'not '}in torch's list")


def shorten(items: tuple[str, ...], limit: int = _SHOWN) -> str:
    """Return the items as one line. If the line would exceed about ``limit`` characters, it ends with the
    number of omitted items.
    """
    text = ""
    for index, item in enumerate(items):
        if len(text) + len(item) > limit:
            return f"{text}and {len(items) - index} more"
        text += item + (", " if index + 1 < len(items) else "")
    return text
