"""Property ``compiled-state``: compiled programs that write state have correct gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch

from conformance.device.compilation import compile_with_log
from conformance.framework.calls import attempt_on, report_error
from conformance.framework.compare import compare_exact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.api.programs._program_checks import function_returning_declared_dtypes
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

STEPS = 3

Program = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class _StatefulModule(torch.nn.Module):
    """A module with a parameter and a buffer. The program reads both and writes to the buffer.

    The buffer is alive as long as the module. A backward graph that reads the buffer therefore needs no
    additional memory.
    """

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        self.weight = torch.nn.Parameter(torch.arange(1.0, 5.0))
        self.register_buffer("state", 2.0 ** torch.arange(16).remainder(5).reshape(4, 4))

    def forward(self) -> torch.Tensor:
        return self.program(self.weight, self.get_buffer("state"))


def _multiply_by_new_state(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        new = state * 2
        state.copy_(new)
    return x * (new + 1)


def _multiply_by_copy_of_old_state(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    old = state.clone()
    with torch.no_grad():
        state.mul_(2)
    return x * old


def _multiply_by_copy_of_view_of_old_state(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    old = state[1:].clone()
    with torch.no_grad():
        state.mul_(4)
    return x * old


def _multiply_by_state_between_two_writes(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        state.mul_(2)
        between = state.clone()
        state.mul_(2)
    return x * between


#: Programs that compute with a weight, float32[4], and a state, float32[4, 4], and write to the state. All
#: values are small whole numbers, so that every result is exact in any order of summation.
PROGRAMS: dict[str, Program] = {
    "the new state": _multiply_by_new_state,
    "a copy of the old state": _multiply_by_copy_of_old_state,
    "a copy of a view of the old state": _multiply_by_copy_of_view_of_old_state,
    "the state between two writes": _multiply_by_state_between_two_writes,
}


@register(
    "compiled-state",
    subject_kind="api",
    statement=(
        "Programs that write to a tensor, compute with its old or new values and are compiled as one graph "
        "give the results, gradients and state of uncompiled calls on the CPU, in three steps."
    ),
    documentation="generated/torch.compile.html",
    basis="consistency",
    ground="The compiled program must give the results, gradients and state of uncompiled calls",
    level="core",
    applies=function_returning_declared_dtypes(("float32",)),
    capabilities=("compile", "autograd", "views"),
    modes=("compile",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check that ``torch.compile`` returns an optimized function with the same results
    (docs.pytorch.org/docs/stable/generated/torch.compile.html).

    A backward graph gives wrong gradients if it recomputes a value from state that the forward graph has
    overwritten. The partitioner of torch 2.13 makes such graphs (docs/torch-bugs.md).
    """
    graphs_run = 0
    for number, (name, program) in enumerate(PROGRAMS.items()):
        model = _StatefulModule(program).to(target.device)
        call, log = compile_with_log(target, model.forward)
        outcome = attempt_on(target, lambda model=model, call=call: _run_steps(model, call))  # type: ignore[misc]
        if not outcome.ok:
            assert outcome.error is not None
            report_error(
                target, recorder, outcome.error, label=f"a program of {name}, compiled,", sample=number
            )
            continue
        for step, (ours, theirs) in enumerate(zip(outcome.value, _train_on_cpu(program), strict=True)):
            parts = zip(("result", "gradient", "state"), ours, theirs, strict=True)
            if not all(
                compare_exact(recorder, *pair, label=f"the {part} in step {step} of {name}", sample=number)
                for part, *pair in parts
            ):
                break
        graphs_run += log.has_run_operator_calls
    recorder.samples(len(PROGRAMS), len(PROGRAMS))
    if not graphs_run:
        recorder.vacuous("no compiled graph of any program ran")


def _train_on_cpu(program: Program) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Return the result, the gradient and the state after each training step, computed by the CPU without
    compilation.
    """
    model = _StatefulModule(program)
    return _run_steps(model, model)


def _run_steps(
    model: _StatefulModule, call: Callable[[], torch.Tensor]
) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Return the result, the gradient and the state after each training step."""
    records = []
    for _ in range(STEPS):
        result = call()
        (gradient,) = torch.autograd.grad(result.sum(), model.weight)
        records.append((result.detach(), gradient, model.get_buffer("state").clone()))
        with torch.no_grad():
            model.weight.add_(1)
    return records
