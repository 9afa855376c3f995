"""A captured graph keeps to the memory of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.framework.compare import compare_exact, on_host
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.oracle.reference import reference_for
from conformance.oracle.replay_data import memory
from conformance.properties.operators import _compile_checks, _graph_replay
from conformance.properties.operators._transformed_samples import ABOUT_MEMORY, cpu_accepts, transformed
from conformance.properties.operators.compile_views import awkward
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import dtype_under_test, first_dtypes
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target

LIMIT = 3


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if not _graph_replay.can_graph(target, subject) or subject.name in ABOUT_MEMORY:
        return []
    if _compile_checks.is_seeded(subject):
        return []  # some write to their input, which must not change here
    return first_dtypes(target, subject, ("float32", "int64", "complex64", "bool"), 2)


@register(
    "graph_views",
    subject_kind="operator",
    statement=(
        "Captured on inputs that are strided views, a call follows what the views hold and leaves the memory "
        "between their elements alone; one tensor given twice stays one."
    ),
    documentation="notes/cuda.html",
    level="core",
    applies=applies,
    capabilities=("graphs", "views"),
    modes=("graph",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    replays = _graph_replay.Replays(target, subject, recorder)
    tried = 0
    for sample, want in _graph_replay.cases(target, subject, recorder, LIMIT):
        derived = transformed(sample, awkward)
        if derived is None or not cpu_accepts(find("operator", subject.name).info.op, derived):
            continue
        tried += 1
        _strided(target, subject, recorder, replays, sample, derived, want)
    tried += _twice(target, subject, recorder, replays)
    if tried:
        replays.settle()
    else:
        recorder.note("the operator takes no tensor that could have another layout")
        recorder.compared(1)


def _strided(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    replays: _graph_replay.Replays,
    sample: Sample,
    derived: Sample,
    want: object,
) -> None:
    op = _compile_checks.unseeded_operator(subject)
    capture = replays.capture(
        sample, lambda copy: copy.call(op), given=derived, label="capturing strided inputs"
    )
    if capture is None:
        return
    copy, graph = capture
    inputs = [t for t in copy.tensors() if t.layout is torch.strided]
    fresh = replays.fresh_data(sample)
    for data in ((sample, want), fresh):
        if data is None or not replays.give(copy, data[0]):
            continue
        before = [_between(t) for t in inputs]
        spoilt = replays.spoil(copy, graph.value)
        if not replays.replay(sample, graph):
            continue
        what = "the result replayed on strided inputs"
        good = compare_outputs(target, recorder, subject, data[0], graph.value, data[1], label=what)  # type: ignore[arg-type]
        replays.proved(good and (spoilt or data is fresh))
        for was, tensor in zip(before, inputs, strict=True):
            what = "the memory between the elements of an input after replay"
            compare_exact(recorder, _between(tensor), was, label=what, sample=sample.index)


def calling(op: Callable[..., Any]) -> Callable[[Sample], Any]:
    """Return ``op`` as a function of a sample."""
    return lambda sample: sample.call(op)


def _between(tensor: torch.Tensor) -> torch.Tensor:
    """Return, on the host, the bytes of a tensor's memory that belong to no element of it."""
    rows = on_host(memory(tensor)).reshape(-1, tensor.itemsize)
    unused = torch.ones(rows.shape[0], dtype=torch.bool)
    unused.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).fill_(False)
    return rows[unused]


def _twice(target: Target, subject: Subject, recorder: Recorder, replays: _graph_replay.Replays) -> int:
    """Check a binary call with its first argument given twice; return 1 if there was one to try."""
    for sample, _ in _graph_replay.cases(target, subject, recorder, 1):
        second = sample.args[0] if sample.args else None
        given = sample.input
        if not isinstance(second, torch.Tensor) or not isinstance(given, torch.Tensor):
            return 0
        if given.shape != second.shape or given.dtype != second.dtype or not given.numel():
            return 0
        double = sample.replace(args=(given, *sample.args[1:]))
        want = reference_for(subject, dtype_under_test(recorder), double)
        if not want.ok or not cpu_accepts(find("operator", subject.name).info.op, double):
            return 0
        op = _compile_checks.unseeded_operator(subject)
        capture = replays.capture(double, calling(op), label="capturing one tensor given twice")
        if capture is None:
            return 1
        copy, graph = capture
        spoilt = replays.spoil(copy, graph.value)
        if replays.replay(double, graph):
            what = "the replayed result of one tensor given twice"
            good = compare_outputs(target, recorder, subject, double, graph.value, want, label=what)
            replays.proved(good and spoilt)
        return 1
    return 0
