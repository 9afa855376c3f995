"""The shared parts of the properties of programs: which results exist, inputs, comparison."""

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


def in_dtypes(dtypes: Sequence[str] = DTYPES, due: Callable[[Target], bool] = lambda target: True) -> Applies:
    """Return the function that says in which dtypes a property of programs has results."""

    def applies(target: Target, subject: Subject) -> Sequence[str]:
        if subject.name != AREA or not due(target):
            return ()
        return [dtype for dtype in dtypes if target.declares(dtype)]

    return applies


def chosen(subject: Subject, recorder: Recorder, limit: int) -> Sequence[Program]:
    """Return the first programs of the dtype, and count them."""
    programs = programs_of(subject.name, recorder.id.dtype)
    taken = programs[: sample_limit.limit(limit)]
    recorder.samples(len(taken), len(programs))
    return taken


@dataclasses.dataclass
class Annotated:
    """A recorder whose failures show a program below their first line."""

    recorder: Recorder
    text: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.recorder, name)

    def fail(self, kind: Kind, message: str, *, sample: int | None = None) -> None:
        """Record a failure and the program."""
        self.recorder.fail(kind, f"{message}\n{self.text}", sample=sample)


def about(recorder: Recorder, program: Program, turn: int = 0, marks: Collection[int] = ()) -> Recorder:
    """Return a recorder that shows the program, with its inputs of a turn, in every failure."""
    return cast("Recorder", Annotated(recorder, program.describe(turn, marks)))


def on_device(target: Target, program: Program, turn: int = 0) -> list[torch.Tensor]:
    """Return what the program is given, on the device."""
    return [tensor.to(target.device, copy=True) for tensor in program.inputs(turn)]


def compare(
    target: Target,
    recorder: Recorder,
    program: Program,
    registers: Sequence[torch.Tensor],
    *,
    turn: int = 0,
    marks: Collection[int] = (),
    what: str = "",
) -> bool:
    """Compare all registers with those of the CPU, bit for bit, up to the first that differs."""
    shown = about(recorder, program, turn, marks)
    device = torch.device(target.device)
    for name, got, want in zip(program.names, registers, run(program, program.inputs(turn)), strict=True):
        words = f"program {program.index}: register {name}{what}"
        if not compare_metadata(shown, got, want, what=words, sample=program.index, device=device):
            return False
        if not compare_exact(shown, got, want, what=words, sample=program.index):
            return False
    return True
