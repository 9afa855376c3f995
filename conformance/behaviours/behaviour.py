"""Behaviours: PyTorch semantics as short programs whose observations must be equal on every device.

    @behaviour("views", dtypes=NUMBERS, must_detect=("alias", "value"))
    def write_through_select(lab: Lab) -> None:
        \"\"\"A write into a selected row changes the tensor that the row was selected from.\"\"\"
        base = lab.integers(3, 4)
        row = base.select(0, 1)
        lab.shares("base and row", base, row)
        row.fill_(7)
        lab.same("base", base)

becomes the property ``write-through-select`` of subject ``views`` (kind ``api``). The check runs the program
on the CPU, then on the device, and compares the observations in order. If the program raises on the CPU, or
one of its conditions is false on the CPU, the suite has a fault and the verdict is ``error``. If the program
raises on the device, the check fails.
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
from conformance.behaviours.lab import Lab, is_lab_working
from conformance.behaviours.skipping import FailedStatement
from conformance.behaviours.statement_positions import StatementPosition
from conformance.device import process_state
from conformance.framework import trees, undeclared_dtypes
from conformance.framework.calls import report_error
from conformance.framework.property import register, requirement_of
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

#: Kinds of faults that tests inject into every behaviour. Each behaviour names the kinds that it must detect.
FAULTS = ("value", "alias", "dtype", "shape", "stride", "error", "message", "warning")

Program = Callable[[Lab], None]


@dataclasses.dataclass(frozen=True)
class Behaviour:
    """A program with the name of its property and the kinds of injected faults that it must detect.

    If none of the general fault kinds affects the program, ``must_detect`` is empty. The tests of the suite
    then define a special fault: a context manager under the name of the property.
    """

    name: str
    area: str
    program: Program
    must_detect: tuple[str, ...]


BEHAVIOURS: dict[str, Behaviour] = {}

#: Makes the Lab of the run on the device. Tests replace it by a function that makes a Lab with an injected
#: fault.
MakeLab = Callable[..., Lab]
_make_lab: MakeLab = Lab


def _no_context(lab: Lab) -> contextlib.AbstractContextManager[Any]:
    return contextlib.nullcontext()


_target_context: Callable[[Lab], contextlib.AbstractContextManager[Any]] = _no_context


def inject_fault_into_device_runs(
    make_lab: MakeLab | None, context: Callable[[Lab], contextlib.AbstractContextManager[Any]] | None
) -> None:
    """Inject a fault into the device run of every behaviour (for tests).

    ``make_lab`` makes the Lab of the device run. ``context`` returns a context manager in which the program
    runs. None restores the default.
    """
    global _make_lab, _target_context
    _make_lab = make_lab or Lab
    _target_context = context or _no_context


def behaviour(
    area: str,
    *,
    dtypes: Sequence[str] = ONE,
    level: str = "full",
    capabilities: Sequence[str] = (),
    must_detect: Sequence[str] = ("value",),
    modes: Sequence[str] = CALLS,
    name: str | None = None,
    smoke: bool = False,
    page: str = "",
    basis: str = "documented",
    ground: str = "",
) -> Callable[[Program], Program]:
    """Return a decorator that registers a program as a property of an area of torch's API.

    The property's name is the function's name with dashes instead of underscores. Its requirement is the
    first paragraph of the docstring. ``must_detect`` lists the kinds of injected faults that must make the
    behaviour fail. The list is empty if the tests define a special fault under the property's name.
    ``page`` is the page of the documentation that states the requirement (default: the page of
    the area). ``basis`` and ``ground`` apply to the property. Statements inside :meth:`.lab.Lab.parity`,
    ``consistent`` or ``documented`` have a different basis.

    Raise ValueError for an unknown area or fault, and for a program without a docstring.
    """
    if area not in areas.AREAS:
        raise ValueError(
            f"area {area!r} is not one of {', '.join(areas.AREAS)}; add it to conformance/subjects/areas.py"
        )
    for fault in must_detect:
        if fault not in FAULTS:
            raise ValueError(f"fault {fault!r} is not one of {', '.join(FAULTS)}")

    def wrap(program: Program) -> Program:
        title = name or program.__name__.strip("_").replace("_", "-")
        statement = requirement_of(program)
        if not statement:
            raise ValueError(f"behaviour {title!r} has no docstring; state there what must hold")
        BEHAVIOURS[title] = Behaviour(title, area, program, tuple(must_detect))

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
            documentation=page or areas.AREAS[area].documentation,
            basis=basis,
            ground=ground,
        )(lambda target, subject, recorder: check_behaviour(BEHAVIOURS[title], target, recorder))
        return program

    return wrap


def check_behaviour(entry: Behaviour, target: Target, recorder: Recorder) -> None:
    """Run the program of a behaviour on the CPU, then on the device, and compare the observations."""
    expected, cpu_error = _run_on_cpu(entry, target, recorder, [])
    if cpu_error is not None:
        if target.is_cpu:
            raise cpu_error
        # Runs of target ``cpu`` show that the program does not raise on the CPU without the backend. The
        # backend is therefore the cause of this error.
        recorder.compared(1)
        label = f"{_failing_line(cpu_error, entry.program)}, on CPU tensors while the backend is loaded,"
        report_error(target, recorder, cpu_error, label=label)
        return
    if expected.deviations:
        raise AssertionError(
            f"behaviour {entry.name} does not hold on the CPU: {expected.deviations[0].message}"
        )
    process_state.seed(recorder.seed, target)
    actual = _make_lab(target, recorder.id.dtype, recorder.seed, on_target=True)
    actual.cpu_error_types_by_context = expected.error_types_by_context
    actual.cpu_unspecified_errors = expected.unspecified_errors
    code = inspect.unwrap(entry.program).__code__
    if not undeclared_dtypes.declares_all(target):
        actual.program = code
    error: Exception | None = None
    with _target_context(actual):
        try:
            run_on_target(entry, actual)
        except Exception as raised:
            error = raised
    if actual.failed_statements:
        expected, cpu_error = _run_on_cpu(entry, target, recorder, actual.failed_statements)
        if len(expected.skipped_contexts) < len(actual.failed_statements):
            # The CPU did not reach one of the failed statements, which may run on accelerators only. The
            # observations after the first failed statement cannot be compared.
            first = actual.failed_statements[0]
            del actual.observations[first.observation_count :], actual.deviations[first.deviation_count :]
            del expected.observations[first.observation_count :]
            actual.doubtful_errors.clear()
            cpu_error = error = None
            recorder.note(
                "observations after the failed statement were not compared, because the CPU did not run it"
            )
    undeclared = _UndeclaredStatements(entry, target, recorder, actual.failed_statements)
    other_branch = _compare_observations(target, recorder, actual, expected, undeclared)
    cpu_deviations = {(deviation.kind, deviation.message) for deviation in expected.deviations}
    for deviation in actual.deviations:
        is_also_on_cpu = (deviation.kind, deviation.message) in cpu_deviations
        # Deviations after the observation at which the two runs took different branches are ignored.
        if other_branch is not None and deviation.observation_count > other_branch:
            continue
        if not is_also_on_cpu and not undeclared.needs_undeclared_dtype(deviation.position):
            recorder.fail(deviation.kind, deviation.message, basis=deviation.basis)
    if actual.nothing_due_reason is not None:
        recorder.allow_nothing_compared(actual.nothing_due_reason)
    for name, doubtful in actual.doubtful_errors.items():
        if name not in expected.doubtful_errors and not undeclared.needs_undeclared_dtype(doubtful.position):
            recorder.fail(doubtful.kind, doubtful.message, basis=doubtful.basis)
    for statement in actual.failed_statements:
        position = statement_positions.position_of_error(
            statement.error.__traceback__, code, statement.observation_count
        )
        if not undeclared.needs_undeclared_dtype(position):
            recorder.compared(1)
            with recorder.with_basis(statement.basis):
                label = _failing_line(statement.error, entry.program)
                report_error(target, recorder, statement.error, label=label)
    if error is not None:
        _report_program_error(entry, target, recorder, actual, error, cpu_error, undeclared)
    elif (
        other_branch is None and cpu_error is None and len(actual.observations) != len(expected.observations)
    ):
        recorder.compared(1)
        counts = len(actual.observations), len(expected.observations)
        recorder.fail(Kind.STATE, f"recorded {counts[0]} observations, but on the CPU {counts[1]}.")


def _run_on_cpu(
    entry: Behaviour, target: Target, recorder: Recorder, skipped: Sequence[FailedStatement]
) -> tuple[Lab, Exception | None]:
    """Run a program on the CPU without the ``skipped`` statements. Return its Lab, and its error or None."""
    lab = Lab(target, recorder.id.dtype, recorder.seed, on_target=False)
    lab.statements_to_skip = {statement.context_number: statement for statement in skipped}
    error: Exception | None = None
    state = process_state.capture_global_state()
    process_state.seed(recorder.seed, target)
    try:
        run_on_cpu_reference(entry, lab)
    except Exception as raised:
        error = raised
    process_state.restore_global_state(state)
    return lab, error


def _compare_observations(
    target: Target, recorder: Recorder, actual: Lab, expected: Lab, undeclared: _UndeclaredStatements
) -> int | None:
    """Compare the observations of both runs in order. If the program took different branches in the two runs,
    return the index of the first observation that shows this: later observations cannot be compared.
    """
    for index, (actual_observation, expected_observation) in enumerate(
        zip(actual.observations, expected.observations, strict=False)
    ):
        if actual_observation.name != expected_observation.name:
            recorder.compared(1)
            recorder.fail(
                Kind.STATE,
                f"recorded {actual_observation.name!r}, but on the CPU {expected_observation.name!r}.",
            )
            return index
        if actual_observation.error is not None and expected_observation.error is None:
            if not undeclared.needs_undeclared_dtype(actual_observation.position):
                recorder.compared(1)
                with recorder.with_basis(actual_observation.basis or recorder.basis):
                    label = actual_observation.name.removeprefix("whether ").removesuffix(" raises")
                    report_error(target, recorder, actual_observation.error, label=label)
            return index
        if expected_observation.value is True and actual_observation.value is True:
            recorder.compared(1)
        else:
            observation.compare_observation(
                recorder,
                actual_observation,
                expected_observation,
                actual.device,
                actual.target,
                undeclared.needs_undeclared_dtype,
            )
    return None


def _report_program_error(
    entry: Behaviour,
    target: Target,
    recorder: Recorder,
    actual: Lab,
    error: Exception,
    cpu_error: Exception | None,
    undeclared: _UndeclaredStatements,
) -> None:
    """Report the error that ended the run on the device, unless the CPU's run without the skipped statements
    ended by the same kind of error.
    """
    if cpu_error is not None and type(error) is type(cpu_error):
        return
    code = inspect.unwrap(entry.program).__code__
    position = statement_positions.position_of_error(error.__traceback__, code, len(actual.observations))
    if undeclared.needs_undeclared_dtype(position):
        recorder.cut_off()
        return
    recorder.compared(1)
    with recorder.with_basis(actual.basis_of_error(error) or recorder.basis):
        report_error(target, recorder, error, label=_failing_line(error, entry.program))


class _UndeclaredStatements:
    """The statements of a program that need an undeclared dtype. Deviations at these statements are ignored.

    The first call of :meth:`needs_undeclared_dtype` runs the program on the CPU.
    """

    def __init__(
        self,
        entry: Behaviour,
        target: Target,
        recorder: Recorder,
        skipped: Sequence[FailedStatement] = (),
    ) -> None:
        self._entry = entry
        self._skipped = skipped
        self._target = target
        self._recorder = recorder

    @functools.cached_property
    def _undeclared_dtypes_by_position(self) -> dict[StatementPosition, frozenset[str]]:
        dtypes_by_position: dict[StatementPosition, frozenset[str]] = {}
        if undeclared_dtypes.declares_all(self._target):
            return dtypes_by_position
        code = inspect.unwrap(self._entry.program).__code__
        lab = Lab(self._target, self._recorder.id.dtype, self._recorder.seed, on_target=False)
        lab.statements_to_skip = {statement.context_number: statement for statement in self._skipped}

        def add_dtypes(dtypes: frozenset[str]) -> None:
            position = statement_positions.calling_statement(code, len(lab.observations)) if dtypes else None
            if position is not None:
                dtypes_by_position[position] = dtypes_by_position.get(position, frozenset()) | dtypes

        # The operators that the Lab itself calls are ignored, because the Lab computes in float64. The dtypes
        # of tensors that the Lab copies to the device are reported.
        lab.on_copy_to_device = lambda thing: add_dtypes(
            undeclared_dtypes.undeclared_among(self._target, *_tensors_of(thing))
        )
        state = process_state.capture_global_state()
        process_state.seed(self._recorder.seed, self._target)
        try:
            undeclared_dtypes.run_on_cpu_and_report_undeclared(
                self._target,
                lambda: run_on_cpu_reference(self._entry, lab),
                lambda dtypes: None if is_lab_working() else add_dtypes(dtypes),
            )
        finally:
            process_state.restore_global_state(state)
            torch_testing_internals.reset_dynamo()
        return dtypes_by_position

    def needs_undeclared_dtype(self, position: StatementPosition | None) -> bool:
        """Return True if the statement at a position needs an undeclared dtype. If so, tell the recorder that
        the result omits this dtype.
        """
        missing = self._undeclared_dtypes_by_position.get(position) if position is not None else None
        if missing:
            self._recorder.omit_for_dtypes(missing)
        return bool(missing)


def _tensors_of(thing: Any) -> list[torch.Tensor]:
    if isinstance(thing, torch.nn.Module):
        return [*thing.parameters(), *thing.buffers()]
    return trees.tensors(thing)


# The run on the CPU and the run on the device call different functions, so that the time profile
# (``conformance.worker.stack_sampler``) can tell the two runs apart.


def run_on_cpu_reference(entry: Behaviour, lab: Lab) -> None:
    """Run a program on the CPU to collect the expected observations."""
    entry.program(lab)


def run_on_target(entry: Behaviour, lab: Lab) -> None:
    """Run a program on the device and wait for the device."""
    entry.program(lab)
    lab.target.synchronize()


def _failing_line(error: Exception, program: Program) -> str:
    """Return the innermost line of the program's file in an error's traceback."""
    file = program.__code__.co_filename
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename == file:
            return f"`{(frame.line or '').strip()}`"
    return "the program"
