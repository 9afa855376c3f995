"""Check that a compiled function is compiled only once for each shape and dtype."""

from __future__ import annotations

from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.device.compilation import compile_with_log
from conformance.framework.compare import compare_exact, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.device._device_checks import dtypes_function_for_part, run_and_record_error
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: The calls of the check: shape, dtype, and the expected number of compiled graphs after the call.
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
        "A compiled function compiles once for each shape and dtype, and returns the result of each "
        "call's own values."
    ),
    documentation="generated/torch.compile.html",
    level="core",
    applies=dtypes_function_for_part("Compile"),
    capabilities=("compile",),
    modes=("compile",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call a compiled function with several shapes and dtypes; check the results and the number of graphs."""
    call, log = compile_with_log(target, function_to_compile(subject))
    for index, (shape, dtype, graphs) in enumerate(CALLS):
        values = torch.arange(shape[0] * shape[1]).reshape(shape).to(dtype) + index
        label = f"call {index} with {list(shape)} of {dtype}"
        outcome = run_and_record_error(
            target,
            recorder,
            label,
            lambda values=values: call(values.to(target.device)),  # type: ignore[misc]
        )
        if not outcome.ok:
            return
        compare_exact(recorder, outcome.value, values * 2 + 1, label=label)
        message = f"after {label} there are {len(log.graphs)} graphs, expected {graphs}."
        fact(recorder, len(log.graphs) == graphs, Kind.STATE, message)
    breaks = torch_testing_internals.graph_breaks()
    fact(
        recorder, not breaks, Kind.STATE, f"the function was broken into several graphs: {', '.join(breaks)}"
    )
    if not log.has_run_operator_calls:
        recorder.vacuous("no graph ran")
    if log.runs != len(CALLS):
        recorder.fail(Kind.STATE, f"{log.runs} of {len(CALLS)} calls ran as a graph")


def function_to_compile(subject: Subject) -> Any:
    """Return the subject's ``info`` if a test has set it, else a function that returns ``x * 2 + 1``."""
    return subject.info or (lambda x: x * 2 + 1)
