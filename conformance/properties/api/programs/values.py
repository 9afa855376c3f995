"""Properties ``programs`` and ``programs-in-steps``: random programs leave the same values in every tensor as
on the CPU. In the second property, a lazy device runs its pending work between the steps.
"""

from __future__ import annotations

from collections.abc import Collection

import torch

from conformance.framework.calls import attempt_on, report_error
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.api.programs._program_checks import (
    compare_registers,
    function_returning_declared_dtypes,
    inputs_on_device,
    recorder_with_program_text,
    select_programs,
)
from conformance.samples.random_programs.program import Program
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

PROGRAM_LIMIT = 100


@register(
    "programs",
    subject_kind="api",
    statement=(
        "Programs of two to five operators, views and writes leave the same values in every tensor as on the "
        "CPU. A write through a view changes every tensor that shares its memory. It does not change results "
        "that were computed before the write."
    ),
    documentation="tensor_view.html",
    level="core",
    applies=function_returning_declared_dtypes(),
    capabilities=("views",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check programs against torch's notes on tensor views and on in-place operators.

    A view shares its data with its base, so that a write to one changes the other
    (docs.pytorch.org/docs/stable/tensor_view.html). A method whose name ends with an underscore changes its
    tensor in place (docs.pytorch.org/docs/stable/tensors.html).
    """
    before = target.executed() if target.mode == "lazy" else None
    for program in select_programs(subject, recorder, PROGRAM_LIMIT):
        _check_program(target, recorder, program)
    if before is not None and target.executed() == before:
        recorder.vacuous("no operator of a program ran from a lazy graph")


@register(
    "programs-in-steps",
    subject_kind="api",
    statement=(
        "A program leaves the same values in every tensor if a lazy device runs its pending work between the "
        "steps of the program."
    ),
    documentation="tensor_view.html",
    level="core",
    applies=function_returning_declared_dtypes(condition=lambda target: "mark_step" in target.hooks),
    capabilities=("views",),
    modes=("lazy",),
    runs=False,
)
def check_in_steps(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check programs on a lazy device that runs its pending work between the steps of a program.

    The requirement rests on the pages that :func:`check` names.
    """
    before = target.executed()
    for program in select_programs(subject, recorder, PROGRAM_LIMIT):
        _check_program(target, recorder, program, program.steps_with_mark())
    if before is not None and target.executed() == before:
        recorder.vacuous("no operator of a program ran from a lazy graph")


def _check_program(
    target: Target, recorder: Recorder, program: Program, step_marks: Collection[int] = ()
) -> None:
    """Run a program, with a step marker before each step in ``step_marks``, and compare its registers with
    the CPU.
    """

    def run_on_device() -> list[torch.Tensor]:
        with torch.no_grad():
            return program.as_function(target.mark_step, step_marks)(*inputs_on_device(target, program))

    outcome = attempt_on(target, run_on_device)
    if outcome.ok:
        compare_registers(target, recorder, program, outcome.value, step_marks=step_marks)
    else:
        assert outcome.error is not None
        annotated = recorder_with_program_text(recorder, program, step_marks=step_marks)
        label = f"program {program.index}"
        report_error(target, annotated, outcome.error, label=label, sample=program.index)
