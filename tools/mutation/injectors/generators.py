"""Inject mutants of generator objects: seeds and states of the device's ``torch.Generator``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch

from conformance.target.target import Target
from tools.mutation.injectors import python_module
from tools.mutation.injectors.function_wrapper import (
    Function,
    FunctionInjector,
    MutationOperator,
    WrappedCall,
)

# torch's own class. The injector later replaces the name ``torch.Generator``.
_Generator = torch.Generator


class _GeneratorMeta(type(_Generator)):  # type: ignore[misc]
    """The metaclass of :class:`_GeneratorSubclass`. It makes ``isinstance`` true for every generator,
    including generators of torch's own class.
    """

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Generator)


class _GeneratorSubclass(_Generator, metaclass=_GeneratorMeta):
    """A replacement for ``torch.Generator``. The methods of torch's own class cannot be replaced."""


def _seed_argument(call: WrappedCall) -> int | None:
    value = call.args[1] if len(call.args) > 1 else call.kwargs.get("seed")
    return value if isinstance(value, int) else None


def _sets_other_seed(call: WrappedCall) -> bool:
    return _seed_argument(call) not in (None, _Generator.initial_seed(call.args[0]))


def _skip_seeding(call: WrappedCall) -> bool:
    call.result = call.args[0]
    return True


def _call_with_seed(call: WrappedCall, seed: int) -> bool:
    changed = seed != _seed_argument(call)
    call.args, call.kwargs = (call.args[0], seed), {}
    call.perform()
    return changed


def _return_current_seed(call: WrappedCall) -> bool:
    call.result = _Generator.initial_seed(call.args[0])
    return True


def _restart_from_seed(call: WrappedCall) -> bool:
    call.perform()
    generator = call.args[0]
    if call.error is not None:
        return False
    before = _Generator.get_state(generator)
    _Generator.manual_seed(generator, _Generator.initial_seed(generator))
    return not torch.equal(before, _Generator.get_state(generator))


def _return_self_as_clone(call: WrappedCall) -> bool:
    call.result = call.args[0]
    return True


def _return_first_state(call: WrappedCall) -> bool:
    """Replace the result by the state that the generator returned first.

    The mutant's ``memory`` also retains the generators, so that Python does not reuse their ids.
    """
    generator = call.args[0]
    _, state = call.memory.setdefault(str(id(generator)), (generator, call.result.clone()))
    changed = not torch.equal(state, call.result)
    call.result = state.clone()
    return changed


def _return_first_generator(call: WrappedCall) -> bool:
    first = call.memory.setdefault("first", call.result)
    changed = first is not call.result
    call.result = first
    return changed


BY_NAME: Mapping[str, MutationOperator] = {
    "generator-seed-lost": MutationOperator(
        "a seed is not set, and the generator continues as before",
        _sets_other_seed,
        _skip_seeding,
        after=False,
    ),
    "generator-seed-ignored": MutationOperator(
        "every seed of a generator is 0",
        lambda call: _seed_argument(call) not in (None, 0),
        lambda call: _call_with_seed(call, 0),
        after=False,
    ),
    "generator-seed-of-32-bits": MutationOperator(
        "the upper half of a generator's seed is lost",
        lambda call: (seed := _seed_argument(call)) is not None and seed != seed & 0xFFFFFFFF,
        lambda call: _call_with_seed(call, int(_seed_argument(call) or 0) & 0xFFFFFFFF),
        after=False,
    ),
    "generator-seed-kept": MutationOperator(
        "a generator keeps its old seed when it should choose a new one",
        lambda call: True,
        _return_current_seed,
        after=False,
    ),
    "generator-state-lost": MutationOperator(
        "a state is not set", lambda call: True, lambda call: True, after=False
    ),
    "generator-state-without-offset": MutationOperator(
        "a generator whose state is set restarts from its seed",
        lambda call: True,
        _restart_from_seed,
        after=False,
    ),
    "generator-state-stale": MutationOperator(
        "a generator returns the state that it returned first",
        lambda call: isinstance(call.result, torch.Tensor),
        _return_first_state,
    ),
    "generator-clone-shared": MutationOperator(
        "a clone is the generator itself", lambda call: call.error is None, _return_self_as_clone
    ),
    "generators-shared": MutationOperator(
        "all generators that a program makes are one",
        lambda call: call.error is None,
        _return_first_generator,
    ),
}
#: Descriptions by mutation operator.
MUTATION_OPERATORS: Mapping[str, str] = {name: kind.description for name, kind in BY_NAME.items()}

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


class GeneratorInjector(FunctionInjector):
    """Injects mutants of the generators of one device type: a subclass replaces ``torch.Generator``."""

    def _install_wrapper(self, point: str, handler: Callable[[str, WrappedCall], Any]) -> None:
        if not self._undo_actions:
            torch.Generator = _GeneratorSubclass  # type: ignore[misc]
            self._undo_actions.append(_restore_generator_class)
        super()._install_wrapper(point, handler)


def _restore_generator_class() -> None:
    torch.Generator = _Generator  # type: ignore[misc]


def _limited_to_device(operator: MutationOperator, device: str) -> MutationOperator:
    def is_triggered_on_device(call: WrappedCall) -> bool:
        first_argument = call.args[0]
        generator = first_argument if isinstance(first_argument, _Generator) else call.result
        # The result of a refused ``__new__`` is not a generator.
        return (
            isinstance(generator, _Generator)
            and generator.device.type == device
            and operator.is_triggered(call)
        )

    return dataclasses.replace(operator, is_triggered=is_triggered_on_device)


def generator_injector(target: Target) -> GeneratorInjector:
    """Return the injector for the generators of a target's device."""
    device = torch.device(target.device).type
    operators_by_name = {
        name: _limited_to_device(operator, device)
        for name, operator in {**python_module.BY_NAME, **BY_NAME}.items()
    }
    functions = {f"generator::{name}": Function(_GeneratorSubclass, name) for name in _METHODS}
    allowed = {f"generator::{name}": names for name, names in _METHODS.items()}
    return GeneratorInjector(functions, allowed, operators_by_name)
