"""A replayed random operator draws anew."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.framework import trees
from conformance.framework.compare import fact, on_host
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.operators import _graph_replay, compile_random
from conformance.properties.shared.distribution_tests import (
    CONTINUOUS,
    COUNT,
    DISCRETE,
    generators_restored,
    kolmogorov_smirnov,
    moments,
)
from conformance.properties.shared.dtypes import dtype_under_test, first_dtypes
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if not _graph_replay.can_graph(target, subject):
        return []
    if subject.name not in CONTINUOUS and subject.name not in DISCRETE:
        return []
    return first_dtypes(target, subject, ("float32",))


@register(
    "graph_random",
    subject_kind="operator",
    statement=(
        "Each replay of a random operator draws other values of the promised distribution; after the same "
        "seed the same ones come."
    ),
    documentation="notes/cuda.html",
    level="core",
    applies=applies,
    capabilities=("graphs", "random"),
    modes=("graph",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    with generators_restored():
        _check(target, subject, recorder)


def _check(target: Target, subject: Subject, recorder: Recorder) -> None:
    replays = _graph_replay.Replays(target, subject, recorder)
    draw = compile_random.drawing(subject)
    sample = Sample(0, torch.zeros(COUNT, dtype=dtype_under_test(recorder)))
    capture = replays.capture(sample, lambda copy: draw(copy.input), label="capturing the random operator")
    if capture is None:
        return
    copy, graph = capture
    values = []
    for seed in (11, None, 11, 12):
        if seed is not None:
            torch.manual_seed(seed)
        if not replays.give(copy, sample) or not replays.replay(sample, graph):
            return
        values.append(on_host(trees.tensors(graph.value)[0]).clone())
    first, second, again, reseeded = values
    fact(recorder, torch.equal(first, again), Kind.STATE, "replayed after the same seed, other values come.")
    message = "a second replay gives the values of the first."
    replays.proved(fact(recorder, not torch.equal(first, second), Kind.STATE, message))
    message = "replayed after another seed, the same values come."
    fact(recorder, not torch.equal(first, reseeded), Kind.STATE, message)
    drawn = second.to(torch.float64)
    if subject.name in CONTINUOUS:
        kolmogorov_smirnov(recorder, drawn, CONTINUOUS[subject.name][1])
    else:
        moments(recorder, drawn, *DISCRETE[subject.name][1:])
    if not recorder.failed:
        replays.settle()
