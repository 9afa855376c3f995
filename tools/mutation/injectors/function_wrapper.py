"""Inject mutants of Python functions: a wrapper replaces a function while a mutant is enabled or observed."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

from tools.mutation.injectors.injector import NO_DTYPE, Counts, Injector, Observed
from tools.mutation.mutant import Mutant

#: Modules of checks and modules of the harness. A call is mutated only if a check made the call: on the call
#: stack, a module of a check is nearer to the call than any module of the harness. Calls that the harness
#: itself makes between two results stay correct.
_CHECK_MODULES = ("conformance.properties", "conformance.behaviours", "conformance.samples")
_HARNESS_MODULES = ("conformance.worker", "tools.mutation.worker", "conformance.target")


@dataclasses.dataclass
class WrappedCall:
    """One call of a function, with its result or error after :meth:`perform`."""

    original: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    #: Values that a mutant stores from one call to the next.
    memory: dict[str, Any]
    result: Any = None
    error: Exception | None = None
    #: Function of the injector that counts one altered call, for mutants whose effect occurs after the call.
    count_effect: Callable[[], None] = lambda: None

    def perform(self) -> None:
        """Call the original function, and store its result or error."""
        try:
            self.result = self.original(*self.args, **self.kwargs)
        except Exception as error:
            self.error = error

    def return_or_raise(self) -> Any:
        """Return the stored result, or raise the stored error."""
        if self.error is not None:
            raise self.error
        return self.result


@dataclasses.dataclass(frozen=True)
class MutationOperator:
    """A mutation operator of Python functions.

    ``is_triggered`` returns whether a call meets the trigger condition. ``alter`` makes the call wrong: it
    sets the result or error, and returns whether the result or error differs from the correct one. If
    ``after`` is true, both functions receive the call after the original function has run.
    """

    description: str
    is_triggered: Callable[[WrappedCall], bool]
    alter: Callable[[WrappedCall], bool]
    after: bool = True


@dataclasses.dataclass(frozen=True)
class Function:
    """A function, given by its owner (a module or a class) and its name."""

    owner: Any
    name: str


class FunctionInjector(Injector):
    """Injects mutants of Python functions.

    ``functions`` maps points to functions. ``allowed`` maps points to the names of mutation operators. Unless
    ``everywhere`` is true, only calls that a check made are mutated.
    """

    def __init__(
        self,
        functions: Mapping[str, Function],
        allowed: Mapping[str, Sequence[str]],
        operators_by_name: Mapping[str, MutationOperator],
        *,
        everywhere: bool = False,
    ) -> None:
        self.mutants = [Mutant(point, operator) for point in functions for operator in allowed[point]]
        self._functions = functions
        self._operators_by_name = operators_by_name
        self._everywhere = everywhere
        self._numbers: dict[str, list[tuple[int, MutationOperator]]] = {point: [] for point in functions}
        for number, mutant in enumerate(self.mutants):
            self._numbers[mutant.point].append((number, operators_by_name[mutant.operator]))
        self._indices = {point: index for index, point in enumerate(self.mutation_points)}
        self._lock = threading.Lock()
        self._undo_actions: list[Callable[[], None]] = []
        self._triggered: set[int] = set()
        self._called: set[str] = set()
        self._counts = [0, 0]

    def observe(self, on: bool) -> None:
        """Install or remove the wrappers that record triggered mutants."""
        if on:
            for point in self._functions:
                self._install_wrapper(point, self._observe_call)
        else:
            self._remove_wrappers()

    def take_observed(self) -> Observed:
        """Return the mutants that were triggered since this method was last called."""
        with self._lock:
            triggered, self._triggered = self._triggered, set()
            called, self._called = self._called, set()
        return Observed(
            [(number, NO_DTYPE) for number in sorted(triggered)],
            [(self._indices[point], 0, NO_DTYPE) for point in sorted(called)],
        )

    def enable(self, mutant: Mutant) -> None:
        """Install a wrapper with the mutant."""
        operator, memory = self._operators_by_name[mutant.operator], dict[str, Any]()
        self._counts = [0, 0]
        self._install_wrapper(mutant.point, lambda point, call: self._alter_call(operator, memory, call))

    def disable(self) -> Counts:
        """Restore the function and return the mutant's counts."""
        self._remove_wrappers()
        return Counts(*self._counts)

    def _observe_call(self, point: str, call: WrappedCall) -> Any:
        numbers = self._numbers[point]
        triggered = [
            number for number, operator in numbers if not operator.after and operator.is_triggered(call)
        ]
        call.perform()
        triggered += [
            number for number, operator in numbers if operator.after and operator.is_triggered(call)
        ]
        with self._lock:
            self._triggered.update(triggered)
            self._called.add(point)
        return call.return_or_raise()

    def _alter_call(self, operator: MutationOperator, memory: dict[str, Any], call: WrappedCall) -> Any:
        call.memory, call.count_effect = memory, self._count_effect
        if operator.after:
            call.perform()
        if not operator.is_triggered(call):
            if not operator.after:
                call.perform()
            return call.return_or_raise()
        correct_outcome = call.result, call.error
        try:
            changed = operator.alter(call)
        except Exception:
            # The mutation operator failed, not the device. The call therefore returns what it would return
            # without the mutant.
            call.result, call.error = correct_outcome
            if not operator.after:
                call.perform()
            return call.return_or_raise()
        with self._lock:
            self._counts[0] += 1
            self._counts[1] += changed
        return call.return_or_raise()

    def _count_effect(self) -> None:
        with self._lock:
            self._counts[1] += 1

    def _install_wrapper(self, point: str, handler: Callable[[str, WrappedCall], Any]) -> None:
        function = self._functions[point]
        own_attribute = vars(function.owner).get(function.name)
        original = getattr(function.owner, function.name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if not (self._everywhere or is_called_by_check()):
                return original(*args, **kwargs)
            return handler(point, WrappedCall(original, args, kwargs, {}))

        setattr(function.owner, function.name, wrapper)
        self._undo_actions.append(lambda: _restore_attribute(function, own_attribute))

    def _remove_wrappers(self) -> None:
        while self._undo_actions:
            self._undo_actions.pop()()


def _restore_attribute(function: Function, own_attribute: Any) -> None:
    if own_attribute is None:
        delattr(function.owner, function.name)
    else:
        setattr(function.owner, function.name, own_attribute)


def is_called_by_check() -> bool:
    """Return whether a check, and not the harness, made the current call."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith(_CHECK_MODULES):
            return True
        if name.startswith(_HARNESS_MODULES):
            return False
        frame = frame.f_back
    return True
