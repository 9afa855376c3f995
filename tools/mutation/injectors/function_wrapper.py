"""Faults of Python functions: a wrapper replaces a function while a fault is armed or looked for."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

from tools.mutation.injectors.injector import NO_DTYPE, Counts, Observed, Planter
from tools.mutation.mutant import Fault

#: Modules whose calls count, and those that end the search for one: what the suite itself does between two
#: results, or to wait for the device, is no part of a result.
_STATEMENTS = ("conformance.properties", "conformance.behaviours", "conformance.samples")
_HARNESS = ("conformance.worker", "tools.mutation.worker", "conformance.target")


@dataclasses.dataclass
class WrappedCall:
    """One call of a function, and how it ended once :meth:`perform` has run."""

    original: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    #: What a fault keeps from one call to the next.
    memory: dict[str, Any]
    result: Any = None
    error: Exception | None = None
    #: Counts an effect that shows later than the call.
    felt: Callable[[], None] = lambda: None

    def perform(self) -> None:
        """Call the function."""
        try:
            self.result = self.original(*self.args, **self.kwargs)
        except Exception as error:
            self.error = error

    def end(self) -> Any:
        """Return the result or raise the error."""
        if self.error is not None:
            raise self.error
        return self.result


@dataclasses.dataclass(frozen=True)
class Kind:
    """A way to be wrong.

    ``meets`` says if a call can be wrong in this way, and ``act`` makes it so: it sets the call's result or
    error and returns whether that changed anything. ``after``: both look at a call that has run.
    """

    words: str
    meets: Callable[[WrappedCall], bool]
    act: Callable[[WrappedCall], bool]
    after: bool = True


@dataclasses.dataclass(frozen=True)
class Function:
    """A function by its owner, a module or a class, and its name there."""

    owner: Any
    name: str


class Functions(Planter):
    """Plants faults of Python functions: ``functions`` by place, ``allowed`` the kinds of each."""

    def __init__(
        self,
        functions: Mapping[str, Function],
        allowed: Mapping[str, Sequence[str]],
        kinds: Mapping[str, Kind],
        *,
        everywhere: bool = False,
    ) -> None:
        self.faults = [Fault(place, kind) for place in functions for kind in allowed[place]]
        self._functions = functions
        self._kinds = kinds
        self._everywhere = everywhere
        self._numbers: dict[str, list[tuple[int, Kind]]] = {place: [] for place in functions}
        for number, fault in enumerate(self.faults):
            self._numbers[fault.place].append((number, kinds[fault.kind]))
        self._indices = {place: index for index, place in enumerate(self.places)}
        self._lock = threading.Lock()
        self._undo: list[Callable[[], None]] = []
        self._met: set[int] = set()
        self._called: set[str] = set()
        self._counts = [0, 0]

    def observe(self, on: bool) -> None:
        """Put the wrappers there, or take them away."""
        if on:
            for place in self._functions:
                self._wrap(place, self._look)
        else:
            self._unwrap()

    def take_observed(self) -> Observed:
        """Return what calls met."""
        with self._lock:
            met, self._met = self._met, set()
            called, self._called = self._called, set()
        return Observed(
            [(number, NO_DTYPE) for number in sorted(met)],
            [(self._indices[place], 0, NO_DTYPE) for place in sorted(called)],
        )

    def arm(self, fault: Fault) -> None:
        """Put one wrapper there that is wrong."""
        kind, memory = self._kinds[fault.kind], dict[str, Any]()
        self._counts = [0, 0]
        self._wrap(fault.place, lambda place, call: self._go_wrong(kind, memory, call))

    def disarm(self) -> Counts:
        """Put the function back."""
        self._unwrap()
        return Counts(*self._counts)

    def _look(self, place: str, call: WrappedCall) -> Any:
        numbers = self._numbers[place]
        met = [number for number, kind in numbers if not kind.after and kind.meets(call)]
        call.perform()
        met += [number for number, kind in numbers if kind.after and kind.meets(call)]
        with self._lock:
            self._met.update(met)
            self._called.add(place)
        return call.end()

    def _go_wrong(self, kind: Kind, memory: dict[str, Any], call: WrappedCall) -> Any:
        call.memory, call.felt = memory, self._count_effect
        if kind.after:
            call.perform()
        if not kind.meets(call):
            if not kind.after:
                call.perform()
            return call.end()
        right = call.result, call.error
        try:
            changed = kind.act(call)
        except Exception:
            # The planting failed, not the device: the call ends as it would have without a fault.
            call.result, call.error = right
            if not kind.after:
                call.perform()
            return call.end()
        with self._lock:
            self._counts[0] += 1
            self._counts[1] += changed
        return call.end()

    def _count_effect(self) -> None:
        with self._lock:
            self._counts[1] += 1

    def _wrap(self, place: str, serve: Callable[[str, WrappedCall], Any]) -> None:
        function = self._functions[place]
        own = vars(function.owner).get(function.name)
        original = getattr(function.owner, function.name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if not (self._everywhere or of_a_statement()):
                return original(*args, **kwargs)
            return serve(place, WrappedCall(original, args, kwargs, {}))

        setattr(function.owner, function.name, wrapper)
        self._undo.append(lambda: _put_back(function, own))

    def _unwrap(self) -> None:
        while self._undo:
            self._undo.pop()()


def _put_back(function: Function, own: Any) -> None:
    if own is None:
        delattr(function.owner, function.name)
    else:
        setattr(function.owner, function.name, own)


def of_a_statement() -> bool:
    """Return whether a property made the call, not the suite's own work between two results."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith(_STATEMENTS):
            return True
        if name.startswith(_HARNESS):
            return False
        frame = frame.f_back
    return True
