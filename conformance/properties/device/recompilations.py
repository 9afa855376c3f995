"""Compiled code is used again."""

from __future__ import annotations

from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.device.compilation import compiled
from conformance.framework.compare import compare_exact, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.device._device_checks import about, do
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: (shape, dtype, graphs that exist after the call): a known combination is never compiled again.
CALLS = (
    ((4, 3), torch.float32, 1),
    ((4, 3), torch.float32, 1),
    ((5, 3), torch.float32, 2),
    ((4, 3), torch.float32, 2),
    ((4, 3), torch.int64, 3),
    ((5, 3), torch.float32, 3),
)


@register(
    "recompilations",
    subject_kind="device",
    statement=(
        "A compiled function compiles once for each shape and dtype, and gives each call its own values."
    ),
    documentation="user_guide/torch_compiler/compile/programming_model.recompilation.html",
    level="core",
    applies=about("Compile"),
    capabilities=("compile",),
    modes=("compile",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    call, log = compiled(target, function(subject))
    for index, (shape, dtype, graphs) in enumerate(CALLS):
        start = torch.arange(shape[0] * shape[1]).reshape(shape).to(dtype) + index
        what = f"call {index} with {list(shape)} of {dtype}"
        outcome = do(target, recorder, what, lambda start=start: call(start.to(target.device)))  # type: ignore[misc]
        if not outcome.ok:
            return
        compare_exact(recorder, outcome.value, start * 2 + 1, what=what)
        message = f"after {what} there are {len(log.graphs)} graphs, expected {graphs}."
        fact(recorder, len(log.graphs) == graphs, Kind.STATE, message)
    breaks = torch_testing_internals.graph_breaks()
    fact(
        recorder, not breaks, Kind.STATE, f"the function was broken into several graphs: {', '.join(breaks)}"
    )
    if not log.seen:
        recorder.vacuous("no graph ran")
    if log.runs != len(CALLS):
        recorder.fail(Kind.STATE, f"{log.runs} of {len(CALLS)} calls ran as a graph")


def function(subject: Subject) -> Any:
    """Return the function to compile; a test may hand in another as the subject's ``info``."""
    return subject.info or (lambda x: x * 2 + 1)
