"""Compiled programs give what they give if they are called plainly."""

from __future__ import annotations

import torch

from conformance.device.compilation import compiled
from conformance.framework.calls import attempt, attempt_on, one_line, report_error
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.api.programs._program_checks import about, chosen, compare, in_dtypes, on_device
from conformance.samples.random_programs.program import Program
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

COUNT = 32


@register(
    "programs-compiled",
    subject_kind="api",
    statement=(
        "Compiled as one graph, programs of operators, views and writes leave in every tensor what they "
        "leave there on the CPU, with the inputs that they were compiled for and with others."
    ),
    documentation="generated/torch.compile.html",
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
        trial = recorder.trial()
        if compare(target, trial, program, outcome.value, turn=turn, what=what) or _torch_agrees(
            target, recorder, program, turn
        ):
            recorder.absorb(trial)
            return not trial.failed
        recorder.note(f"program {program.index} gives other values on the CPU as well, if torch captures it")
        return False
    assert outcome.error is not None
    on_cpu = attempt(lambda: _captured_on_the_cpu(program, turn))
    if on_cpu.ok:
        shown, what = about(recorder, program, turn), f"program {program.index}, compiled,"
        report_error(target, shown, outcome.error, what=what, sample=program.index)
    else:
        assert on_cpu.error is not None
        recorder.note(f"program {program.index} is not captured on the CPU: {one_line(on_cpu.error, 160)}")
    return False


def _captured_on_the_cpu(program: Program, turn: int) -> list[torch.Tensor]:
    call, _ = compiled(None, program.function())
    with torch.no_grad():
        found: list[torch.Tensor] = call(*program.inputs(turn))
    return found


def _torch_agrees(target: Target, recorder: Recorder, program: Program, turn: int) -> bool:
    """Return whether what torch captures of the program, run on the CPU, gives what the program gives there.

    Torch's own replacement of writes loses some (docs/torch-bugs.md); no backend is held to more.
    """
    outcome = attempt(lambda: _captured_on_the_cpu(program, turn))
    cpu = target.on_cpu()
    return outcome.ok and compare(cpu, recorder.trial(), program, outcome.value, turn=turn)
