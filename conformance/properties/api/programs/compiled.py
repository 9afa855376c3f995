"""Property ``programs-compiled``: compiled random programs leave the same values in every tensor as on the
CPU.
"""

from __future__ import annotations

import torch

from conformance.device.compilation import compile_with_log
from conformance.framework.calls import attempt, attempt_on, one_line, report_error
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

PROGRAM_LIMIT = 32


@register(
    "programs-compiled",
    subject_kind="api",
    statement=(
        "Programs of operators, views and writes that are compiled as one graph leave the same values in "
        "every tensor as on the CPU, with the inputs of the compilation and with other inputs."
    ),
    documentation="generated/torch.compile.html",
    basis="consistency",
    ground="The compiled program must leave the values of the program that is not compiled",
    level="core",
    applies=function_returning_declared_dtypes(),
    capabilities=("compile", "views"),
    modes=("compile",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check that ``torch.compile`` returns an optimized function with the same results
    (docs.pytorch.org/docs/stable/generated/torch.compile.html).

    ``torch.compile`` replaces each write by a new value. The replacement preserves the semantics of the
    function (docs.pytorch.org/docs/stable/generated/torch.func.functionalize.html).
    """
    graphs_run = 0
    for program in select_programs(subject, recorder, PROGRAM_LIMIT):
        call, log = compile_with_log(target, program.as_function())
        for input_set in (0, 1):
            if not _check_compiled_call(target, recorder, program, call, input_set):
                break
        graphs_run += log.has_run_operator_calls
    if not graphs_run:
        recorder.vacuous("no compiled graph of any program ran")


def _check_compiled_call(
    target: Target, recorder: Recorder, program: Program, call: object, input_set: int
) -> bool:
    """Call a compiled program on the device and compare its registers with the CPU. Return whether the call
    passed.

    If the compiled program fails on the CPU too, the result has a note instead of a failure.
    """

    def call_on_device() -> list[torch.Tensor]:
        assert callable(call)
        with torch.no_grad():
            results: list[torch.Tensor] = call(*inputs_on_device(target, program, input_set))
        return results

    outcome = attempt_on(target, call_on_device)
    if outcome.ok:
        label = f" compiled, in call {input_set},"
        trial = recorder.scratch()
        if compare_registers(
            target, trial, program, outcome.value, input_set=input_set, label=label
        ) or _compiled_program_agrees_on_cpu(target, recorder, program, input_set):
            recorder.merge(trial)
            return not trial.failed
        recorder.note(f"program {program.index} gives other values on the CPU too when torch captures it")
        return False
    assert outcome.error is not None
    on_cpu = attempt(lambda: _run_compiled_on_cpu(program, input_set))
    if on_cpu.ok:
        annotated, label = (
            recorder_with_program_text(recorder, program, input_set),
            f"program {program.index}, compiled,",
        )
        report_error(target, annotated, outcome.error, label=label, sample=program.index)
    else:
        assert on_cpu.error is not None
        recorder.note(f"program {program.index} is not captured on the CPU: {one_line(on_cpu.error, 160)}")
    return False


def _run_compiled_on_cpu(program: Program, input_set: int) -> list[torch.Tensor]:
    """Compile the program for the CPU and return the registers of one call."""
    call, _ = compile_with_log(None, program.as_function())
    with torch.no_grad():
        results: list[torch.Tensor] = call(*program.inputs(input_set))
    return results


def _compiled_program_agrees_on_cpu(
    target: Target, recorder: Recorder, program: Program, input_set: int
) -> bool:
    """Return whether the program, compiled for the CPU, computes the values of the uncompiled program.

    The CPU control is necessary because torch's functionalization loses some writes (docs/torch-bugs.md).
    """
    outcome = attempt(lambda: _run_compiled_on_cpu(program, input_set))
    cpu = target.on_cpu()
    return outcome.ok and compare_registers(
        cpu, recorder.scratch(), program, outcome.value, input_set=input_set
    )
