"""Faults of generator objects: what ``torch.Generator`` of the device does with seeds and states."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch

from conformance.target.target import Target
from tools.mutation.injectors import python_module
from tools.mutation.injectors.function_wrapper import Function, Functions, Kind, WrappedCall

# Itself, not what stands in for it.
_Generator = torch.Generator


class _Meta(type(_Generator)):  # type: ignore[misc]
    """Counts every generator as one, also those that were made before."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Generator)


class _StandIn(_Generator, metaclass=_Meta):
    """Stands in for ``torch.Generator``, whose own methods cannot be replaced."""


def _seed(call: WrappedCall) -> int | None:
    value = call.args[1] if len(call.args) > 1 else call.kwargs.get("seed")
    return value if isinstance(value, int) else None


def _is_seeded_otherwise(call: WrappedCall) -> bool:
    return _seed(call) not in (None, _Generator.initial_seed(call.args[0]))


def _lose_seed(call: WrappedCall) -> bool:
    call.result = call.args[0]
    return True


def _with_seed(call: WrappedCall, seed: int) -> bool:
    changed = seed != _seed(call)
    call.args, call.kwargs = (call.args[0], seed), {}
    call.perform()
    return changed


def _keep_seed(call: WrappedCall) -> bool:
    call.result = _Generator.initial_seed(call.args[0])
    return True


def _lose_offset(call: WrappedCall) -> bool:
    call.perform()
    generator = call.args[0]
    if call.error is not None:
        return False
    before = _Generator.get_state(generator)
    _Generator.manual_seed(generator, _Generator.initial_seed(generator))
    return not torch.equal(before, _Generator.get_state(generator))


def _share_clone(call: WrappedCall) -> bool:
    call.result = call.args[0]
    return True


def _first_state(call: WrappedCall) -> bool:
    """Return the state that the generator had in the first call; generators are kept, so that none is taken
    for another.
    """
    generator = call.args[0]
    _, state = call.memory.setdefault(str(id(generator)), (generator, call.result.clone()))
    changed = not torch.equal(state, call.result)
    call.result = state.clone()
    return changed


def _share_first(call: WrappedCall) -> bool:
    first = call.memory.setdefault("first", call.result)
    changed = first is not call.result
    call.result = first
    return changed


BY_NAME: Mapping[str, Kind] = {
    "generator-seed-lost": Kind(
        "a seed is not set, and the generator goes on as before",
        _is_seeded_otherwise,
        _lose_seed,
        after=False,
    ),
    "generator-seed-ignored": Kind(
        "every seed of a generator is 0",
        lambda call: _seed(call) not in (None, 0),
        lambda call: _with_seed(call, 0),
        after=False,
    ),
    "generator-seed-of-32-bits": Kind(
        "the upper half of a generator's seed is lost",
        lambda call: (seed := _seed(call)) is not None and seed != seed & 0xFFFFFFFF,
        lambda call: _with_seed(call, int(_seed(call) or 0) & 0xFFFFFFFF),
        after=False,
    ),
    "generator-seed-kept": Kind("a new seed is the old one", lambda call: True, _keep_seed, after=False),
    "generator-state-lost": Kind("a state is not set", lambda call: True, lambda call: True, after=False),
    "generator-state-without-offset": Kind(
        "a generator whose state is set begins anew from its seed",
        lambda call: True,
        _lose_offset,
        after=False,
    ),
    "generator-state-stale": Kind(
        "a generator returns the state that it returned first",
        lambda call: isinstance(call.result, torch.Tensor),
        _first_state,
    ),
    "generator-clone-shared": Kind(
        "a clone is the generator itself", lambda call: call.error is None, _share_clone
    ),
    "generators-shared": Kind(
        "all generators that a program makes are one", lambda call: call.error is None, _share_first
    ),
}
#: By kind, what it does.
KINDS: Mapping[str, str] = {name: kind.words for name, kind in BY_NAME.items()}

_ERRORS = ("call-error-missing", "call-error-type")
_METHODS: Mapping[str, tuple[str, ...]] = {
    "__new__": ("generators-shared",),
    "manual_seed": (
        *("generator-seed-lost", "generator-seed-ignored", "generator-seed-of-32-bits"),
        *_ERRORS,
    ),
    "seed": ("generator-seed-kept",),
    "initial_seed": ("value-off-by-one", "value-zero"),
    "get_state": ("generator-state-stale",),
    "set_state": ("generator-state-lost", "generator-state-without-offset", *_ERRORS),
    "clone_state": ("generator-clone-shared",),
}


class Generators(Functions):
    """Plants faults of the generators of one type of device, in a class that stands in for torch's."""

    def _wrap(self, place: str, serve: Callable[[str, WrappedCall], Any]) -> None:
        if not self._undo:
            torch.Generator = _StandIn  # type: ignore[misc]
            self._undo.append(_restore)
        super()._wrap(place, serve)


def _restore() -> None:
    torch.Generator = _Generator  # type: ignore[misc]


def _of_device(kind: Kind, device: str) -> Kind:
    def meets(call: WrappedCall) -> bool:
        made = call.args[0]
        generator = made if isinstance(made, _Generator) else call.result
        # A call that was refused has made none.
        return isinstance(generator, _Generator) and generator.device.type == device and kind.meets(call)

    return dataclasses.replace(kind, meets=meets)


def of(target: Target) -> Generators:
    """Return the planter for the generators of a target's device."""
    device = torch.device(target.device).type
    kinds = {name: _of_device(kind, device) for name, kind in {**python_module.BY_NAME, **BY_NAME}.items()}
    functions = {f"generator::{name}": Function(_StandIn, name) for name in _METHODS}
    allowed = {f"generator::{name}": names for name, names in _METHODS.items()}
    return Generators(functions, allowed, kinds)
