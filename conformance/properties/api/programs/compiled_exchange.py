"""Property ``compiled-exchange``: compiled programs use copies of arguments that they overwrite."""

from __future__ import annotations

from collections.abc import Callable

import torch

from conformance.device.compilation import compile_with_log
from conformance.framework.calls import attempt_on, report_error
from conformance.framework.compare import compare_exact, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.api.programs._program_checks import function_returning_declared_dtypes
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

STEPS = 3

Program = Callable[[torch.Tensor, torch.Tensor], "torch.Tensor | None"]


def _exchange_data(x: torch.Tensor, y: torch.Tensor) -> None:
    before = x.clone()
    x.copy_(y)
    y.copy_(before)


def _copy_previous_value_to_second(x: torch.Tensor, y: torch.Tensor) -> None:
    before = x.clone()
    x.mul_(2).add_(1)
    y.copy_(before)


def _copy_previous_view_to_second(x: torch.Tensor, y: torch.Tensor) -> None:
    before = x.t()[1:].clone()
    x.add_(1)
    y[1:].copy_(before)


def _exchange_rows(x: torch.Tensor, y: torch.Tensor) -> None:
    before = x[0].clone()
    x[0] = x[1]
    x[1] = y[0]
    y[0] = before


def _transpose_in_place(x: torch.Tensor, y: torch.Tensor) -> None:
    x.copy_(x.t().clone())
    y.add_(x)


def _return_the_previous_value(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    row = x.clone()[0].clone()
    x.add_(1)
    y.mul_(2)
    return row


#: Programs that write to both of their arguments, of shape (3, 3). All values are small whole numbers.
PROGRAMS: dict[str, Program] = {
    "exchanges its arguments": _exchange_data,
    "retains a previous value": _copy_previous_value_to_second,
    "retains a view of a previous value": _copy_previous_view_to_second,
    "exchanges rows": _exchange_rows,
    "transposes an argument in place": _transpose_in_place,
    "returns a previous value": _return_the_previous_value,
}


@register(
    "compiled-exchange",
    subject_kind="api",
    statement=(
        "Programs that copy their arguments and then overwrite them, compiled as one graph, store and return "
        "the values of uncompiled calls on the CPU, in three steps."
    ),
    documentation="generated/torch.compile.html",
    basis="consistency",
    ground="The compiled program must store the values that uncompiled calls store",
    level="core",
    applies=function_returning_declared_dtypes(("float32", "int64")),
    capabilities=("compile", "views"),
    modes=("compile",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check that ``torch.compile`` returns an optimized function with the same effects
    (docs.pytorch.org/docs/stable/generated/torch.compile.html).

    A compiler that removes a copy of an argument, and overwrites the argument before it uses the copy, uses
    wrong values. Inductor of torch 2.13 does so (docs/torch-bugs.md#exchanged-inputs).
    """
    dtype = getattr(torch, recorder.id.dtype)
    graphs_run = 0
    for number, (name, program) in enumerate(PROGRAMS.items()):
        call, log = compile_with_log(target, program)
        expected = _run_steps_and_copy_results(program, *_make_arguments(dtype, torch.device("cpu")))
        arguments = _make_arguments(dtype, torch.device(target.device))
        outcome = attempt_on(
            target,
            lambda call=call, arguments=arguments: _run_steps_and_copy_results(call, *arguments),  # type: ignore[misc]
        )
        if not outcome.ok:
            assert outcome.error is not None
            label = f"a program that {name}, compiled,"
            report_error(target, recorder, outcome.error, label=label, sample=number)
            continue
        for step, (ours, theirs) in enumerate(zip(outcome.value, expected, strict=True)):
            has_result = fact(
                recorder,
                len(ours) == len(theirs),
                Kind.VALUE,
                f"a program that {name}, compiled, has a result only on one device",
                sample=number,
            )
            parts = zip(("first argument", "second argument", "result"), ours, theirs, strict=False)
            if not has_result or not all(
                compare_exact(
                    recorder,
                    *pair,
                    label=f"the {part} after step {step} of a program that {name}",
                    sample=number,
                )
                for part, *pair in parts
            ):
                break
        graphs_run += log.has_run_operator_calls
    recorder.samples(len(PROGRAMS), len(PROGRAMS))
    if not graphs_run:
        recorder.vacuous("no compiled graph of any program ran")


def _make_arguments(dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the two arguments of each program, with equal values on every device."""
    values = torch.arange(18).to(dtype).reshape(2, 3, 3).to(device)
    return values[0].clone(), values[1].clone()


def _run_steps_and_copy_results(call: Program, x: torch.Tensor, y: torch.Tensor) -> list[list[torch.Tensor]]:
    """Return copies of both arguments, and of the result unless it is None, after each step."""
    records = []
    for _ in range(STEPS):
        result = call(x, y)
        records.append([x.clone(), y.clone(), *([] if result is None else [result.clone()])])
    return records
