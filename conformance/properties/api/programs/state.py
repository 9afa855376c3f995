"""Compiled programs that write state have the gradients of their forward pass."""

from __future__ import annotations

from collections.abc import Callable

import torch

from conformance.checking.compare import compare_exact
from conformance.checking.invocation import attempt_on, report_error
from conformance.checking.property import register
from conformance.checking.recorder import Recorder
from conformance.device.compilation import compiled
from conformance.properties.api.programs._common import in_dtypes
from conformance.subjects.databases import Subject
from conformance.target.target import Target

STEPS = 3

Program = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _new_state(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        new = state * 2 + 1
        state.copy_(new)
    return x * new


def _copy_of_the_old_state(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    old = state.clone()
    with torch.no_grad():
        state.mul_(2).add_(1)
    return x * old


def _copy_of_a_view_of_the_old_state(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    old = state[1:].clone()
    with torch.no_grad():
        state.mul_(3)
    return x * old


def _state_between_two_writes(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        state.add_(1)
        between = state.clone()
        state.mul_(2)
    return x * between


#: Programs of a value that needs a gradient, float32[4], and a state, float32[4, 4], which they write. All
#: numbers are small integers, so that the order of sums is free.
PROGRAMS: dict[str, Program] = {
    "the new state": _new_state,
    "a copy of the old state": _copy_of_the_old_state,
    "a copy of a view of the old state": _copy_of_a_view_of_the_old_state,
    "the state between two writes": _state_between_two_writes,
}


@register(
    "compiled-state",
    subject_kind="api",
    statement=(
        "Compiled as one graph, programs that write to a tensor and compute with what it held before, or "
        "with what they write, have the gradients and leave the state that they have and leave if they are "
        "called plainly on the CPU, in three steps."
    ),
    documentation="generated/torch.compile.html",
    level="core",
    applies=in_dtypes(("float32",)),
    capabilities=("compile", "autograd", "views"),
    modes=("compile",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Hold the backend to what torch.compile is: the function, optimized
    (docs.pytorch.org/docs/stable/generated/torch.compile.html).

    A backward graph that computes a value again from state that the forward graph has overwritten since
    gives wrong gradients. The partitioner of torch 2.13 makes such graphs (docs/upstream.md).
    """
    seen = 0
    for number, (name, program) in enumerate(PROGRAMS.items()):
        call, log = compiled(target, program)
        got = attempt_on(target, lambda call=call: _train(call, target.device))  # type: ignore[misc]
        if not got.ok:
            assert got.error is not None
            report_error(target, recorder, got.error, what=f"a program of {name}, compiled,", sample=number)
            continue
        for step, (ours, theirs) in enumerate(zip(got.value, _train(program, "cpu"), strict=True)):
            parts = zip(("gradient", "state"), ours, theirs, strict=True)
            if not all(
                compare_exact(recorder, *pair, what=f"the {part} in step {step} of {name}", sample=number)
                for part, *pair in parts
            ):
                break
        seen += log.seen
    recorder.samples(len(PROGRAMS), len(PROGRAMS))
    if not seen:
        recorder.vacuous("no graph of a program ran")


def _train(call: Program, device: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Run steps; gradient and state after each."""
    state = torch.arange(1.0, 17.0).reshape(4, 4).to(device)
    seen = []
    for step in range(STEPS):
        weight = torch.arange(1.0, 5.0).add_(step).to(device).requires_grad_()
        call(weight, state).sum().backward()
        assert weight.grad is not None
        seen.append((weight.grad, state.clone()))
    return seen
