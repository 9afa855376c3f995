"""Behaviours: torch's own behaviour as short programs that must show the same on every device.

    @behaviour("views", dtypes=NUMBERS, sees=("alias", "value"))
    def write_through_select(lab: Lab) -> None:
        \"\"\"A write into a selected row is seen by the tensor that it was selected from.\"\"\"
        base = lab.integers(3, 4)
        row = base.select(0, 1)
        lab.shares("base and row", base, row)
        row.fill_(7)
        lab.same("base", base)

becomes the property ``write-through-select`` of subject ``views`` (kind ``api``). Its check runs the program
on the CPU, then on the device, and compares the observations in order. A program that fails or contradicts
itself on the CPU is a fault of the suite and an ``error``; one that fails on the device is a failure of the
device.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.behaviours import observation, statement_positions
from conformance.behaviours.lab import Lab, at_work
from conformance.behaviours.statement_positions import Place
from conformance.device import process_state
from conformance.framework import trees, undeclared_dtypes
from conformance.framework.calls import report_error
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.model.vocabulary import ANY_DTYPE, CALLS
from conformance.subjects import areas
from conformance.target.target import Target

ONE = ("float32",)
ANY = (ANY_DTYPE,)
WIDE_FLOATS = ("float32", "float64")
FLOATS = (*WIDE_FLOATS, "float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8")
NUMBERS = (*FLOATS, *INTEGERS, *COMPLEX)
ALL = (*NUMBERS, "bool")

#: Kinds of faults that tests plant into every behaviour; each behaviour names those that it must see.
FAULTS = ("value", "alias", "dtype", "shape", "stride", "error", "message", "warning")

Program = Callable[[Lab], None]


@dataclasses.dataclass(frozen=True)
class Behaviour:
    """A program with the name of its property and the kinds of planted faults that it must see.

    ``sees`` is empty for behaviours that none of the general faults reaches: the tests then have a context
    manager that breaks something on the device's side, under the property's name.
    """

    name: str
    area: str
    program: Program
    sees: tuple[str, ...]


BEHAVIOURS: dict[str, Behaviour] = {}

#: Makes the lab of the device's side and what surrounds it; tests hand in a broken one.
MakeLab = Callable[..., Lab]
_make: MakeLab = Lab


def _nothing(lab: Lab) -> contextlib.AbstractContextManager[Any]:
    return contextlib.nullcontext()


_around: Callable[[Lab], contextlib.AbstractContextManager[Any]] = _nothing


def replace_target_side(
    make: MakeLab | None, around: Callable[[Lab], contextlib.AbstractContextManager[Any]] | None
) -> None:
    """Break the device's side of every behaviour (for tests); None twice puts the real one back."""
    global _make, _around
    _make = make or Lab
    _around = around or _nothing


def behaviour(
    area: str,
    *,
    dtypes: Sequence[str] = ONE,
    level: str = "full",
    capabilities: Sequence[str] = (),
    sees: Sequence[str] = ("value",),
    modes: Sequence[str] = CALLS,
    name: str | None = None,
    smoke: bool = False,
) -> Callable[[Program], Program]:
    """Register a program as the property of an area of torch's API.

    The name is that of the function with dashes, the statement the first paragraph of its docstring. ``sees``
    are the planted faults that must turn it red; it is empty if the tests give the fault by the property's
    name. Raises ValueError for an unknown area or fault, and for a program without a docstring.
    """
    if area not in areas.AREAS:
        raise ValueError(
            f"area {area!r} is not one of {', '.join(areas.AREAS)}; add it to conformance/subjects/areas.py"
        )
    for fault in sees:
        if fault not in FAULTS:
            raise ValueError(f"fault {fault!r} is not one of {', '.join(FAULTS)}")

    def wrap(program: Program) -> Program:
        title = name or program.__name__.strip("_").replace("_", "-")
        statement = " ".join((inspect.getdoc(program) or "").partition("\n\n")[0].split())
        if not statement:
            raise ValueError(f"behaviour {title!r} has no docstring; state there what must hold")
        BEHAVIOURS[title] = Behaviour(title, area, program, tuple(sees))

        def applies(target: Target, subject: Any) -> Sequence[str]:
            if subject.name != area:
                return ()
            return [dtype for dtype in dtypes if dtype == ANY_DTYPE or target.declares(dtype)]

        register(
            title,
            subject_kind="api",
            statement=statement,
            level=level,
            applies=applies,
            modes=modes,
            runs=False,
            smoke=smoke,
            capabilities=(*areas.AREAS[area].capabilities, *capabilities),
            documentation=areas.AREAS[area].documentation,
        )(lambda target, subject, recorder: check(BEHAVIOURS[title], target, recorder))
        return program

    return wrap


def check(entry: Behaviour, target: Target, recorder: Recorder) -> None:
    """Run the program on the CPU, then on the device, and compare the observations."""
    expected = Lab(target, recorder.id.dtype, recorder.seed, on_target=False)
    state = process_state.capture()
    process_state.seed(recorder.seed, target)
    try:
        on_cpu(entry, expected)
    except Exception as raised:
        if target.is_cpu:
            raise
        # Without the backend it runs, which the target cpu shows.
        process_state.restore(state)
        recorder.compared(1)
        what = f"{_place(raised, entry.program)}, on CPU tensors while the backend is loaded,"
        report_error(target, recorder, raised, label=what)
        return
    if expected.deviations:
        raise AssertionError(f"the CPU contradicts {entry.name}: {expected.deviations[0].message}")
    process_state.restore(state)
    process_state.seed(recorder.seed, target)
    actual = _make(target, recorder.id.dtype, recorder.seed, on_target=True)
    if not undeclared_dtypes.declares_all(target):
        actual.program = inspect.unwrap(entry.program).__code__
    error: Exception | None = None
    with _around(actual):
        try:
            on_target(entry, actual)
        except Exception as raised:
            error = raised
    beyond = _UndeclaredStatements(entry, target, recorder)
    code = inspect.unwrap(entry.program).__code__
    for shown, due in zip(actual.observations, expected.observations, strict=False):
        if shown.name != due.name:
            recorder.compared(1)
            recorder.fail(Kind.STATE, f"showed {shown.name!r}, but the CPU shows {due.name!r}.")
            break
        if due.value is True and shown.value is True:
            recorder.compared(1)
        else:
            observation.compare(recorder, shown, due, actual.device, target, beyond.covers)
    for deviation in actual.deviations:
        if not beyond.covers(deviation.place):
            recorder.fail(deviation.kind, deviation.message)
    if actual.idle is not None:
        recorder.idle(actual.idle)
    for name, accident in actual.accidents.items():
        if name not in expected.accidents and not beyond.covers(accident.place):
            recorder.fail(accident.kind, accident.message)
    cut = (
        None
        if error is None
        else statement_positions.passed(error.__traceback__, code, len(actual.observations))
    )
    if error is not None and beyond.covers(cut):
        recorder.cut_off()
    elif error is not None:
        recorder.compared(1)
        report_error(target, recorder, error, label=_place(error, entry.program))
    elif len(actual.observations) != len(expected.observations):
        recorder.compared(1)
        counts = len(actual.observations), len(expected.observations)
        recorder.fail(Kind.STATE, f"showed {counts[0]} things, but the CPU shows {counts[1]}.")


class _UndeclaredStatements:
    """Answers whether a deviation came up at a place that needs a dtype which is not declared.

    The recorder notes the dtype then. The first question runs the program on the CPU.
    """

    def __init__(self, entry: Behaviour, target: Target, recorder: Recorder) -> None:
        self._entry = entry
        self._target = target
        self._recorder = recorder

    @functools.cached_property
    def _needs(self) -> dict[Place, frozenset[str]]:
        found: dict[Place, frozenset[str]] = {}
        if undeclared_dtypes.declares_all(self._target):
            return found
        code = inspect.unwrap(self._entry.program).__code__
        lab = Lab(self._target, self._recorder.id.dtype, self._recorder.seed, on_target=False)

        def note(dtypes: frozenset[str]) -> None:
            place = statement_positions.calling_statement(code, len(lab.observations)) if dtypes else None
            if place is not None:
                found[place] = found.get(place, frozenset()) | dtypes

        # The lab computes in float64 what it then makes and compares in the dtype that it was asked for.
        lab.uploaded = lambda thing: note(undeclared_dtypes.unclaimed(self._target, *_tensors_of(thing)))
        state = process_state.capture()
        process_state.seed(self._recorder.seed, self._target)
        try:
            undeclared_dtypes.watch(
                self._target,
                lambda: on_cpu(self._entry, lab),
                lambda dtypes: None if at_work() else note(dtypes),
            )
        finally:
            process_state.restore(state)
            torch_testing_internals.reset_dynamo()
        return found

    def covers(self, place: Place | None) -> bool:
        """Return whether a place is such a one."""
        missing = self._needs.get(place) if place is not None else None
        if missing:
            self._recorder.left_out(missing)
        return bool(missing)


def _tensors_of(thing: Any) -> list[torch.Tensor]:
    if isinstance(thing, torch.nn.Module):
        return [*thing.parameters(), *thing.buffers()]
    return trees.tensors(thing)


# Functions of their own, so that a profile of the suite can tell the two runs apart.


def on_cpu(entry: Behaviour, lab: Lab) -> None:
    """Run a program for what is due."""
    entry.program(lab)


def on_target(entry: Behaviour, lab: Lab) -> None:
    """Run a program on the device, to its end."""
    entry.program(lab)
    lab.target.synchronize()


def _place(error: Exception, program: Program) -> str:
    """Return the line of the program, or of what it called in its file, at which an error came up."""
    file = program.__code__.co_filename
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename == file:
            return f"`{(frame.line or '').strip()}`"
    return "the program"
