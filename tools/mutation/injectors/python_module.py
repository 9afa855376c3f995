"""Inject mutants of the Python API: functions of the device module and of ``torch.accelerator``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from conformance.target.target import Target
from tools.mutation.injectors.function_wrapper import (
    Function,
    FunctionInjector,
    MutationOperator,
    WrappedCall,
)

# The original functions, which the injector later replaces by wrappers.
_device, _set_device = torch.accelerator.current_device_index, torch.accelerator.set_device_index
_stream, _set_stream = torch.accelerator.current_stream, torch.accelerator.set_stream


def _returns_number(call: WrappedCall) -> bool:
    value = _returned_number(call)
    return isinstance(value, int) and not isinstance(value, bool)


def _returned_number(call: WrappedCall) -> Any:
    return call.result[0] if isinstance(call.result, tuple) and call.result else call.result


def _replace_number(call: WrappedCall, number: int) -> bool:
    changed = bool(number != _returned_number(call))
    call.result = (number, *call.result[1:]) if isinstance(call.result, tuple) else number
    return changed


def _return_first_result(call: WrappedCall) -> bool:
    """Replace the result by the first result that a call with the same arguments returned."""
    key = repr((call.args, sorted(call.kwargs.items())))
    old = call.memory.setdefault(key, _copy_if_tensor(call.result))
    changed = not _are_equal(old, call.result)
    call.result = _copy_if_tensor(old)
    return changed


def _copy_if_tensor(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_copy_if_tensor, value))
    return value.clone() if isinstance(value, torch.Tensor) else value


def _are_equal(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor):
        return torch.equal(left, right)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(_are_equal, left, right))
    return bool(left == right)


def _skip_call(call: WrappedCall) -> bool:
    call.result = None
    return True


def _leave_state_unchanged(call: WrappedCall) -> bool:
    """Make the call, then restore the current device and stream."""
    device, stream = _device(), _stream()
    call.perform()
    changed = _device() != device
    if changed:
        _set_device(device)
    if _stream() != stream:
        _set_stream(stream)
        changed = True
    return changed


def _seed_argument(call: WrappedCall) -> int | None:
    value = call.args[0] if call.args else call.kwargs.get("seed")
    return value if isinstance(value, int) else None


def _call_with_seed(call: WrappedCall, seed: int) -> bool:
    changed = seed != _seed_argument(call)
    call.args, call.kwargs = (seed, *call.args[1:]), {k: v for k, v in call.kwargs.items() if k != "seed"}
    call.perform()
    return changed


def _restart_from_seed(call: WrappedCall) -> bool:
    """Set the state, then restart the generator from its seed, so that the offset in the state is lost."""
    call.perform()
    if call.error is not None:
        return False
    module: Any = torch.get_device_module()
    before = module.get_rng_state()
    module.manual_seed(module.initial_seed())
    return not torch.equal(before, module.get_rng_state())


def _zero_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return type(value)((key, _zero_integers(item)) for key, item in value.items())
    return 0 if isinstance(value, int) and not isinstance(value, bool) else value


def _zero_statistics(call: WrappedCall) -> bool:
    old, call.result = call.result, _zero_integers(call.result)
    return bool(old != call.result)


def _hide_error(call: WrappedCall) -> bool:
    call.error = None
    return True


def _change_error(call: WrappedCall) -> bool:
    message = "the call failed"
    call.error = RuntimeError(message) if isinstance(call.error, IndexError) else IndexError(message)
    return True


def _invert_result(call: WrappedCall) -> bool:
    call.result = not call.result
    return True


#: The mutation operators of the Python API, by name.
BY_NAME: Mapping[str, MutationOperator] = {
    "value-off-by-one": MutationOperator(
        "a number is one too large",
        _returns_number,
        lambda call: _replace_number(call, _returned_number(call) + 1),
    ),
    "value-zero": MutationOperator("a number is 0", _returns_number, lambda call: _replace_number(call, 0)),
    "value-stale": MutationOperator(
        "the result of the first call is returned again",
        lambda call: call.error is None,
        _return_first_result,
    ),
    "answer-inverted": MutationOperator(
        "a Boolean result is inverted", lambda call: isinstance(call.result, bool), _invert_result
    ),
    "setting-lost": MutationOperator("the call does nothing", lambda call: True, _skip_call, after=False),
    "current-not-set": MutationOperator(
        "the current device or stream stays as it is", lambda call: True, _leave_state_unchanged, after=False
    ),
    "seed-ignored": MutationOperator(
        "every seed is 0",
        lambda call: _seed_argument(call) not in (None, 0),
        lambda call: _call_with_seed(call, 0),
        after=False,
    ),
    "seed-of-32-bits": MutationOperator(
        "the upper half of a seed is lost",
        lambda call: (seed := _seed_argument(call)) is not None and seed != seed & 0xFFFFFFFF,
        lambda call: _call_with_seed(call, int(_seed_argument(call) or 0) & 0xFFFFFFFF),
        after=False,
    ),
    "state-without-offset": MutationOperator(
        "a restored generator restarts from its seed", lambda call: True, _restart_from_seed, after=False
    ),
    "statistics-zero": MutationOperator(
        "every statistic is 0",
        lambda call: isinstance(call.result, dict) and bool(call.result),
        _zero_statistics,
    ),
    "context-not-left": MutationOperator(
        "a context manager does not restore the device or stream on exit",
        lambda call: True,
        _leave_state_unchanged,
        after=False,
    ),
    "context-not-entered": MutationOperator(
        "a context manager does not set its device or stream on entry",
        lambda call: True,
        _leave_state_unchanged,
        after=False,
    ),
    "call-error-missing": MutationOperator(
        "an error is swallowed", lambda call: call.error is not None, _hide_error
    ),
    "call-error-type": MutationOperator(
        "an error has another type", lambda call: call.error is not None, _change_error
    ),
}

#: Descriptions by mutation operator.
MUTATION_OPERATORS: Mapping[str, str] = {name: kind.description for name, kind in BY_NAME.items()}

_NUMBER = ("value-off-by-one", "value-zero", "value-stale")
#: Mutation operators of functions that return the amount of free memory. ``value-off-by-one`` is omitted,
#: because other processes may change the amount at any time.
_FREE_MEMORY = ("value-zero", "value-stale")
_SETTER = ("setting-lost",)
_SEED = ("setting-lost", "seed-ignored", "seed-of-32-bits")
_RESTORE = ("setting-lost", "state-without-offset")
_CURRENT = ("current-not-set",)
#: Mutation operators of functions that refuse a missing device or an invalid state.
_ERRORS = ("call-error-missing", "call-error-type")
#: Functions with a device argument. If only one device exists, their mutants have no effect, except mutants
#: of errors.
_DEVICE_FUNCTIONS = (
    "set_device",
    "set_device_index",
    "device",
    "device_of",
    "device_index",
    "can_device_access_peer",
)
_CONTEXTS = ("context-not-entered", "context-not-left")

#: Functions that torch documents under one name for its device modules (torch.cuda, torch.xpu, torch.mtia).
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
    "mem_get_info": _FREE_MEMORY,
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
    "get_memory_info": _FREE_MEMORY,
    "memory_stats": ("statistics-zero", "value-stale"),
    "reset_peak_memory_stats": _SETTER,
    "reset_accumulated_memory_stats": _SETTER,
}
#: Context manager classes of the device module and of torch.accelerator.
_CLASSES = ("device", "device_of", "StreamContext", "device_index")


#: (function, mutation operator) pairs without an effect on a device that reserves all its memory at the
#: start.
_OF_RESERVED = {
    ("empty_cache", "setting-lost"),
    ("memory_reserved", "value-stale"),
    ("max_memory_reserved", "value-stale"),
}
#: A number of bytes that exceeds the free part of a device's reserved memory.
_MANY = 1 << 26


def python_module_injector(target: Target) -> FunctionInjector:
    """Return the injector for the Python API of a target's device."""
    functions: dict[str, Function] = {}
    allowed: dict[str, tuple[str, ...]] = {}
    module = torch.get_device_module(target.device)
    has_two_devices = _has_two_devices()
    reserves_all = not _reserves_more_memory_than_allocated(target.device)
    for prefix, owner, rules in (
        ("module", module, _MODULE),
        ("accelerator", torch.accelerator, _ACCELERATOR),
    ):
        for name, operator_names in rules.items():
            if name in _DEVICE_FUNCTIONS and not has_two_devices:
                operator_names = tuple(operator for operator in operator_names if operator in _ERRORS)
            if reserves_all:
                operator_names = tuple(
                    operator for operator in operator_names if (name, operator) not in _OF_RESERVED
                )
            if callable(getattr(owner, name, None)) and operator_names:
                point = f"{prefix}::{name}"
                functions[point], allowed[point] = Function(owner, name), operator_names
        for name in _CLASSES:
            owned = getattr(owner, name, None)
            if name in _DEVICE_FUNCTIONS and not has_two_devices:
                continue
            if isinstance(owned, type) and hasattr(owned, "__exit__"):
                for method, operator in zip(("__enter__", "__exit__"), _CONTEXTS, strict=True):
                    point = f"{prefix}::{name}.{method}"
                    functions[point], allowed[point] = Function(owned, method), (operator,)
    return FunctionInjector(functions, allowed, BY_NAME)


def _reserves_more_memory_than_allocated(device: str) -> bool:
    """Return whether the device reserves more memory when a large tensor is created. Return True if the
    device does not report its reserved memory.
    """
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
    """Return whether this process can make a second device the current device."""
    before = _device()
    try:
        _set_device(before + 1)
    except RuntimeError:
        return False
    changed = _device() != before
    _set_device(before)
    return changed
