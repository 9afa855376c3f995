"""Shared functions of the properties of random programs: dtypes, programs, inputs, and comparison with the
CPU.

A program has several sets of input values. ``input_set`` is the number of a set: 0 for the first call or the
capture, and 1 and 2 for new data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

import torch

from conformance.framework.compare import compare_exact, compare_metadata
from conformance.framework.property import Applies
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis, Kind
from conformance.samples import sample_limit
from conformance.samples.random_programs.generator import DTYPES, programs_of
from conformance.samples.random_programs.program import Program, run_program
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

AREA = "programs"


def function_returning_declared_dtypes(
    dtypes: Sequence[str] = DTYPES, condition: Callable[[Target], bool] = lambda target: True
) -> Applies:
    """Return the ``dtypes_to_check`` function of a property of random programs. It lists the dtypes in which
    the property has results.

    The property has no results on a target for which ``condition`` is false.
    """

    def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
        if subject.name != AREA or not condition(target):
            return ()
        return [dtype for dtype in dtypes if target.declares(dtype)]

    return dtypes_to_check


def select_programs(subject: Subject, recorder: Recorder, limit: int) -> Sequence[Program]:
    """Return the first ``limit`` programs of the result's dtype (``--samples`` may change the limit). Record
    the number of selected and of all programs.
    """
    programs = programs_of(subject.name, recorder.id.dtype)
    selected = programs[: sample_limit.limit(limit)]
    recorder.samples(len(selected), len(programs))
    return selected


@dataclasses.dataclass
class ProgramRecorder:
    """A recorder that appends the text of a program to each failure message. All other calls go to
    ``recorder``.
    """

    recorder: Recorder
    text: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.recorder, name)

    def fail(
        self, kind: Kind, message: str, *, sample: int | None = None, basis: Basis | None = None
    ) -> None:
        """Record a failure with the text of the program."""
        self.recorder.fail(kind, f"{message}\n{self.text}", sample=sample, basis=basis)


def recorder_with_program_text(
    recorder: Recorder, program: Program, input_set: int = 0, step_marks: Collection[int] = ()
) -> Recorder:
    """Return a recorder that appends the text of the program, with its inputs of ``input_set`` and the step
    markers ``step_marks``, to each failure message.
    """
    return cast("Recorder", ProgramRecorder(recorder, program.describe(input_set, step_marks)))


def inputs_on_device(target: Target, program: Program, input_set: int = 0) -> list[torch.Tensor]:
    """Return copies of the program's inputs of ``input_set`` on the device."""
    return [tensor.to(target.device, copy=True) for tensor in program.inputs(input_set)]


def compare_registers(
    target: Target,
    recorder: Recorder,
    program: Program,
    registers: Sequence[torch.Tensor],
    *,
    input_set: int = 0,
    step_marks: Collection[int] = (),
    label: str = "",
) -> bool:
    """Return whether all registers equal the CPU's registers bit for bit. Record a failure for the first
    register that differs.
    """
    annotated = recorder_with_program_text(recorder, program, input_set, step_marks)
    device = torch.device(target.device)
    for name, actual, expected in zip(
        program.names, registers, run_program(program, program.inputs(input_set)), strict=True
    ):
        register_label = f"program {program.index}: register {name}{label}"
        if not compare_metadata(
            annotated, actual, expected, label=register_label, sample=program.index, device=device
        ):
            return False
        if not compare_exact(annotated, actual, expected, label=register_label, sample=program.index):
            return False
    return True
