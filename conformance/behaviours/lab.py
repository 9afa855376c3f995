"""The lab of a behaviour: it makes inputs on a device and records observations.

A behaviour is written once and runs twice, on the CPU and on the device. Values shown under a name must be
the same on both; conditions must be true on both.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import re
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any, TypeVar

import numpy
import torch

from conformance import torch_testing_internals
from conformance.behaviours import observation, statement_positions
from conformance.behaviours.observation import Closeness, Observation
from conformance.behaviours.statement_positions import Place
from conformance.framework import undeclared_dtypes
from conformance.framework.calls import is_refusal, one_line
from conformance.model.verdicts import Kind
from conformance.target.target import Target

T = TypeVar("T")

#: Roundings that :meth:`Lab.close` allows unless a behaviour names a number: a handful of operations on
#: numbers of like size, rounded on both sides.
ROUNDINGS = 16.0
#: Seconds within which a device lets go of what its work held.
_SECONDS = 1.0


@dataclasses.dataclass(frozen=True)
class Deviation:
    """A condition that is false on this side, whatever the other one shows."""

    kind: Kind
    message: str
    place: Place | None


class _Work:
    """A count of the nested parts in which the lab itself is at work: planted faults leave those alone."""

    depth = 0


@contextlib.contextmanager
def own_work() -> Iterator[None]:
    """Mark the body as work that the lab does for itself."""
    _Work.depth += 1
    try:
        yield
    finally:
        _Work.depth -= 1


def at_work() -> bool:
    """Return whether the lab is making inputs or reading results."""
    return _Work.depth > 0


class Lab:
    """One side of a behaviour. ``device`` is that on which it runs, ``dtype`` that of its inputs.

    ``on_target`` is False for the run on the CPU, which gives the expected observations.
    """

    def __init__(self, target: Target, dtype: str, seed: int, *, on_target: bool) -> None:
        self.target = target
        self.on_target = on_target
        self.device = torch.device(target.device if on_target else "cpu")
        self.dtype: torch.dtype = torch.float32 if dtype == "any" else getattr(torch, dtype)
        self.observations: list[Observation] = []
        self.deviations: list[Deviation] = []
        #: Calls that had to raise, of which no text was asked, and that were refused or broke down.
        self.accidents: dict[str, Deviation] = {}
        #: The program that runs, if deviations and observations are to name their places in it.
        self.program: CodeType | None = None
        #: Called with each tensor or module that goes to the device, if anyone asks.
        self.uploaded: Callable[[Any], object] | None = None
        #: Why a program that observed nothing had nothing to observe; None if it had.
        self.idle: str | None = None
        self._random = torch.Generator().manual_seed(seed)

    @property
    def other_float(self) -> torch.dtype:
        """A floating dtype beside float32: float64, or float16 if the target does not declare that."""
        return torch.float64 if self.target.declares("float64") else torch.float16

    # Inputs: the same numbers on both sides.

    def integers(
        self, *shape: int, low: int = -4, high: int = 5, dtype: torch.dtype | None = None, **options: Any
    ) -> torch.Tensor:
        """Return whole numbers in ``[low, high)`` on the device, exact in every dtype (from 0 if it is
        unsigned).

        ``options`` are those of :meth:`put`.
        """
        dtype = self.dtype if dtype is None else dtype
        if dtype == torch.bool:
            low, high = 0, 2
        elif not dtype.is_signed:
            low = max(low, 0)
        with own_work():
            numbers = torch.randint(low, high, shape, generator=self._random)
            if dtype.is_complex:
                imaginary = torch.randint(low, high, shape, generator=self._random)
                host = torch.complex(numbers.double(), imaginary.double()).to(dtype)
            else:
                host = numbers.to(dtype)
        return self.put(host, **options)

    def floats(
        self,
        *shape: int,
        low: float = -1.0,
        high: float = 1.0,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> torch.Tensor:
        """Return numbers uniform in ``[low, high)`` on the device, of a floating or complex dtype."""
        dtype = self.dtype if dtype is None else dtype
        with own_work():
            host = torch.rand(shape, generator=self._random, dtype=torch.float64) * (high - low) + low
            if dtype.is_complex:
                imaginary = (
                    torch.rand(shape, generator=self._random, dtype=torch.float64) * (high - low) + low
                )
                host = torch.complex(host, imaginary)
            host = host.to(dtype)
        return self.put(host, **options)

    def permutation(self, size: int) -> torch.Tensor:
        """Return a shuffled ``arange(size)`` of int64 on the device."""
        with own_work():
            host = torch.randperm(size, generator=self._random)
        return self.put(host)

    def put(
        self, data: Any, *, dtype: torch.dtype | None = None, requires_grad: bool = False
    ) -> torch.Tensor:
        """Return a tensor on the device from numbers, nested lists or a tensor of the host."""
        with own_work():
            host = data if isinstance(data, torch.Tensor) else torch.tensor(data, dtype=dtype)
            if dtype is not None:
                host = host.to(dtype)
            if self.uploaded is not None:
                self.uploaded(host)
            tensor = host.to(self.device, copy=True)
        return tensor.requires_grad_() if requires_grad else tensor

    def to(self, thing: T) -> T:
        """Return a module or tensor moved to the device."""
        with own_work():
            if self.uploaded is not None:
                self.uploaded(thing)
            return thing.to(self.device)  # type: ignore[attr-defined,no-any-return]

    # Observations: the two sides are compared afterwards.

    def same(self, name: str, value: T, *, host: bool = False, strides: bool = False) -> T:
        """Show a value (a tree of tensors, numbers, words) that must be equal, dtypes and shapes included.

        Tensors must be on the side's device, or with ``host`` on the CPU. ``strides`` compares strides and
        offset too.
        """
        with own_work():
            shown = observation.show(value, strides=strides)
        place = self._place(len(self.observations))
        self.observations.append(Observation(name, shown, None, host, strides, place))
        return value

    def close(
        self,
        name: str,
        value: T,
        *,
        roundings: float = ROUNDINGS,
        matrix: bool = False,
        dtype: torch.dtype | None = None,
        host: bool = False,
    ) -> T:
        """Like :meth:`same` for computed floating values; see :class:`.observation.Closeness`."""
        with own_work():
            shown = observation.show(value)
        closeness, place = Closeness(roundings, matrix, dtype), self._place(len(self.observations))
        self.observations.append(Observation(name, shown, closeness, host, place=place))
        return value

    def expect(self, name: str, value: Any, expected: Any, **options: Any) -> None:
        """Show a value, and compare it on both sides with known numbers, lists, NumPy arrays or host tensors.

        ``options`` are those of :meth:`same`, or with ``roundings`` those of :meth:`close`.
        """
        moment = len(self.observations)
        if "roundings" in options:
            self.close(name, value, **options)
        else:
            self.same(name, value, **options)
        shown = self.observations[-1]
        with own_work():
            if isinstance(shown.value, observation.TensorShown):
                # A copy, since torch takes neither negative strides nor arrays that may not be written;
                # through NumPy, since Python's floats must stay doubles whatever torch's default dtype is.
                plain = expected if isinstance(expected, torch.Tensor) else numpy.array(expected)
                known = torch.as_tensor(plain)
                actual = shown.value.parts[0]
                closeness = shown.closeness or Closeness(0.0)
                same = actual.shape == known.shape and self._is_near(actual, known, closeness)
            elif shown.closeness and isinstance(shown.value, (float, complex)):
                plain = torch.tensor(shown.value)
                same = self._is_near(plain, torch.tensor(expected, dtype=plain.dtype), shown.closeness)
            else:
                same = bool(shown.value == expected)
        if not same and not self._is_unclaimed(shown):
            is_tensor = isinstance(shown.value, observation.TensorShown)
            brief = str(shown.value.parts[0].tolist() if is_tensor else value)[:300]
            text = f"{name} is {brief}, expected {str(expected)[:300]}."
            self._deviates(Kind.VALUE, text, moment)

    def _is_unclaimed(self, shown: Observation) -> bool:
        dtypes = observation.dtypes_shown(shown.value)
        return self.on_target and not shown.host and bool(undeclared_dtypes.unclaimed(self.target, *dtypes))

    def holds(self, name: str, condition: Any, *, kind: Kind = Kind.STATE) -> None:
        """Record a condition that must be true on both sides; ``name`` is the sentence that is true."""
        with own_work():
            true = bool(condition)
        if not true:
            self._deviates(kind, f"it does not hold that {name}.", len(self.observations))
        self.observations.append(Observation(name, True))

    def shares(self, name: str, left: torch.Tensor, right: torch.Tensor) -> None:
        """Both tensors must have one storage."""
        self.holds(f"{name} share a storage", _storage(left) == _storage(right), kind=Kind.ALIASING)

    def apart(self, name: str, left: torch.Tensor, right: torch.Tensor) -> None:
        """The tensors must have two storages."""
        self.holds(
            f"{name} have storages of their own", _storage(left) != _storage(right), kind=Kind.ALIASING
        )

    def raises(
        self,
        name: str,
        call: Callable[[], Any],
        *types: type[BaseException],
        match: str | None = None,
    ) -> None:
        """Make a call that must raise one of ``types`` (default RuntimeError), with ``match`` found in its
        text.

        Without ``match`` any text will do, but a refusal or a failed assertion inside torch counts only if
        the CPU's is one too (:func:`conformance.behaviours.behaviour.check`).
        """
        due = types or (RuntimeError,)

        def missed(error: Exception) -> bool:
            return match is not None and not re.search(match, str(error))

        moment = len(self.observations)
        try:
            # Held, so that a lazy device cannot take it for a value that is not needed.
            kept = call()
            if self.on_target:
                self.target.synchronize()
            del kept
        except Exception as error:
            raised = self.error(error)
            if raised is None:
                self._deviates(Kind.ERROR_TYPE, f"{name} raised nothing; {_names(due)} is due", moment)
            elif is_refusal(raised) and (missed(raised) or not isinstance(raised, due)):
                self._deviates(Kind.REFUSED, f"{name} was refused: {one_line(raised)}", moment)
            elif not isinstance(raised, due):
                self._deviates(
                    Kind.ERROR_TYPE, f"{name} raised {one_line(raised)}; {_names(due)} is due", moment
                )
            elif missed(raised):
                self._deviates(
                    Kind.MESSAGE, f"{name} raised {one_line(raised)}, which does not match {match!r}", moment
                )
            elif match is None and (is_refusal(raised) or "INTERNAL ASSERT" in str(raised)):
                text = f"{name} was refused, but the CPU says what is wrong: {one_line(raised)}"
                self.accidents[name] = Deviation(Kind.REFUSED, text, self._place(moment))
        else:
            self._deviates(Kind.ERROR_TYPE, f"{name} raised nothing; {_names(due)} is due", moment)
        self.observations.append(Observation(f"{name} raises", True))

    def error(self, error: Exception) -> Exception | None:
        """Return the error that :meth:`raises` judges; tests override it to plant a device that raises
        nothing.
        """
        return error

    def warns(
        self, name: str, call: Callable[[], T], *, category: type[Warning] = UserWarning, match: str = ""
    ) -> T:
        """Return the result of a call that must warn with a text in which ``match`` is found."""
        moment = len(self.observations)
        with warnings.catch_warnings(record=True) as caught, torch_testing_internals.every_warning():
            warnings.simplefilter("always")
            value = call()
        texts = [str(w.message) for w in self.warnings(caught) if issubclass(w.category, category)]
        if not any(re.search(match, text) for text in texts):
            brief = "; ".join(texts)[:200] or "nothing"
            due = f"{category.__name__} {match!r} is due"
            self._deviates(Kind.MESSAGE, f"{name} warned of {brief}; {due}", moment)
        self.observations.append(Observation(f"{name} warns", True))
        return value

    def silent(self, name: str, call: Callable[[], T]) -> T:
        """Return the result of a call that must not warn."""
        moment = len(self.observations)
        with warnings.catch_warnings(record=True) as caught, torch_testing_internals.every_warning():
            warnings.simplefilter("always")
            value = call()
        texts = [str(w.message) for w in caught]
        if texts:
            text = f"{name} warned: {'; '.join(texts)[:300]}"
            self._deviates(Kind.MESSAGE, text, moment)
        self.observations.append(Observation(f"{name} does not warn", True))
        return value

    def warnings(self, caught: Sequence[Any]) -> Sequence[Any]:
        """Return the warnings that :meth:`warns` judges; tests override it."""
        return caught

    def _is_near(self, actual: torch.Tensor, expected: torch.Tensor, closeness: Closeness) -> bool:
        return _near(actual, expected, closeness, self.target.precision if self.on_target else "ieee")

    def collect(self) -> None:
        """Free what only cycles of references hold, after pending work, which may hold what it reads."""
        if self.on_target:
            self.target.synchronize()
        gc.collect()

    def gone(self, *watched: weakref.ref[Any]) -> bool:
        """Return whether objects are dead soon after pending work, which may hold what it reads, is done."""
        ends = time.monotonic() + _SECONDS
        while any(one() is not None for one in watched):
            if not self.on_target or time.monotonic() > ends:
                return False
            self.target.synchronize()
            time.sleep(0.001)
        return True

    def nothing_due(self, reason: str) -> None:
        """State why nothing may be due on this target; it counts only if nothing is observed at all."""
        self.idle = reason

    def _deviates(self, kind: Kind, message: str, moment: int) -> None:
        self.deviations.append(Deviation(kind, message, self._place(moment)))

    def _place(self, moment: int) -> Place | None:
        return None if self.program is None else statement_positions.calling_statement(self.program, moment)


def _storage(tensor: torch.Tensor) -> int:
    with own_work():
        return int(tensor.untyped_storage()._cdata)


def _names(types: Sequence[type[BaseException]]) -> str:
    return " or ".join(kind.__name__ for kind in types)


def _near(actual: torch.Tensor, expected: torch.Tensor, closeness: Closeness, precision: str) -> bool:
    if closeness.roundings == 0.0 and not expected.is_floating_point() and not expected.is_complex():
        return bool((actual == expected.to(actual.dtype)).all())
    wide = torch.complex128 if actual.is_complex() or expected.is_complex() else torch.float64
    a, e = actual.to(wide), expected.to(wide)
    if closeness.roundings:
        e_like = e.to(actual.dtype) if actual.is_floating_point() or actual.is_complex() else e
        allowed = closeness.tolerance(e_like, precision).floor
    else:
        allowed = 0.0
        e = expected.to(actual.dtype).to(wide) if not expected.is_complex() or actual.is_complex() else e
    same = (a - e).abs() <= allowed
    return bool((same | (a == e) | (torch.isnan(a) & torch.isnan(e))).all())
