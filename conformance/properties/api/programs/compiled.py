"""Compiled programs give what they give if they are called plainly."""

from __future__ import annotations

import torch

from conformance.checking.invocation import attempt, attempt_on, one_line, report_error
from conformance.checking.property import register
from conformance.checking.recorder import Recorder
from conformance.device.compilation import compiled
from conformance.properties.api.programs._common import about, chosen, compare, in_dtypes, on_device
from conformance.samples.programs.program import Program
from conformance.subjects.databases import Subject
from conformance.target.target import Target

COUNT = 8


@register(
    "programs-compiled",
    subject_kind="api",
    statement=(
        "Compiled as one graph, programs of operators, views and writes leave in every tensor what they "
        "leave there on the CPU, with the inputs that they were compiled for and with others."
    ),
    level="core",
    applies=in_dtypes(),
    capabilities=("compile", "views"),
    modes=("compile",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Hold the backend to what torch.compile is: the function, optimized
    (docs.pytorch.org/docs/stable/generated/torch.compile.html).

    On the way writes are replaced by values, which preserves the function's semantics
    (docs.pytorch.org/docs/stable/generated/torch.func.functionalize.html).
    """
    seen = 0
    for program in chosen(subject, recorder, COUNT):
        call, log = compiled(target, program.function())
        for turn in (0, 1):
            if not _check(target, recorder, program, call, turn):
                break
        seen += log.seen
    if not seen:
        recorder.vacuous("no graph of a program ran")


def _check(target: Target, recorder: Recorder, program: Program, call: object, turn: int) -> bool:
    """Compare one call of a compiled program; False if there is nothing more to learn of it."""

    def work() -> list[torch.Tensor]:
        assert callable(call)
        with torch.no_grad():
            found: list[torch.Tensor] = call(*on_device(target, program, turn))
        return found

    outcome = attempt_on(target, work)
    if outcome.ok:
        what = f" compiled, in call {turn},"
        return compare(target, recorder, program, outcome.value, turn=turn, what=what)
    assert outcome.error is not None
    again, _ = compiled(None, program.function())

    def captured() -> object:
        with torch.no_grad():
            return again(*program.inputs(turn))

    on_cpu = attempt(captured)
    if on_cpu.ok:
        shown, what = about(recorder, program, turn), f"program {program.index}, compiled,"
        report_error(target, shown, outcome.error, what=what, sample=program.index)
    else:
        assert on_cpu.error is not None
        recorder.note(f"program {program.index} is not captured on the CPU: {one_line(on_cpu.error, 160)}")
    return False
