"""Shared functions of the properties of random programs: dtypes, inputs, comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

import torch

from conformance.framework.compare import compare_exact, compare_metadata
from conformance.framework.property import Applies
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.samples import sample_limit
from conformance.samples.random_programs.generator import DTYPES, programs_of
from conformance.samples.random_programs.program import Program, run
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

AREA = "programs"


def applies_in_dtypes(
    dtypes: Sequence[str] = DTYPES, condition: Callable[[Target], bool] = lambda target: True
) -> Applies:
    """Return the function that lists the dtypes in which a property of random programs has results.

    The property has no results on a target for which ``condition`` is false.
    """

    def applies(target: Target, subject: Subject) -> Sequence[str]:
        if subject.name != AREA or not condition(target):
            return ()
        return [dtype for dtype in dtypes if target.declares(dtype)]

    return applies


def select_programs(subject: Subject, recorder: Recorder, limit: int) -> Sequence[Program]:
    """Return the first programs of the result's dtype, and record how many of all programs these are."""
    programs = programs_of(subject.name, recorder.id.dtype)
    selected = programs[: sample_limit.limit(limit)]
    recorder.samples(len(selected), len(programs))
    return selected


@dataclasses.dataclass
class ProgramRecorder:
    """A recorder that appends the text of a program to each failure message."""

    recorder: Recorder
    text: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.recorder, name)

    def fail(self, kind: Kind, message: str, *, sample: int | None = None) -> None:
        """Record a failure with the text of the program."""
        self.recorder.fail(kind, f"{message}\n{self.text}", sample=sample)


def recorder_for_program(
    recorder: Recorder, program: Program, turn: int = 0, marks: Collection[int] = ()
) -> Recorder:
    """Return a recorder that shows the program, with its inputs of ``turn``, in every failure."""
    return cast("Recorder", ProgramRecorder(recorder, program.describe(turn, marks)))


def inputs_on_device(target: Target, program: Program, turn: int = 0) -> list[torch.Tensor]:
    """Return copies of the program's inputs on the device."""
    return [tensor.to(target.device, copy=True) for tensor in program.inputs(turn)]


def compare_registers(
    target: Target,
    recorder: Recorder,
    program: Program,
    registers: Sequence[torch.Tensor],
    *,
    turn: int = 0,
    marks: Collection[int] = (),
    label: str = "",
) -> bool:
    """Return whether all registers equal the CPU's registers bit for bit; record the first that differs."""
    annotated = recorder_for_program(recorder, program, turn, marks)
    device = torch.device(target.device)
    for name, actual, expected in zip(
        program.names, registers, run(program, program.inputs(turn)), strict=True
    ):
        register_label = f"program {program.index}: register {name}{label}"
        if not compare_metadata(
            annotated, actual, expected, label=register_label, sample=program.index, device=device
        ):
            return False
        if not compare_exact(annotated, actual, expected, label=register_label, sample=program.index):
            return False
    return True
