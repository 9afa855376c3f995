"""Property: gradients of compiled calls equal gradients of calls that are not compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from conformance import torch_testing_internals
from conformance.framework.compare import compare_leaf_counts
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties import mode_exclusions
from conformance.properties.operators import _compiled_calls, _gradient_tolerance, _gradients
from conformance.properties.shared.dtypes import differentiable_dtypes
from conformance.properties.shared.execution import copy_sample_to_device
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target

#: ``LIMIT`` is the number of samples to compile. ``TRIED`` is the maximum number of attempted samples,
#: because Dynamo does not support every call.
LIMIT = 1
TRIED = 4


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if not _compiled_calls.can_be_captured_by_dynamo(subject):
        return []
    listed = mode_exclusions.exclusion_reasons("compile", "no_backward_graph")
    names = differentiable_dtypes(target, subject, ("float32", "complex64"))
    return [name for name in names if f"{subject.name}@{name}" not in listed]


@register(
    "compile_gradient",
    subject_kind="operator",
    statement="Gradients through a compiled call equal the CPU's in float64 within the backward tolerance.",
    documentation="generated/torch.compile.html",
    basis="consistency",
    ground="The compiled backward must agree with the eager backward of the device",
    level="training",
    applies=dtypes_to_check,
    capabilities=("compile", "autograd"),
    modes=("compile",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Differentiate through compiled calls and compare the gradients with the CPU's gradients."""
    compiler = _compiled_calls.CompiledCallRunner(target, recorder)
    if compare_compiled_gradients(target, subject, recorder, compiler, LIMIT):
        compiler.require_evidence()


def compare_compiled_gradients(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    compiler: _compiled_calls.CompiledCallRunner,
    limit: int,
) -> int:
    """Compare gradients of compiled calls with the CPU's gradients, until ``limit`` samples ran as a graph.

    Return the number of tried samples that have a reference.
    """
    tried = 0
    enough = compiler.graph_call_count + limit
    for sample, copy in _gradients.differentiable_samples(target, subject, recorder, TRIED):
        if compiler.graph_call_count >= enough:
            break
        reference = _gradients.first_derivatives_on_cpu(subject, recorder, sample)
        if not reference.ok:
            continue
        tried += 1

        first_copy = copy_sample_to_device(target, recorder, sample)

        def work(
            call: Callable[..., Any], copy: Sample = copy, first_copy: Sample | None = first_copy
        ) -> Any:
            if first_copy is not None:  # the first call may run differently: compare only the second call
                _gradients.differentiate(subject.info, call, first_copy)
            derivative = _gradients.differentiate(subject.info, call, copy)
            target.synchronize()
            return derivative

        def on_cpu(call: Callable[..., Any], sample: Sample = sample) -> Any:
            with torch_testing_internals.torch_seeded(0), torch_testing_internals.silence_warnings():
                return _gradients.differentiate(subject.info, call, to_host(sample))

        outcome = compiler.call(
            sample,
            _compiled_calls.unseeded_operator(subject),
            work,
            on_cpu,
            cpu_function=_compiled_calls.unseeded_operator(find("operator", subject.name)),
            label="the compiled backward",
        )
        if outcome is None:
            continue
        actual, expected = outcome.value, reference.value
        label = "the differentiable result"
        if compare_leaf_counts(recorder, actual.outputs, expected.outputs, label=label, sample=sample.index):
            _gradient_tolerance.compare_with_float64(
                target, recorder, subject, sample, actual.gradients, expected
            )
    return tried
