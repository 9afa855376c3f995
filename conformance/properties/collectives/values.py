"""Results of collectives."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.distributed import worker_ranks
from conformance.distributed.collectives import Collective
from conformance.framework.compare import compare_exact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.collectives._collective_checks import collect, compare_ranks, given_by, shapes_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def _declared(target: Target, subject: Subject) -> Sequence[str]:
    return [dtype for dtype in subject.info.dtypes if target.declares(dtype)]


@register(
    "collective-value",
    subject_kind="collective",
    statement="Each rank has what arithmetic says, for odd sizes, one element, none and no dimension; what "
    "is only given stays as it is.",
    documentation="distributed.html",
    level="core",
    applies=_declared,
    modes=("distributed",),
    runs=False,
    smoke=True,
    capabilities=("distributed",),
)
def collective_value(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check every shape once with the last rank as root, in one program."""
    collective: Collective = subject.info
    dtype = getattr(torch, recorder.id.dtype)
    shapes, size = shapes_of(collective), worker_ranks.size()
    answers = worker_ranks.values(
        target,
        recorder,
        collect,
        what=collective.name,
        name=collective.name,
        shapes=shapes,
        dtype=recorder.id.dtype,
        root=size - 1,
    )
    if answers is None:
        return
    recorder.samples(len(shapes), len(shapes))
    for place, shape in enumerate(shapes):
        given = [given_by(collective, me, size, shape, dtype) for me in range(size)]
        actual = [answer[place][0] for answer in answers]
        compare_ranks(
            recorder, collective, actual, given, size - 1, f"{collective.name} of shape {list(shape)}"
        )
        if collective.in_place:
            continue
        for me, answer in enumerate(answers):
            for got, want in zip(answer[place][1], given[me], strict=True):
                if want.is_floating_point() and want.itemsize == 1:
                    got, want = got.float(), want.float()
                compare_exact(recorder, got, want, what=f"what rank {me} gave to {collective.name}, after it")
