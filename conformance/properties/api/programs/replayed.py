"""Captured programs follow the data that their inputs hold at replay."""

from __future__ import annotations

import torch

from conformance.device.capture import Captured, captured
from conformance.framework.calls import attempt, report_error
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.api.programs._program_checks import about, chosen, compare, in_dtypes, on_device
from conformance.samples.random_programs.program import Program, run
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

COUNT = 30


@register(
    "programs-replayed",
    subject_kind="api",
    statement=(
        "Replayed on new data, captured programs of operators, views and writes leave in every tensor what "
        "they leave there on the CPU with these data."
    ),
    documentation="notes/cuda.html",
    level="core",
    applies=in_dtypes(due=lambda target: target.has_graphs),
    capabilities=("graphs", "views"),
    modes=("graph",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Hold a graph to what torch promises of one.

    A replay does the same work at the same addresses, whose values may have changed
    (docs.pytorch.org/docs/stable/notes/cuda.html, CUDA Graphs).
    """
    proofs = 0
    for program in chosen(subject, recorder, COUNT):
        proofs += _check(target, recorder, program)
    if not proofs:
        recorder.vacuous("no replay was seen to compute: no register differs from that before it")


def _check(target: Target, recorder: Recorder, program: Program) -> bool:
    """Capture a program, replay it twice on new data; return whether that shows that it computed."""
    function = program.function()

    def work() -> tuple[list[torch.Tensor], Captured]:
        with torch.no_grad():
            function(*on_device(target, program))  # a device may set things up in the first call
            inputs = on_device(target, program)
            return inputs, captured(target, lambda: function(*inputs))

    outcome = attempt(work)
    if not outcome.ok:
        assert outcome.error is not None
        what = f"capturing program {program.index}"
        report_error(target, about(recorder, program), outcome.error, what=what, sample=program.index)
        return False
    inputs, graph = outcome.value
    for turn in (1, 2):
        outcome = attempt(lambda turn=turn: _replay(target, program, inputs, graph, turn))  # type: ignore[misc]
        if not outcome.ok:
            assert outcome.error is not None
            what = f"replaying program {program.index}"
            shown = about(recorder, program, turn)
            report_error(target, shown, outcome.error, what=what, sample=program.index)
            return False
        if not compare(target, recorder, program, graph.value, turn=turn, what=f" in replay {turn}"):
            return False
    return _differs(program)


def _replay(target: Target, program: Program, inputs: list[torch.Tensor], graph: Captured, turn: int) -> None:
    """Copy the data of a turn into the captured inputs, and replay."""
    for tensor, data in zip(inputs, program.inputs(turn), strict=True):
        tensor.copy_(data)
    target.synchronize()
    graph.replay()


def _differs(program: Program) -> bool:
    """Return whether a replay that does nothing would leave another value in some register."""
    data = program.inputs(1)
    before = [tensor.clone() for tensor in data]
    own = {tensor.untyped_storage()._cdata for tensor in data}
    earlier, later = run(program, program.inputs()), run(program, data)
    pairs = list(zip(before, later, strict=False))
    pairs += [
        pair for pair in zip(earlier, later, strict=True) if pair[1].untyped_storage()._cdata not in own
    ]
    return any(not torch.equal(old, new) for old, new in pairs)
