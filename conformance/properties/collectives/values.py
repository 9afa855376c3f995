"""Check that collectives compute correct results and do not change their inputs."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.distributed import worker_ranks
from conformance.distributed.collectives import Collective
from conformance.framework.compare import compare_exact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.collectives._collective_checks import (
    accepted_shapes,
    compare_results_of_ranks,
    inputs_of_rank,
    run_collective_for_shapes,
)
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def _declared_dtypes(target: Target, subject: Subject) -> Sequence[str]:
    return [dtype for dtype in subject.info.dtypes if target.declares(dtype)]


@register(
    "collective-value",
    subject_kind="collective",
    statement=(
        "Each rank has the arithmetically correct result, for odd sizes, one element, no element and no "
        "dimension. Tensors that are only inputs do not change."
    ),
    documentation="distributed.html",
    level="core",
    applies=_declared_dtypes,
    modes=("distributed",),
    runs=False,
    smoke=True,
    capabilities=("distributed",),
)
def check_collective_values(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Run the collective with every shape in one rank program, with the last rank as root. Compare the
    results and check that inputs do not change.
    """
    collective: Collective = subject.info
    dtype = getattr(torch, recorder.id.dtype)
    shapes, size = accepted_shapes(collective), worker_ranks.world_size()
    replies = worker_ranks.values_of_ranks(
        target,
        recorder,
        run_collective_for_shapes,
        label=collective.name,
        name=collective.name,
        shapes=shapes,
        dtype=recorder.id.dtype,
        root=size - 1,
    )
    if replies is None:
        return
    recorder.samples(len(shapes), len(shapes))
    for shape_index, shape in enumerate(shapes):
        inputs = [inputs_of_rank(collective, rank, size, shape, dtype) for rank in range(size)]
        actual = [reply[shape_index][0] for reply in replies]
        compare_results_of_ranks(
            recorder, collective, actual, inputs, size - 1, f"{collective.name} of shape {list(shape)}"
        )
        if collective.in_place:
            continue
        for rank, reply in enumerate(replies):
            for actual_tensor, expected_tensor in zip(reply[shape_index][1], inputs[rank], strict=True):
                if expected_tensor.is_floating_point() and expected_tensor.itemsize == 1:
                    actual_tensor, expected_tensor = actual_tensor.float(), expected_tensor.float()
                compare_exact(
                    recorder,
                    actual_tensor,
                    expected_tensor,
                    label=f"the input of rank {rank} after {collective.name}",
                )
