"""Forward and backward captured in one graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.framework.compare import on_host, same_nesting
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.oracle.replay_data import renewed
from conformance.properties.operators import _compile_checks, _gradient_tolerance, _gradients, _graph_replay
from conformance.properties.shared.dtypes import differentiable, dtype_under_test
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Samples that are captured, and those that are tried for it: some need the host.
LIMIT = 2
TRIED = 8


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return (
        differentiable(target, subject, ("float32", "complex64"))
        if _graph_replay.can_graph(target, subject)
        else []
    )


@register(
    "graph_gradient",
    subject_kind="operator",
    statement=(
        "With forward and backward in one graph, a replay gives the gradients of the data given by then."
    ),
    documentation="notes/cuda.html",
    level="training",
    applies=applies,
    capabilities=("graphs", "autograd"),
    modes=("graph",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    replays = _graph_replay.Replays(target, subject, recorder)
    tried = 0
    dtype = dtype_under_test(recorder)
    for sample, _ in _gradients.cases(target, subject, recorder, TRIED):
        reference = _gradients.reference(subject, recorder, sample)
        if not reference.ok or not reference.value.gradients or tried == LIMIT:
            continue
        tried += 1
        device = target.torch_device
        # Cotangents are on the device before: a copy from the host cannot be part of a graph.
        cotangents = [cotangent.to(device, copy=True) for cotangent in reference.value.cotangents]
        function = forward_and_backward(subject, cotangents)
        what = "capturing forward and backward"
        capture = replays.capture(sample, function, grad=True, label=what, reference=_reference)
        if capture is None:
            tried -= replays.refused  # another form of the call may be free of the host
            continue
        copy, graph = capture
        _round(target, subject, recorder, replays, sample, graph, copy, cotangents, reference.value)
        fresh = renewed(subject, dtype, sample, requires_grad=True)
        if fresh is None:
            recorder.note(f"no other data can be made for sample {sample.index}")
            continue
        again = _gradients.reference(subject, recorder, fresh)
        if again.ok and replays.give(copy, fresh):
            _round(target, subject, recorder, replays, fresh, graph, copy, cotangents, again.value)
    if tried:
        replays.settle()


def forward_and_backward(subject: Subject, cotangents: list[torch.Tensor]) -> Callable[[Sample], Any]:
    """Return a function of a sample on the device: (differentiable outputs, gradients)."""

    def call(sample: Sample) -> Any:
        inputs = _gradients.inputs_of(sample)
        outputs = _gradients.outputs_of(subject.info, _compile_checks.unseeded_operator(subject), sample)
        if len(outputs) != len(cotangents) or not inputs:
            return outputs, []
        return outputs, list(torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True))

    return call


def _reference(info: Any, sample: Sample) -> Any:
    return _gradients.differentiate(info, info.op, sample)


def _round(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    replays: _graph_replay.Replays,
    sample: Sample,
    graph: Any,
    copy: Sample,
    cotangents: list[torch.Tensor],
    expected: _gradients.Derivative,
) -> None:
    outputs, gradients = graph.value
    what = "the captured differentiable result"
    if not same_nesting(recorder, outputs, expected.outputs, label=what, sample=sample.index):
        return
    given = [gradient for gradient in gradients if gradient is not None]
    spoilt = replays.spoil(copy, given, cotangents)
    # If a gradient is the cotangent itself, only the forward's results show that anything ran.
    lost = [(t, on_host(t).clone()) for t in outputs if replays.spoil(copy, t, cotangents)]
    if not replays.replay(sample, graph, "replaying forward and backward"):
        return
    back = any(not torch.equal(on_host(t), was) for t, was in lost)
    what = "the replayed gradient"
    good = _gradient_tolerance.judge(target, recorder, subject, sample, gradients, expected, label=what)
    replays.proved(good and (spoilt or back))
