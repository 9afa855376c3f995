"""Facts about a target's dispatch keys, its module and what torch knows of it. Nothing here computes."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.target import Target

#: What torch calls on a device's module, with the capability that it belongs to (None: every device).
MODULE_FUNCTIONS: dict[str, str | None] = {
    "is_available": None,
    "is_initialized": None,
    "_lazy_init": None,
    "_is_in_bad_fork": "fork",
    "device_count": None,
    "current_device": None,
    "set_device": None,
    "synchronize": None,
    "device": None,
    "get_rng_state": "generator",
    "set_rng_state": "generator",
    "manual_seed": "generator",
    "manual_seed_all": "generator",
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
    """One line of the table. ``ok`` is None where the fact is only told."""

    subject: str
    ok: bool | None
    text: str
    items: tuple[str, ...] = ()


def key_of(target: Target) -> str:
    """The dispatch key of the target's device, e.g. ``HPU``."""
    return str(torch._C._dispatch_key_for_device(torch.device(target.device).type))


def collect(target: Target) -> list[Fact]:
    """All facts, in the order in which they are read best. The backend must be up."""
    found: list[Fact] = []
    for part in (_keys, _operators, _autocast, _distributed, _module, _seed, _runtime, _optimizers):
        try:
            found += part(target)
        except Exception as error:
            found.append(Fact(part.__name__.strip("_"), False, f"raised {type(error).__name__}: {error}"))
    return found


def _parses(key: str) -> bool:
    try:
        torch._C._dispatch_has_kernel_for_dispatch_key("aten::add.Tensor", key)
    except RuntimeError:
        return False
    return True


def _keys(target: Target) -> Iterator[Fact]:
    key = key_of(target)
    family = ("", "Autograd", "Autocast", "Sparse", "SparseCsr", "Quantized", "NestedTensor")
    known = [prefix + key for prefix in family if _parses(prefix + key)]
    yield Fact("dispatch keys", key in known, f"{', '.join(known)} can be named from Python")


def names(namespace: str) -> list[str]:
    """All overloads of a namespace that the dispatcher knows."""
    return sorted(name for name in torch._C._dispatch_get_all_op_names() if name.startswith(namespace + "::"))


def _computed(name: str, key: str) -> bool:
    return bool(torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, key))


def _direct(name: str, key: str) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))


def _operators(target: Target) -> Iterator[Fact]:
    key = key_of(target)
    on_cpu = [name for name in names("aten") if _computed(name, "CPU")]
    missing = tuple(name for name in on_cpu if not _computed(name, key))
    own = sum(_direct(name, key) for name in on_cpu)
    reached = len(on_cpu) - len(missing)
    text = f"{reached} of {len(on_cpu)} that the CPU has reach a kernel, {own} one of {key}'s own"
    yield Fact("aten operators", not missing, text, missing)
    composite = tuple(
        name for name in on_cpu if _direct(name, "CPU") and not _direct(name, key) and _composite(name)
    )
    if key != "CPU":
        yield Fact("composites in place of CPU kernels", None, f"{len(composite)} operators", composite)


def _composite(name: str) -> bool:
    return _direct(name, "CompositeExplicitAutograd") or _direct(name, "CompositeImplicitAutograd")


def _autocast(target: Target) -> Iterator[Fact]:
    key = f"Autocast{key_of(target)}"
    if not _parses(key):
        yield Fact("autocast", False, f"torch has no key {key}")
        return
    fallthrough = _computed("aten::add.Tensor", key)
    yield Fact("autocast fallthrough", fallthrough, f"{'present' if fallthrough else 'absent'} on {key}")
    listed = sum(_direct(name, key) for name in names("aten"))
    yield Fact("autocast cast list", listed > 0, f"{listed} operators are cast")


def _distributed(target: Target) -> Iterator[Fact]:
    if not torch.distributed.is_available():
        yield Fact("c10d kernels", None, "this torch has no distributed package")
        return
    key = key_of(target)
    wanted = [name for name in names("c10d") if _direct(name, "CPU")]
    missing = tuple(name for name in wanted if not _direct(name, key))
    # Collectives are promised with the mode that is made of them, and only told of otherwise.
    ok = not missing if "distributed" in target.modes else None
    yield Fact("c10d kernels", ok, f"{len(wanted) - len(missing)} of {len(wanted)}", missing)


def _module(target: Target) -> Iterator[Fact]:
    module = torch.get_device_module(target.device)
    wanted = [name for name, word in MODULE_FUNCTIONS.items() if word is None or target.capable(word)]
    if target.is_cpu:
        wanted = [
            "is_available",
            "device_count",
            "current_device",
            "set_device",
            "synchronize",
            "current_stream",
        ]
    missing = tuple(name for name in wanted if not hasattr(module, name))
    yield Fact(
        f"module {module.__name__}",
        not missing,
        f"{len(wanted) - len(missing)} of {len(wanted)} names",
        missing,
    )


def _seed(target: Target) -> Iterator[Fact]:
    """Whether torch.manual_seed moves the generator of the device."""
    if target.is_cpu:
        yield Fact(
            "torch.manual_seed", torch.manual_seed(5).initial_seed() == 5, "reaches the CPU's generator"
        )
        return
    module = torch.get_device_module(target.device)
    states = []
    for seed in (5, 6, 5):
        torch.manual_seed(seed)
        states.append(module.get_rng_state().tolist())
    reached = states[0] == states[2] != states[1]
    yield Fact(
        "torch.manual_seed",
        reached,
        "reaches the device's generator" if reached else "leaves the device alone",
    )


def _tried(subject: str, test: Callable[[], object]) -> Fact:
    try:
        text = str(test())
    except Exception as error:
        return Fact(
            subject,
            False,
            f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200],
        )
    return Fact(subject, True, text)


def _type_of(function: Callable[[], object]) -> str:
    return f"gives {type(function()).__name__}"


def _runtime(target: Target) -> Iterator[Fact]:
    device = target.device
    yield _tried("torch.Generator", lambda: f"made for {torch.Generator(device).device}")
    if target.is_cpu:
        return
    if target.capable("pinned_memory"):
        yield _tried("pinned memory", lambda: f"is_pinned is {torch.empty(1).pin_memory().is_pinned()}")
    if target.capable("streams"):
        yield _tried("torch.Stream", lambda: f"made on {torch.Stream(torch.device(device)).device}")
    if target.capable("events"):
        yield _tried("torch.Event", lambda: f"made on {torch.Event(torch.device(device)).device}")
    if target.capable("memory_statistics"):
        for name in _ACCELERATOR_MEMORY:
            function: Any = getattr(torch.accelerator, name, None)
            if function is not None:
                yield _tried(f"torch.accelerator.{name}", functools.partial(_type_of, function))


def _optimizers(target: Target) -> Iterator[Fact]:
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
    """Items in a line of at most about ``limit`` characters."""
    text = ""
    for index, item in enumerate(items):
        if len(text) + len(item) > limit:
            return f"{text}and {len(items) - index} more"
        text += item + (", " if index + 1 < len(items) else "")
    return text
