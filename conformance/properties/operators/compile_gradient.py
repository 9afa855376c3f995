"""Compiled calls have the gradients of calls that are not compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from conformance import torch_testing_internals
from conformance.framework.compare import same_nesting
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties import mode_exclusions
from conformance.properties.operators import _compile_checks, _gradient_tolerance, _gradients
from conformance.properties.shared.dtypes import differentiable
from conformance.properties.shared.execution import copy_in
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target

#: Samples that are captured, and those that are tried for it: a form of a call may be beyond Dynamo.
LIMIT = 1
TRIED = 4


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if not _compile_checks.has_graph(subject):
        return []
    listed = mode_exclusions.reasons("compile", "no_backward_graph")
    names = differentiable(target, subject, ("float32", "complex64"))
    return [name for name in names if f"{subject.name}@{name}" not in listed]


@register(
    "compile_gradient",
    subject_kind="operator",
    statement="Gradients through a compiled call equal the CPU's in float64 within the backward tolerance.",
    documentation="generated/torch.compile.html",
    level="training",
    applies=applies,
    capabilities=("compile", "autograd"),
    modes=("compile",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    compiler = _compile_checks.Compiler(target, recorder)
    if gradients(target, subject, recorder, compiler, LIMIT):
        compiler.settle()


def gradients(
    target: Target, subject: Subject, recorder: Recorder, compiler: _compile_checks.Compiler, limit: int
) -> int:
    """Compare the gradients of the first differentiable samples; return how many had a reference."""
    tried = 0
    enough = compiler.captured + limit
    for sample, copy in _gradients.cases(target, subject, recorder, TRIED):
        if compiler.captured >= enough:
            break
        reference = _gradients.reference(subject, recorder, sample)
        if not reference.ok:
            continue
        tried += 1

        again = copy_in(target, recorder, sample)

        def work(call: Callable[..., Any], copy: Sample = copy, again: Sample | None = again) -> Any:
            if again is not None:  # the first time may be special: only the second is compared
                _gradients.differentiate(subject.info, call, again)
            derivative = _gradients.differentiate(subject.info, call, copy)
            target.synchronize()
            return derivative

        def on_cpu(call: Callable[..., Any], sample: Sample = sample) -> Any:
            with torch_testing_internals.torch_seeded(0), torch_testing_internals.quiet():
                return _gradients.differentiate(subject.info, call, to_host(sample))

        outcome = compiler.call(
            sample,
            _compile_checks.unseeded_operator(subject),
            work,
            on_cpu,
            reference=_compile_checks.unseeded_operator(find("operator", subject.name)),
            label="the compiled backward",
        )
        if outcome is None:
            continue
        actual, expected = outcome.value, reference.value
        what = "the differentiable result"
        if same_nesting(recorder, actual.outputs, expected.outputs, label=what, sample=sample.index):
            _gradient_tolerance.judge(target, recorder, subject, sample, actual.gradients, expected)
    return tried
