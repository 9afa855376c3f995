"""Property ``programs-replayed``: a captured random program computes with the data that its inputs contain at
the replay.
"""

from __future__ import annotations

import torch

from conformance.device.capture import CapturedCall, capture_call
from conformance.framework.calls import attempt, report_error
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.api.programs._program_checks import (
    compare_registers,
    function_returning_declared_dtypes,
    inputs_on_device,
    recorder_with_program_text,
    select_programs,
)
from conformance.samples.random_programs.program import Program, run_program
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

PROGRAM_LIMIT = 30


@register(
    "programs-replayed",
    subject_kind="api",
    statement=(
        "Captured programs of operators, views and writes, replayed on new data, leave the same values in "
        "every tensor as on the CPU with the same data."
    ),
    documentation="notes/cuda.html",
    level="core",
    applies=function_returning_declared_dtypes(condition=lambda target: target.has_graphs),
    capabilities=("graphs", "views"),
    modes=("graph",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check that a replay of a captured graph does the same work on the current values at the captured
    addresses.

    The values may have changed since the capture (docs.pytorch.org/docs/stable/notes/cuda.html, CUDA Graphs).
    """
    effective_replays = 0
    for program in select_programs(subject, recorder, PROGRAM_LIMIT):
        effective_replays += _replays_pass_and_change_a_register(target, recorder, program)
    if not effective_replays:
        recorder.vacuous("the replays prove nothing: no register differs from its value before the replay")


def _replays_pass_and_change_a_register(target: Target, recorder: Recorder, program: Program) -> bool:
    """Capture a program, replay it twice on new data, and compare its registers with the CPU. Return whether
    the comparison passed and proves that the replays computed.
    """
    function = program.as_function()

    def capture_on_device() -> tuple[list[torch.Tensor], CapturedCall]:
        with torch.no_grad():
            function(*inputs_on_device(target, program))  # the first call may initialize the device
            inputs = inputs_on_device(target, program)
            return inputs, capture_call(target, lambda: function(*inputs))

    outcome = attempt(capture_on_device)
    if not outcome.ok:
        assert outcome.error is not None
        label = f"capturing program {program.index}"
        report_error(
            target,
            recorder_with_program_text(recorder, program),
            outcome.error,
            label=label,
            sample=program.index,
        )
        return False
    inputs, graph = outcome.value
    for input_set in (1, 2):
        outcome = attempt(
            lambda input_set=input_set: _replay_with_input_set(target, program, inputs, graph, input_set)  # type: ignore[misc]
        )
        if not outcome.ok:
            assert outcome.error is not None
            label = f"replaying program {program.index}"
            annotated = recorder_with_program_text(recorder, program, input_set)
            report_error(target, annotated, outcome.error, label=label, sample=program.index)
            return False
        if not compare_registers(
            target, recorder, program, graph.value, input_set=input_set, label=f" in replay {input_set}"
        ):
            return False
    return _replay_changes_a_register(program)


def _replay_with_input_set(
    target: Target, program: Program, inputs: list[torch.Tensor], graph: CapturedCall, input_set: int
) -> None:
    """Copy the data of ``input_set`` into the captured inputs, and replay the graph."""
    for tensor, data in zip(inputs, program.inputs(input_set), strict=True):
        tensor.copy_(data)
    target.synchronize()
    graph.replay()


def _replay_changes_a_register(program: Program) -> bool:
    """Return whether the first replay on new data changes the value of a register, computed on the CPU.

    If no register changes, a replay that does nothing would pass the comparison.
    """
    data = program.inputs(1)
    before = [tensor.clone() for tensor in data]
    own = {tensor.untyped_storage()._cdata for tensor in data}
    earlier, later = run_program(program, program.inputs()), run_program(program, data)
    pairs = list(zip(before, later, strict=False))
    pairs += [
        pair for pair in zip(earlier, later, strict=True) if pair[1].untyped_storage()._cdata not in own
    ]
    return any(not torch.equal(old, new) for old, new in pairs)
