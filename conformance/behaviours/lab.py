"""The Lab through which a behaviour makes inputs on one device and records observations.

A behaviour is one function that runs twice: on the CPU and on the device. Values recorded under a name must
be equal in both runs. Conditions must be true in both runs.
"""

from __future__ import annotations

import collections
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
from conformance.behaviours import observation, skipping, statement_positions
from conformance.behaviours.observation import Closeness, Observation
from conformance.behaviours.skipping import FailedStatement
from conformance.behaviours.statement_positions import StatementPosition
from conformance.framework import undeclared_dtypes
from conformance.framework.calls import is_refusal, one_line
from conformance.framework.compare import significant_strides
from conformance.model.verdicts import Basis, Kind
from conformance.target.target import Target

T = TypeVar("T")

#: The number of roundings that :meth:`Lab.close` allows by default. It is enough for a few operations on
#: numbers of similar size, each rounded on the CPU and on the device.
ROUNDINGS = 16.0
#: Seconds in which a device must release the objects that its pending work keeps alive.
_SECONDS = 1.0


@dataclasses.dataclass(frozen=True)
class Deviation:
    """A condition of the program that is false in one run, whatever the other run recorded."""

    kind: Kind
    message: str
    position: StatementPosition | None
    #: None means the basis of the behaviour.
    basis: Basis | None = None
    #: The number of observations that were recorded before the deviation.
    observation_count: int = 0


class _NestedLabWorkCount:
    """The number of nested :func:`lab_work` contexts."""

    depth = 0


@contextlib.contextmanager
def lab_work() -> Iterator[None]:
    """Mark the calls inside this context as work of the Lab itself, which injected faults must not affect."""
    _NestedLabWorkCount.depth += 1
    try:
        yield
    finally:
        _NestedLabWorkCount.depth -= 1


def is_lab_working() -> bool:
    """Return whether the caller runs inside :func:`lab_work`: the Lab is making inputs or reading results."""
    return _NestedLabWorkCount.depth > 0


class Lab:
    """One run of a behaviour. The program runs on ``device`` and makes inputs of ``dtype``.

    ``on_target`` is False for the run on the CPU, which records the expected observations.
    """

    def __init__(self, target: Target, dtype: str, seed: int, *, on_target: bool) -> None:
        self.target = target
        self.on_target = on_target
        self.device = torch.device(target.device if on_target else "cpu")
        self.dtype: torch.dtype = torch.float32 if dtype == "any" else getattr(torch, dtype)
        self.observations: list[Observation] = []
        self.deviations: list[Deviation] = []
        #: Calls of :meth:`raises` without ``match`` that raised a refusal or a failed internal assertion.
        self.doubtful_errors: dict[str, Deviation] = {}
        #: The code of the running program, or None if the positions of observations in it are not recorded.
        self.program: CodeType | None = None
        #: If not None, this function is called with each tensor or module that is copied to the device.
        self.on_copy_to_device: Callable[[Any], object] | None = None
        #: The reason that allows the program to end without an observation, or None.
        self.nothing_due_reason: str | None = None
        #: The basis of the statements that run now; None means the basis of the behaviour.
        self.basis: Basis | None = None
        self._error_in_context: tuple[Exception, Basis] | None = None
        self._entered_contexts = 0
        #: The statements that ended a context of basis parity by an error, in the run on the device.
        self.failed_statements: list[FailedStatement] = []
        #: The failed statements that this run on the CPU must skip. The key is the number of the basis
        #: context (:meth:`parity`, :meth:`consistent` or :meth:`documented`) that contains the statement.
        self.statements_to_skip: dict[int, FailedStatement] = {}
        #: The numbers of the basis contexts in which this run has skipped a statement.
        self.skipped_contexts: set[int] = set()
        #: The type of the error that left a basis context, by the number of the context.
        self.error_types_by_context: dict[int, type[Exception]] = {}
        #: The ``error_types_by_context`` of the run on the CPU, if this is the run on the device.
        self.cpu_error_types_by_context: dict[int, type[Exception]] = {}
        #: The errors of the CPU in :meth:`raises` that do not have the expected type or text, if no page
        #: states this type or text. Such errors differ between releases of torch, so the device may raise
        #: the CPU's error instead. The key is the name of the call and the number of earlier calls with this
        #: name.
        self.unspecified_errors: dict[tuple[str, int], Exception] = {}
        #: The ``unspecified_errors`` of the run on the CPU, if this is the run on the device.
        self.cpu_unspecified_errors: dict[tuple[str, int], Exception] = {}
        self._statements_by_name: collections.Counter[str] = collections.Counter()
        self._random = torch.Generator().manual_seed(seed)

    @property
    def other_float(self) -> torch.dtype:
        """A floating dtype other than float32: float64, or float16 if the target does not declare float64."""
        return torch.float64 if self.target.declares("float64") else torch.float16

    # The following methods make inputs. They return the same numbers in both runs.

    def integers(
        self, *shape: int, low: int = -4, high: int = 5, dtype: torch.dtype | None = None, **options: Any
    ) -> torch.Tensor:
        """Return random integers in ``[low, high)`` on the device, exact in every dtype.

        If the dtype is unsigned, the range starts at 0. ``options`` are passed to :meth:`put`.
        """
        dtype = self.dtype if dtype is None else dtype
        if dtype == torch.bool:
            low, high = 0, 2
        elif not dtype.is_signed:
            low = max(low, 0)
        with lab_work():
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
        """Return a tensor on the device with uniform random numbers in ``[low, high)`` and a floating or
        complex dtype.
        """
        dtype = self.dtype if dtype is None else dtype
        with lab_work():
            host = torch.rand(shape, generator=self._random, dtype=torch.float64) * (high - low) + low
            if dtype.is_complex:
                imaginary = (
                    torch.rand(shape, generator=self._random, dtype=torch.float64) * (high - low) + low
                )
                host = torch.complex(host, imaginary)
            host = host.to(dtype)
        return self.put(host, **options)

    def permutation(self, size: int) -> torch.Tensor:
        """Return an int64 tensor on the device with a random permutation of ``range(size)``."""
        with lab_work():
            host = torch.randperm(size, generator=self._random)
        return self.put(host)

    def put(
        self, data: Any, *, dtype: torch.dtype | None = None, requires_grad: bool = False
    ) -> torch.Tensor:
        """Return a tensor on the device, made from numbers, nested lists or a tensor on the host."""
        with lab_work():
            host = data if isinstance(data, torch.Tensor) else torch.tensor(data, dtype=dtype)
            if dtype is not None:
                host = host.to(dtype)
            if self.on_copy_to_device is not None:
                self.on_copy_to_device(host)
            tensor = host.to(self.device, copy=True)
        return tensor.requires_grad_() if requires_grad else tensor

    def to(self, thing: T) -> T:
        """Return a module or tensor moved to the device."""
        with lab_work():
            if self.on_copy_to_device is not None:
                self.on_copy_to_device(thing)
            return thing.to(self.device)  # type: ignore[attr-defined,no-any-return]

    # The following context managers set the basis of the statements inside them.

    @contextlib.contextmanager
    def documented(self) -> Iterator[None]:
        """Mark statements that a page of PyTorch's documentation demands. The behaviour has another basis."""
        with self._with_basis(Basis.DOCUMENTED):
            yield

    @contextlib.contextmanager
    def consistent(self, ground: str) -> Iterator[None]:
        """Mark statements that demand only that the device agrees with itself. ``ground`` says which two
        results of the device must agree.
        """
        with self._with_basis(Basis.CONSISTENCY):
            yield

    @contextlib.contextmanager
    def parity(self, ground: str) -> Iterator[None]:
        """Mark statements in which the device must only do what the CPU does. ``ground`` says what no page
        states.

        If such a statement raises an error on the device, the program continues after the context, so that
        the error does not hide the checks that follow. The CPU then reruns the program without that
        statement. The observations of the rerun are the expected observations.
        """
        with self._with_basis(Basis.PARITY):
            yield

    @contextlib.contextmanager
    def _with_basis(self, basis: Basis) -> Iterator[None]:
        before, number = self.basis, self._entered_contexts
        self.basis = basis
        self._entered_contexts += 1
        to_skip = self.statements_to_skip.get(number)
        try:
            if to_skip is None:
                yield
            else:
                with skipping.skip_statement(to_skip, lambda: len(self.observations), self.skipped_contexts):
                    yield
        except Exception as error:
            self.error_types_by_context[number] = type(error)
            if self._error_in_context is None or self._error_in_context[0] is not error:
                self._error_in_context = error, basis
            counts = len(self.observations), len(self.deviations)
            statement = skipping.statement_of_error(error, self._error_in_context[1], number, *counts)
            is_on_cpu_too = self.cpu_error_types_by_context.get(number) is type(error)
            if basis is not Basis.PARITY or not self.on_target or is_on_cpu_too or statement is None:
                raise
            self.failed_statements.append(statement)
        finally:
            self.basis = before

    def basis_of_error(self, error: Exception) -> Basis | None:
        """Return the basis of the statement that raised an exception; None means the basis of the
        behaviour.
        """
        if self._error_in_context is not None and self._error_in_context[0] is error:
            return self._error_in_context[1]
        return None

    # The following methods record observations, which are compared after both runs.

    def same(self, name: str, value: T, *, host: bool = False, strides: bool = False) -> T:
        """Record a value (a tree of tensors, numbers and strings) that must be equal in both runs, and return
        the value.

        Dtypes and shapes must be equal too. Tensors must be on the device of the run or, with ``host``, on
        the CPU. With ``strides``, strides and storage offsets are compared too, if the target declares them.
        """
        strides = strides and self.target.capable("strides")
        with lab_work():
            snapshot = observation.snapshot(value, strides=strides)
        position = self._statement_position(len(self.observations))
        self.observations.append(
            Observation(name, snapshot, None, host, strides, position=position, basis=self.basis)
        )
        return value

    def strides(self, tensor: torch.Tensor) -> tuple[int, ...]:
        """Return the strides of the dimensions that have several elements; the other strides have no effect.
        The tuple is empty if the target does not declare strides.
        """
        if not self.target.capable("strides"):
            return ()
        with lab_work():
            return tuple(significant_strides(tensor))

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
        """Record floating values that both runs must compute within the tolerance of a
        :class:`.observation.Closeness`, and return the values.

        Everything else is compared as in :meth:`same`.
        """
        with lab_work():
            snapshot = observation.snapshot(value)
        closeness, position = (
            Closeness(roundings, matrix, dtype),
            self._statement_position(len(self.observations)),
        )
        self.observations.append(
            Observation(name, snapshot, closeness, host, position=position, basis=self.basis)
        )
        return value

    def expect(self, name: str, value: Any, expected: Any, **options: Any) -> None:
        """Record a value that must be equal in both runs and equal to ``expected``: numbers, lists, NumPy
        arrays or host tensors.

        ``options`` are the options of :meth:`same`. If they include ``roundings``, they are the options of
        :meth:`close`, and the values are compared with its tolerance.
        """
        moment = len(self.observations)
        if "roundings" in options:
            self.close(name, value, **options)
        else:
            self.same(name, value, **options)
        observed = self.observations[-1]
        with lab_work():
            if isinstance(observed.value, observation.TensorSnapshot):
                # Copy the data, because torch does not accept negative strides or read-only arrays. NumPy
                # makes the copy, so that Python floats become float64 independently of torch's default dtype.
                expected_data = expected if isinstance(expected, torch.Tensor) else numpy.array(expected)
                expected_tensor = torch.as_tensor(expected_data)
                actual = observed.value.parts[0]
                closeness = observed.closeness or Closeness(0.0)
                same = actual.shape == expected_tensor.shape and self._agrees(
                    actual, expected_tensor, closeness
                )
            elif observed.closeness and isinstance(observed.value, (float, complex)):
                expected_data = torch.tensor(observed.value)
                same = self._agrees(
                    expected_data, torch.tensor(expected, dtype=expected_data.dtype), observed.closeness
                )
            else:
                same = bool(observed.value == expected)
        if not same and not self._has_undeclared_dtype(observed):
            is_tensor = isinstance(observed.value, observation.TensorSnapshot)
            actual_text = str(observed.value.parts[0].tolist() if is_tensor else value)[:300]
            text = f"{name} is {actual_text}, expected {str(expected)[:300]}."
            self._record_deviation(Kind.VALUE, text, moment)

    def _has_undeclared_dtype(self, observed: Observation) -> bool:
        dtypes = observation.dtypes_in_snapshot(observed.value)
        return (
            self.on_target
            and not observed.host
            and bool(undeclared_dtypes.undeclared_among(self.target, *dtypes))
        )

    def holds(self, name: str, condition: Any, *, kind: Kind = Kind.STATE) -> None:
        """Record a condition that must be true in both runs. ``name`` is a sentence that states the
        condition.
        """
        with lab_work():
            true = bool(condition)
        if not true:
            self._record_deviation(kind, f"it does not hold that {name}.", len(self.observations))
        self.observations.append(Observation(name, True, basis=self.basis))

    def shares(self, name: str, left: torch.Tensor, right: torch.Tensor) -> None:
        """Record the condition that two tensors share one storage, if the target declares storages."""
        if self._has_no_storages():
            return
        self.holds(f"{name} share a storage", _storage_id(left) == _storage_id(right), kind=Kind.ALIASING)

    def apart(self, name: str, left: torch.Tensor, right: torch.Tensor) -> None:
        """Record the condition that two tensors have separate storages, if the target declares storages."""
        if self._has_no_storages():
            return
        self.holds(
            f"{name} have separate storages", _storage_id(left) != _storage_id(right), kind=Kind.ALIASING
        )

    def _has_no_storages(self) -> bool:
        if self.target.capable("storage"):
            return False
        self.nothing_due("storages are not compared, because capability storage is not declared")
        return True

    def raises(
        self,
        name: str,
        call: Callable[[], Any],
        *types: type[BaseException],
        match: str | None = None,
        type_is_documented: bool = False,
        text_is_documented: bool = False,
    ) -> None:
        """Record the condition that a call raises one of ``types`` (default RuntimeError).

        If the call raises nothing, the failure has the basis of the statement. If the type or text of the
        error is wrong, the failure has basis parity, unless a page states the type or text. If no page states
        the type or text, the error of the CPU is accepted too, because errors differ between releases of
        torch.

        If ``match`` is given, the regular expression must match in the message. Without ``match``, any
        message is accepted, with one exception: if the device refuses the call or torch fails an internal
        assertion, the same must happen on the CPU
        (:func:`conformance.behaviours.behaviour.check_behaviour`). Otherwise the failure has basis parity,
        unless a page states the text.
        """
        expected_types = types or (RuntimeError,)
        basis_of_type = self.basis if type_is_documented else Basis.PARITY
        basis_of_text = self.basis if text_is_documented else Basis.PARITY

        statement = name, self._statements_by_name[name]
        self._statements_by_name[name] += 1
        cpu_error = self.cpu_unspecified_errors.get(statement)

        def misses_match(error: Exception) -> bool:
            return match is not None and not re.search(match, str(error))

        moment = len(self.observations)
        try:
            # Keep the value alive, so that a lazy device must compute it.
            value = call()
            if self.on_target:
                self.target.synchronize()
            del value
        except Exception as error:
            raised = self.error(error)
            if raised is None:
                self._record_deviation(
                    Kind.ERROR_TYPE, f"{name} raised nothing, expected {_join_names(expected_types)}", moment
                )
            elif (
                not self.on_target
                and (not isinstance(raised, expected_types) or misses_match(raised))
                and (isinstance(raised, expected_types) or not type_is_documented)
                and (not misses_match(raised) or not text_is_documented)
            ):
                self.unspecified_errors[statement] = raised
            elif cpu_error is not None and _is_same_error(raised, cpu_error):
                pass
            elif is_refusal(raised) and (misses_match(raised) or not isinstance(raised, expected_types)):
                text = f"{name} was refused: {one_line(raised)}"
                self._record_deviation(
                    Kind.REFUSED, text, moment, basis_of_text if misses_match(raised) else basis_of_type
                )
            elif not isinstance(raised, expected_types):
                self._record_deviation(
                    Kind.ERROR_TYPE,
                    f"{name} raised {one_line(raised)}, expected {_join_names(expected_types)}",
                    moment,
                    basis_of_type,
                )
            elif misses_match(raised):
                text = f"{name} raised {one_line(raised)}, which does not match {match!r}"
                self._record_deviation(Kind.MESSAGE, text, moment, basis_of_text)
            elif match is None and (is_refusal(raised) or "INTERNAL ASSERT" in str(raised)):
                text = f"{name} was refused, but the CPU reports the mistake: {one_line(raised)}"
                self.doubtful_errors[name] = Deviation(
                    Kind.REFUSED, text, self._statement_position(moment), basis_of_text
                )
        else:
            self._record_deviation(
                Kind.ERROR_TYPE, f"{name} raised nothing, expected {_join_names(expected_types)}", moment
            )
        self.observations.append(Observation(f"{name} raises", True))

    def value_or_error(
        self, name: str, call: Callable[[], T], *types: type[Exception]
    ) -> tuple[T | None, Exception | None]:
        """Return the value of a call and None. If the call raises an error of ``types``, return None and the
        error. Record whether the call raised.

        If only the device raises, the device's error is reported as the failure. ``name`` names the call.
        """
        position = self._statement_position(len(self.observations))
        value: T | None = None
        error: Exception | None = None
        try:
            value = call()
            if self.on_target:
                self.target.synchronize()
        except types as raised:
            error = raised.with_traceback(None)
        observed = Observation(
            f"whether {name} raises", error is not None, position=position, basis=self.basis, error=error
        )
        self.observations.append(observed)
        return value, error

    def error(self, error: Exception) -> Exception | None:
        """Return the error that :meth:`raises` checks. Tests override this method to simulate a device that
        does not raise an error.
        """
        return error

    def warns(
        self,
        name: str,
        call: Callable[[], T],
        *,
        category: type[Warning] = UserWarning,
        match: str = "",
        is_documented: bool = False,
    ) -> T:
        """Return the result of a call, and record the condition that the call issues a warning of
        ``category`` in whose message the regular expression ``match`` matches.

        The condition has basis parity, unless a page states the warning.
        """
        moment = len(self.observations)
        with warnings.catch_warnings(record=True) as caught, torch_testing_internals.repeat_warnings():
            warnings.simplefilter("always")
            value = call()
        texts = [str(w.message) for w in self.warnings(caught) if issubclass(w.category, category)]
        if not any(re.search(match, text) for text in texts):
            issued = "; ".join(texts)[:200] or "no warning"
            text = f"{name} issued: {issued}; expected {category.__name__} {match!r}"
            self._record_deviation(Kind.MESSAGE, text, moment, self.basis if is_documented else Basis.PARITY)
        self.observations.append(Observation(f"{name} warns", True))
        return value

    def silent(self, name: str, call: Callable[[], T]) -> T:
        """Return the result of a call, and record the condition, of basis parity, that the call does not
        warn.
        """
        moment = len(self.observations)
        with warnings.catch_warnings(record=True) as caught, torch_testing_internals.repeat_warnings():
            warnings.simplefilter("always")
            value = call()
        texts = [str(w.message) for w in caught]
        if texts:
            text = f"{name} warned: {'; '.join(texts)[:300]}"
            self._record_deviation(Kind.MESSAGE, text, moment, Basis.PARITY)
        self.observations.append(Observation(f"{name} does not warn", True))
        return value

    def warnings(self, caught: Sequence[Any]) -> Sequence[Any]:
        """Return the warnings that :meth:`warns` checks. Tests override this method to drop warnings."""
        return caught

    def _agrees(self, actual: torch.Tensor, expected: torch.Tensor, closeness: Closeness) -> bool:
        return _agree_within(actual, expected, closeness, self.target.precision if self.on_target else "ieee")

    def collect(self) -> None:
        """Collect garbage, to free the objects that only reference cycles keep alive.

        The device is synchronized first, because pending work may keep its inputs alive.
        """
        if self.on_target:
            self.target.synchronize()
        gc.collect()

    def gone(self, *watched: weakref.ref[Any]) -> bool:
        """Return whether all watched objects are dead within one second.

        The device is synchronized repeatedly, because pending work may keep its inputs alive.
        """
        deadline = time.monotonic() + _SECONDS
        while any(reference() is not None for reference in watched):
            if not self.on_target or time.monotonic() > deadline:
                return False
            self.target.synchronize()
            time.sleep(0.001)
        return True

    def nothing_due(self, reason: str) -> None:
        """Allow the program to end without an observation on this target. If the program records an
        observation, this call has no effect.
        """
        self.nothing_due_reason = reason

    def _record_deviation(
        self, kind: Kind, message: str, observation_count: int, basis: Basis | None = None
    ) -> None:
        self.deviations.append(
            Deviation(
                kind,
                message,
                self._statement_position(observation_count),
                basis or self.basis,
                observation_count,
            )
        )

    def _statement_position(self, observation_count: int) -> StatementPosition | None:
        return (
            None
            if self.program is None
            else statement_positions.calling_statement(self.program, observation_count)
        )


def _storage_id(tensor: torch.Tensor) -> int:
    with lab_work():
        return int(tensor.untyped_storage()._cdata)


def _is_same_error(actual: Exception, expected: Exception) -> bool:
    """Return whether two errors have the same type, and the same text except for numbers and device names."""

    def without_details(error: Exception) -> str:
        return re.sub(r"[\d.]+|\b(cpu|meta|[a-z]+:\d+)\b", "#", one_line(error).lower())

    return type(actual) is type(expected) and without_details(actual) == without_details(expected)


def _join_names(types: Sequence[type[BaseException]]) -> str:
    return " or ".join(kind.__name__ for kind in types)


def _agree_within(actual: torch.Tensor, expected: torch.Tensor, closeness: Closeness, precision: str) -> bool:
    if closeness.roundings == 0.0 and not expected.is_floating_point() and not expected.is_complex():
        return bool((actual == expected.to(actual.dtype)).all())
    wide = torch.complex128 if actual.is_complex() or expected.is_complex() else torch.float64
    actual_wide, expected_wide = actual.to(wide), expected.to(wide)
    if closeness.roundings:
        expected_rounded = (
            expected_wide.to(actual.dtype)
            if actual.is_floating_point() or actual.is_complex()
            else expected_wide
        )
        allowed = closeness.tolerance(expected_rounded, precision).floor
    else:
        allowed = 0.0
        expected_wide = (
            expected.to(actual.dtype).to(wide)
            if not expected.is_complex() or actual.is_complex()
            else expected_wide
        )
    same = (actual_wide - expected_wide).abs() <= allowed
    return bool(
        (
            same | (actual_wide == expected_wide) | (torch.isnan(actual_wide) & torch.isnan(expected_wide))
        ).all()
    )
