"""The bench on which a behaviour is tried: it makes inputs on a device and writes down what is shown.

A behaviour is written once and runs twice, on the CPU and on the device. What it shows under a name must be
the same on both; what it calls true must hold on both.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy
import torch

from conformance import torch_private
from conformance.behaviours import observation
from conformance.behaviours.observation import Closeness, Observation
from conformance.checking.invocation import is_refusal, one_line
from conformance.model.verdicts import Kind
from conformance.target.target import Target

T = TypeVar("T")

#: Roundings that :meth:`Lab.close` allows where a behaviour does not say: a handful of operations on numbers
#: of like size, rounded on both sides.
ROUNDINGS = 16.0


@dataclasses.dataclass(frozen=True)
class Deviation:
    """Something that does not hold on this side, whatever the other one shows."""

    kind: Kind
    message: str


class _Work:
    """Whether the lab itself is at work: faults that tests plant leave that alone."""

    depth = 0


@contextlib.contextmanager
def own_work() -> Iterator[None]:
    """Around what the lab does for itself."""
    _Work.depth += 1
    try:
        yield
    finally:
        _Work.depth -= 1


def at_work() -> bool:
    """Whether the lab is making inputs or reading results."""
    return _Work.depth > 0


class Lab:
    """One side of a behaviour. ``device`` is where it runs, ``dtype`` what its inputs are made of.

    ``on_target`` is False for the run on the CPU that says what is expected.
    """

    def __init__(self, target: Target, dtype: str, seed: int, *, on_target: bool) -> None:
        self.target = target
        self.on_target = on_target
        self.device = torch.device(target.device if on_target else "cpu")
        self.dtype: torch.dtype = torch.float32 if dtype == "any" else getattr(torch, dtype)
        self.observations: list[Observation] = []
        self.deviations: list[Deviation] = []
        #: Calls that had to raise, of which no text was asked, and that were refused or broke down.
        self.accidents: dict[str, str] = {}
        self._random = torch.Generator().manual_seed(seed)

    # Inputs: the same numbers on both sides.

    def integers(
        self, *shape: int, low: int = -4, high: int = 5, dtype: torch.dtype | None = None, **options: Any
    ) -> torch.Tensor:
        """Whole numbers in ``[low, high)`` on the device, exact in every dtype (from 0 where it is unsigned).

        ``options`` are those of :meth:`put`.
        """
        wanted = self.dtype if dtype is None else dtype
        if wanted == torch.bool:
            low, high = 0, 2
        elif not wanted.is_signed:
            low = max(low, 0)
        with own_work():
            numbers = torch.randint(low, high, shape, generator=self._random)
            if wanted.is_complex:
                other = torch.randint(low, high, shape, generator=self._random)
                made = torch.complex(numbers.double(), other.double()).to(wanted)
            else:
                made = numbers.to(wanted)
        return self.put(made, **options)

    def floats(
        self,
        *shape: int,
        low: float = -1.0,
        high: float = 1.0,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> torch.Tensor:
        """Numbers uniform in ``[low, high)`` on the device, of a floating or complex dtype."""
        wanted = self.dtype if dtype is None else dtype
        with own_work():
            made = torch.rand(shape, generator=self._random, dtype=torch.float64) * (high - low) + low
            if wanted.is_complex:
                other = torch.rand(shape, generator=self._random, dtype=torch.float64) * (high - low) + low
                made = torch.complex(made, other)
            made = made.to(wanted)
        return self.put(made, **options)

    def permutation(self, size: int) -> torch.Tensor:
        """A shuffled ``arange(size)`` of int64 on the device."""
        with own_work():
            made = torch.randperm(size, generator=self._random)
        return self.put(made)

    def put(
        self, data: Any, *, dtype: torch.dtype | None = None, requires_grad: bool = False
    ) -> torch.Tensor:
        """A tensor on the device from numbers, nested lists or a tensor of the host."""
        with own_work():
            host = data if isinstance(data, torch.Tensor) else torch.tensor(data, dtype=dtype)
            if dtype is not None:
                host = host.to(dtype)
            made = host.to(self.device, copy=True)
        return made.requires_grad_() if requires_grad else made

    def to(self, thing: T) -> T:
        """A module or tensor moved to the device."""
        with own_work():
            return thing.to(self.device)  # type: ignore[attr-defined,no-any-return]

    # What is shown: the two sides are held against each other afterwards.

    def same(self, name: str, value: T, *, host: bool = False, strides: bool = False) -> T:
        """Show a value (a tree of tensors, numbers, words) that must be equal, dtypes and shapes included.

        Tensors must be on the side's device, or with ``host`` on the CPU. ``strides`` compares strides and
        offset too.
        """
        with own_work():
            shown = observation.show(value, strides=strides)
        self.observations.append(Observation(name, shown, None, host, strides))
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
        self.observations.append(Observation(name, shown, Closeness(roundings, matrix, dtype), host))
        return value

    def expect(self, name: str, value: Any, expected: Any, **options: Any) -> None:
        """Show a value, and hold it on both sides against what is known (numbers, lists, NumPy, host
        tensors).

        ``options`` are those of :meth:`same`, or with ``roundings`` those of :meth:`close`.
        """
        if "roundings" in options:
            self.close(name, value, **options)
        else:
            self.same(name, value, **options)
        shown = self.observations[-1]
        with own_work():
            if isinstance(shown.value, observation.TensorShown):
                # A copy, since torch takes neither negative strides nor arrays that may not be written;
                # through
                # NumPy, since Python's floats must stay doubles whatever torch's default dtype is.
                plain = expected if isinstance(expected, torch.Tensor) else numpy.array(expected)
                wanted = torch.as_tensor(plain)
                got = shown.value.parts[0]
                closeness = shown.closeness or Closeness(0.0)
                same = got.shape == wanted.shape and _near(got, wanted, closeness)
            elif shown.closeness and isinstance(shown.value, (float, complex)):
                plain = torch.tensor(shown.value)
                same = _near(plain, torch.tensor(expected, dtype=plain.dtype), shown.closeness)
            else:
                same = bool(shown.value == expected)
        if not same:
            found = (
                shown.value.parts[0].tolist() if isinstance(shown.value, observation.TensorShown) else value
            )
            text = f"{name} is {str(found)[:300]} where {str(expected)[:300]} is expected."
            self.deviations.append(Deviation(Kind.VALUE, text))

    def holds(self, name: str, condition: Any, *, kind: Kind = Kind.STATE) -> None:
        """Something that must be true on both sides; ``name`` is the sentence that is true."""
        with own_work():
            true = bool(condition)
        self.observations.append(Observation(name, True))
        if not true:
            self.deviations.append(Deviation(kind, f"it does not hold that {name}."))

    def shares(self, name: str, one: torch.Tensor, other: torch.Tensor) -> None:
        """Both tensors are of one storage."""
        self.holds(f"{name} share a storage", _storage(one) == _storage(other), kind=Kind.ALIASING)

    def apart(self, name: str, one: torch.Tensor, other: torch.Tensor) -> None:
        """The tensors are of two storages."""
        self.holds(f"{name} have storages of their own", _storage(one) != _storage(other), kind=Kind.ALIASING)

    def raises(
        self,
        name: str,
        call: Callable[[], Any],
        *types: type[BaseException],
        match: str | None = None,
    ) -> None:
        """A call that must raise one of ``types`` (default RuntimeError), with ``match`` found in its
        text.

        Without ``match`` any text will do, but a refusal or a failed assertion inside torch counts only where
        the CPU's is one too (:func:`conformance.behaviours.behaviour.check`).
        """
        wanted = types or (RuntimeError,)

        def missed(error: Exception) -> bool:
            return match is not None and not re.search(match, str(error))

        self.observations.append(Observation(f"{name} raises", True))
        try:
            # Held, so that a lazy device cannot take it for something that nobody needs.
            kept = call()
            if self.on_target:
                self.target.synchronize()
            del kept
        except Exception as error:
            found = self.error(error)
            if found is None:
                self._deviates(Kind.ERROR_TYPE, f"{name} raised nothing where {_names(wanted)} is due")
            elif is_refusal(found) and (missed(found) or not isinstance(found, wanted)):
                self._deviates(Kind.REFUSED, f"{name} was refused: {one_line(found)}")
            elif not isinstance(found, wanted):
                self._deviates(
                    Kind.ERROR_TYPE, f"{name} raised {one_line(found)} where {_names(wanted)} is due"
                )
            elif missed(found):
                self._deviates(
                    Kind.MESSAGE, f"{name} raised {one_line(found)}, which does not match {match!r}"
                )
            elif match is None and (is_refusal(found) or "INTERNAL ASSERT" in str(found)):
                self.accidents[name] = one_line(found)
        else:
            self._deviates(Kind.ERROR_TYPE, f"{name} raised nothing where {_names(wanted)} is due")

    def error(self, error: Exception) -> Exception | None:
        """What :meth:`raises` takes an error for; tests override it to plant a device that is silent."""
        return error

    def warns(
        self, name: str, call: Callable[[], T], *, category: type[Warning] = UserWarning, match: str = ""
    ) -> T:
        """The result of a call that must warn with a text in which ``match`` is found."""
        with warnings.catch_warnings(record=True) as caught, torch_private.every_warning():
            warnings.simplefilter("always")
            value = call()
        self.observations.append(Observation(f"{name} warns", True))
        texts = [str(w.message) for w in self.warnings(caught) if issubclass(w.category, category)]
        if not any(re.search(match, text) for text in texts):
            said = "; ".join(texts)[:200] or "nothing"
            self._deviates(
                Kind.MESSAGE, f"{name} warned of {said} where {category.__name__} {match!r} is due"
            )
        return value

    def silent(self, name: str, call: Callable[[], T]) -> T:
        """The result of a call that must not warn."""
        with warnings.catch_warnings(record=True) as caught, torch_private.every_warning():
            warnings.simplefilter("always")
            value = call()
        self.observations.append(Observation(f"{name} does not warn", True))
        texts = [str(w.message) for w in caught]
        if texts:
            self._deviates(Kind.MESSAGE, f"{name} warned: {'; '.join(texts)[:300]}")
        return value

    def warnings(self, caught: Sequence[Any]) -> Sequence[Any]:
        """What :meth:`warns` takes as warnings; tests override it."""
        return caught

    def _deviates(self, kind: Kind, message: str) -> None:
        self.deviations.append(Deviation(kind, message))


def _storage(tensor: torch.Tensor) -> int:
    with own_work():
        return int(tensor.untyped_storage()._cdata)


def _names(types: Sequence[type[BaseException]]) -> str:
    return " or ".join(kind.__name__ for kind in types)


def _near(got: torch.Tensor, wanted: torch.Tensor, closeness: Closeness) -> bool:
    if closeness.roundings == 0.0 and not wanted.is_floating_point() and not wanted.is_complex():
        return bool((got == wanted.to(got.dtype)).all())
    wide = torch.complex128 if got.is_complex() or wanted.is_complex() else torch.float64
    a, e = got.to(wide), wanted.to(wide)
    if closeness.roundings:
        e_like = e.to(got.dtype) if got.is_floating_point() or got.is_complex() else e
        allowed = closeness.tolerance(e_like, "ieee").floor
    else:
        allowed = 0.0
        e = wanted.to(got.dtype).to(wide) if not wanted.is_complex() or got.is_complex() else e
    same = (a - e).abs() <= allowed
    return bool((same | (a == e) | (torch.isnan(a) & torch.isnan(e))).all())
