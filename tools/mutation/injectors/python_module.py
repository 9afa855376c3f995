"""Faults of the Python front: the functions of the device's module and of ``torch.accelerator``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from conformance.target.target import Target
from tools.mutation.injectors.function_wrapper import Function, Functions, Kind, WrappedCall

# Themselves, not what may replace them.
_device, _set_device = torch.accelerator.current_device_index, torch.accelerator.set_device_index
_stream, _set_stream = torch.accelerator.current_stream, torch.accelerator.set_stream


def _is_number(call: WrappedCall) -> bool:
    value = _first(call)
    return isinstance(value, int) and not isinstance(value, bool)


def _first(call: WrappedCall) -> Any:
    return call.result[0] if isinstance(call.result, tuple) and call.result else call.result


def _replace_number(call: WrappedCall, number: int) -> bool:
    changed = bool(number != _first(call))
    call.result = (number, *call.result[1:]) if isinstance(call.result, tuple) else number
    return changed


def _stale(call: WrappedCall) -> bool:
    """Return what the first call with the same arguments returned."""
    key = repr((call.args, sorted(call.kwargs.items())))
    old = call.memory.setdefault(key, _copied(call.result))
    changed = not _same(old, call.result)
    call.result = _copied(old)
    return changed


def _copied(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_copied, value))
    return value.clone() if isinstance(value, torch.Tensor) else value


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _lose(call: WrappedCall) -> bool:
    call.result = None
    return True


def _leave_state(call: WrappedCall) -> bool:
    """Make the call, and put the current device and stream back to what they were."""
    device, stream = _device(), _stream()
    call.perform()
    changed = _device() != device
    if changed:
        _set_device(device)
    if _stream() != stream:
        _set_stream(stream)
        changed = True
    return changed


def _seed_at(call: WrappedCall) -> int | None:
    value = call.args[0] if call.args else call.kwargs.get("seed")
    return value if isinstance(value, int) else None


def _with_seed(call: WrappedCall, seed: int) -> bool:
    changed = seed != _seed_at(call)
    call.args, call.kwargs = (seed, *call.args[1:]), {k: v for k, v in call.kwargs.items() if k != "seed"}
    call.perform()
    return changed


def _lose_offset(call: WrappedCall) -> bool:
    """Restore the seed of a state and not what was drawn since."""
    call.perform()
    if call.error is not None:
        return False
    module: Any = torch.get_device_module()
    before = module.get_rng_state()
    module.manual_seed(module.initial_seed())
    return not torch.equal(before, module.get_rng_state())


def _zeros(value: Any) -> Any:
    if isinstance(value, dict):
        return type(value)((key, _zeros(item)) for key, item in value.items())
    return 0 if isinstance(value, int) and not isinstance(value, bool) else value


def _count_nothing(call: WrappedCall) -> bool:
    old, call.result = call.result, _zeros(call.result)
    return bool(old != call.result)


def _hide_error(call: WrappedCall) -> bool:
    call.error = None
    return True


def _change_error(call: WrappedCall) -> bool:
    words = "the call failed"
    call.error = RuntimeError(words) if isinstance(call.error, IndexError) else IndexError(words)
    return True


def _invert(call: WrappedCall) -> bool:
    call.result = not call.result
    return True


#: The kinds of faults of the front.
BY_NAME: Mapping[str, Kind] = {
    "value-off-by-one": Kind(
        "a number is one too large", _is_number, lambda call: _replace_number(call, _first(call) + 1)
    ),
    "value-zero": Kind("a number is 0", _is_number, lambda call: _replace_number(call, 0)),
    "value-stale": Kind(
        "what the first call returned is returned again", lambda call: call.error is None, _stale
    ),
    "answer-inverted": Kind("yes for no", lambda call: isinstance(call.result, bool), _invert),
    "setting-lost": Kind("the call does nothing", lambda call: True, _lose, after=False),
    "current-not-set": Kind(
        "the current device or stream stays as it is", lambda call: True, _leave_state, after=False
    ),
    "seed-ignored": Kind(
        "every seed is 0",
        lambda call: _seed_at(call) not in (None, 0),
        lambda call: _with_seed(call, 0),
        after=False,
    ),
    "seed-of-32-bits": Kind(
        "the upper half of a seed is lost",
        lambda call: (seed := _seed_at(call)) is not None and seed != seed & 0xFFFFFFFF,
        lambda call: _with_seed(call, int(_seed_at(call) or 0) & 0xFFFFFFFF),
        after=False,
    ),
    "state-without-offset": Kind(
        "a restored generator begins anew from its seed", lambda call: True, _lose_offset, after=False
    ),
    "statistics-zero": Kind(
        "every statistic is 0",
        lambda call: isinstance(call.result, dict) and bool(call.result),
        _count_nothing,
    ),
    "context-not-left": Kind(
        "a context does not put back what it changed", lambda call: True, _leave_state, after=False
    ),
    "context-not-entered": Kind(
        "a context does not set what it is for", lambda call: True, _leave_state, after=False
    ),
    "call-error-missing": Kind("an error is swallowed", lambda call: call.error is not None, _hide_error),
    "call-error-type": Kind("an error has another type", lambda call: call.error is not None, _change_error),
}

#: By kind, what it does.
KINDS: Mapping[str, str] = {name: kind.words for name, kind in BY_NAME.items()}

_NUMBER = ("value-off-by-one", "value-zero", "value-stale")
#: Of free memory, which others may take or give back at any time.
_FREE = ("value-zero", "value-stale")
_SETTER = ("setting-lost",)
_SEED = ("setting-lost", "seed-ignored", "seed-of-32-bits")
_RESTORE = ("setting-lost", "state-without-offset")
_CURRENT = ("current-not-set",)
#: Of functions that refuse what there is not: a device, or a state that is none.
_ERRORS = ("call-error-missing", "call-error-type")
#: Functions about more than one device; a process that has only one cannot tell them apart.
_OF_SEVERAL = (
    "set_device",
    "set_device_index",
    "device",
    "device_of",
    "device_index",
    "can_device_access_peer",
)
_CONTEXTS = ("context-not-entered", "context-not-left")

#: What torch documents of the modules of its devices (torch.cuda, torch.xpu, torch.mtia) under one name.
_MODULE: Mapping[str, tuple[str, ...]] = {
    "is_available": ("answer-inverted",),
    "is_initialized": ("answer-inverted",),
    "is_bf16_supported": ("answer-inverted",),
    "is_current_stream_capturing": ("answer-inverted",),
    "can_device_access_peer": ("answer-inverted",),
    "device_count": ("value-off-by-one", "value-zero"),
    "current_device": ("value-off-by-one",),
    "set_device": (*_CURRENT, *_ERRORS),
    "synchronize": _SETTER,
    "current_stream": ("value-stale",),
    "set_stream": _CURRENT,
    "get_device_name": _ERRORS,
    "get_device_properties": _ERRORS,
    "empty_cache": _SETTER,
    "memory_allocated": _NUMBER,
    "max_memory_allocated": _NUMBER,
    "memory_reserved": _NUMBER,
    "max_memory_reserved": _NUMBER,
    "mem_get_info": _FREE,
    "memory_stats": ("statistics-zero", "value-stale"),
    "reset_peak_memory_stats": _SETTER,
    "reset_accumulated_memory_stats": _SETTER,
    "manual_seed": _SEED,
    "manual_seed_all": _SEED,
    "seed": _SETTER,
    "seed_all": _SETTER,
    "initial_seed": _NUMBER,
    "get_rng_state": ("value-stale",),
    "get_rng_state_all": ("value-stale",),
    "set_rng_state": (*_RESTORE, *_ERRORS),
    "set_rng_state_all": _RESTORE,
}
_ACCELERATOR: Mapping[str, tuple[str, ...]] = {
    "is_available": ("answer-inverted",),
    "device_count": ("value-off-by-one", "value-zero"),
    "current_device_index": ("value-off-by-one",),
    "current_stream": ("value-stale",),
    "set_device_index": (*_CURRENT, *_ERRORS),
    "set_stream": _CURRENT,
    "synchronize": _SETTER,
    "empty_cache": _SETTER,
    "memory_allocated": _NUMBER,
    "max_memory_allocated": _NUMBER,
    "memory_reserved": _NUMBER,
    "max_memory_reserved": _NUMBER,
    "get_memory_info": _FREE,
    "memory_stats": ("statistics-zero", "value-stale"),
    "reset_peak_memory_stats": _SETTER,
    "reset_accumulated_memory_stats": _SETTER,
}
#: Contexts that are classes: of the module, of torch.accelerator.
_CLASSES = ("device", "device_of", "StreamContext", "device_index")


#: Faults that a device cannot show which has reserved all of its memory from the start.
_OF_RESERVED = {
    ("empty_cache", "setting-lost"),
    ("memory_reserved", "value-stale"),
    ("max_memory_reserved", "value-stale"),
}
#: More bytes than a device keeps at hand.
_MANY = 1 << 26


def of(target: Target) -> Functions:
    """Return the planter for the front of a target's device."""
    functions: dict[str, Function] = {}
    allowed: dict[str, tuple[str, ...]] = {}
    module = torch.get_device_module(target.device)
    several = _has_two_devices()
    reserves_all = not _reserves_more(target.device)
    for word, owner, rules in (("module", module, _MODULE), ("accelerator", torch.accelerator, _ACCELERATOR)):
        for name, kinds in rules.items():
            if name in _OF_SEVERAL and not several:
                kinds = tuple(kind for kind in kinds if kind in _ERRORS)
            if reserves_all:
                kinds = tuple(kind for kind in kinds if (name, kind) not in _OF_RESERVED)
            if callable(getattr(owner, name, None)) and kinds:
                place = f"{word}::{name}"
                functions[place], allowed[place] = Function(owner, name), kinds
        for name in _CLASSES:
            owned = getattr(owner, name, None)
            if name in _OF_SEVERAL and not several:
                continue
            if isinstance(owned, type) and hasattr(owned, "__exit__"):
                for method, kind in zip(("__enter__", "__exit__"), _CONTEXTS, strict=True):
                    place = f"{word}::{name}.{method}"
                    functions[place], allowed[place] = Function(owned, method), (kind,)
    return Functions(functions, allowed, BY_NAME)


def _reserves_more(device: str) -> bool:
    """Return whether the device reserves memory when a large tensor is made; True if it does not say."""
    try:
        before = torch.accelerator.memory_reserved()
    except RuntimeError:
        return True
    large = torch.empty(_MANY, dtype=torch.uint8, device=device)
    after = torch.accelerator.memory_reserved()
    del large
    torch.accelerator.empty_cache()
    return bool(before != after)


def _has_two_devices() -> bool:
    """Return whether this process can make another device the current one."""
    before = _device()
    try:
        _set_device(before + 1)
    except RuntimeError:
        return False
    changed = _device() != before
    _set_device(before)
    return changed
