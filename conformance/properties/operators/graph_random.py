"""Property: a captured random operator draws new values at each replay."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.framework import trees
from conformance.framework.compare import fact, to_host_tensor
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.operators import _captured_calls, compile_random
from conformance.properties.shared.distribution_tests import (
    CONTINUOUS,
    DISCRETE,
    DRAWN_COUNT,
    check_kolmogorov_smirnov,
    check_moments,
    restoring_generators,
)
from conformance.properties.shared.dtypes import dtype_under_test, first_dtypes
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if not _captured_calls.can_capture(target, subject):
        return []
    if subject.name not in CONTINUOUS and subject.name not in DISCRETE:
        return []
    return first_dtypes(target, subject, ("float32",))


@register(
    "graph_random",
    subject_kind="operator",
    statement=(
        "Each replay of a random operator draws new values of the specified distribution; after the same "
        "seed, it draws the same values."
    ),
    documentation="notes/cuda.html",
    level="core",
    applies=dtypes_to_check,
    capabilities=("graphs", "random"),
    modes=("graph",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Capture the random operator, replay it from fixed seeds, and test repeatability and distribution."""
    with restoring_generators():
        _check_replayed_draws(target, subject, recorder)


def _check_replayed_draws(target: Target, subject: Subject, recorder: Recorder) -> None:
    replays = _captured_calls.GraphReplays(target, subject, recorder)
    draw = compile_random.drawing_function(subject)
    sample = Sample(0, torch.zeros(DRAWN_COUNT, dtype=dtype_under_test(recorder)))
    capture = replays.capture(sample, lambda copy: draw(copy.input), label="capturing the random operator")
    if capture is None:
        return
    copy, graph = capture
    values = []
    for seed in (11, None, 11, 12):
        if seed is not None:
            target.manual_seed(seed)
        if not replays.copy_into_captured_inputs(copy, sample) or not replays.replay(sample, graph):
            return
        values.append(to_host_tensor(trees.tensors(graph.value)[0]).clone())
    first, second, repeated, reseeded = values
    message = "a replay after the same seed gives other values."
    fact(recorder, torch.equal(first, repeated), Kind.STATE, message)
    message = "a second replay gives the values of the first."
    replays.record_proof(fact(recorder, not torch.equal(first, second), Kind.STATE, message))
    message = "a replay after another seed gives the same values."
    fact(recorder, not torch.equal(first, reseeded), Kind.STATE, message)
    drawn = second.to(torch.float64)
    if subject.name in CONTINUOUS:
        check_kolmogorov_smirnov(recorder, drawn, CONTINUOUS[subject.name][1])
    else:
        check_moments(recorder, drawn, *DISCRETE[subject.name][1:])
    if not recorder.failed:
        replays.require_evidence()
