"""Property: each replay of a graph of forward and backward computes the gradients of the current data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.framework.compare import compare_leaf_counts, to_host_tensor
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.oracle.graph_replay_inputs import first_replay_sample
from conformance.properties.operators import _captured_calls, _compiled_calls, _gradient_tolerance, _gradients
from conformance.properties.shared.dtypes import differentiable_dtypes, dtype_under_test
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: ``LIMIT`` is the number of samples to capture. ``TRIED`` is the maximum number of attempted samples,
#: because some samples need the host and cannot be captured.
LIMIT = 2
TRIED = 8


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    return (
        differentiable_dtypes(target, subject, ("float32", "complex64"))
        if _captured_calls.can_capture(target, subject)
        else []
    )


@register(
    "graph_gradient",
    subject_kind="operator",
    statement=("With forward and backward in one graph, a replay gives the gradients of the current data."),
    documentation="notes/cuda.html",
    level="training",
    applies=dtypes_to_check,
    capabilities=("graphs", "autograd"),
    modes=("graph",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Capture forward and backward, replay them on two sets of data, and compare with the CPU's gradients."""
    replays = _captured_calls.GraphReplays(target, subject, recorder)
    tried = 0
    dtype = dtype_under_test(recorder)
    for sample, _ in _gradients.differentiable_samples(target, subject, recorder, TRIED):
        reference = _gradients.first_derivatives_on_cpu(subject, recorder, sample)
        if not reference.ok or not reference.value.gradients or tried == LIMIT:
            continue
        tried += 1
        device = target.torch_device
        # Cotangents are copied before the capture: a copy from the host cannot be part of a graph.
        cotangents = [cotangent.to(device, copy=True) for cotangent in reference.value.cotangents]
        function = function_with_backward(subject, cotangents)
        label = "capturing forward and backward"
        capture = replays.capture(sample, function, grad=True, label=label, cpu_call=_cpu_derivative)
        if capture is None:
            tried -= replays.refused  # do not count a refused sample: other samples may not need the host
            continue
        copy, graph = capture
        _replay_and_compare(
            target, subject, recorder, replays, sample, graph, copy, cotangents, reference.value
        )
        other_sample = first_replay_sample(subject, dtype, sample, requires_grad=True)
        if other_sample is None:
            recorder.note(f"no other data can be made for sample {sample.index}")
            continue
        other_reference = _gradients.first_derivatives_on_cpu(subject, recorder, other_sample)
        if other_reference.ok and replays.copy_into_captured_inputs(copy, other_sample):
            _replay_and_compare(
                target,
                subject,
                recorder,
                replays,
                other_sample,
                graph,
                copy,
                cotangents,
                other_reference.value,
            )
    if tried:
        replays.require_evidence()


def function_with_backward(subject: Subject, cotangents: list[torch.Tensor]) -> Callable[[Sample], Any]:
    """Return a function of a sample on the device that returns (differentiable outputs, gradients)."""

    def run_forward_and_backward(sample: Sample) -> Any:
        inputs = _gradients.differentiable_inputs(sample)
        outputs = _gradients.differentiable_outputs(
            subject.info, _compiled_calls.unseeded_operator(subject), sample
        )
        if len(outputs) != len(cotangents) or not inputs:
            return outputs, []
        return outputs, list(torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True))

    return run_forward_and_backward


def _cpu_derivative(info: Any, sample: Sample) -> Any:
    return _gradients.differentiate(info, info.op, sample)


def _replay_and_compare(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    replays: _captured_calls.GraphReplays,
    sample: Sample,
    graph: Any,
    copy: Sample,
    cotangents: list[torch.Tensor],
    expected: _gradients.Derivative,
) -> None:
    outputs, gradients = graph.value
    label = "the captured differentiable result"
    if not compare_leaf_counts(recorder, outputs, expected.outputs, label=label, sample=sample.index):
        return
    computed_gradients = [gradient for gradient in gradients if gradient is not None]
    gradients_overwritten = replays.overwrite_results(copy, computed_gradients, cotangents)
    # A gradient that is the cotangent itself cannot be overwritten. Then only the results of the forward pass
    # prove that the graph ran.
    overwritten_outputs = [
        (t, to_host_tensor(t).clone()) for t in outputs if replays.overwrite_results(copy, t, cotangents)
    ]
    if not replays.replay(sample, graph, "replaying forward and backward"):
        return
    outputs_restored = any(not torch.equal(to_host_tensor(t), was) for t, was in overwritten_outputs)
    label = "the replayed gradient"
    agrees = _gradient_tolerance.compare_with_float64(
        target, recorder, subject, sample, gradients, expected, label=label
    )
    replays.record_proof(agrees and (gradients_overwritten or outputs_restored))
