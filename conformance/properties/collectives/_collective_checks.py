"""The shared parts of the properties of collectives: the program that runs one, and the comparison of
results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from conformance.distributed import worker_ranks
from conformance.distributed.collective_call import CollectiveCall, Shape, Tensors
from conformance.distributed.collectives import LARGEST, Collective, find, numbers
from conformance.distributed.rank_programs import Rank, program
from conformance.framework.compare import compare_values
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import EXACT, Tolerance, unit_of
from conformance.model.verdicts import Kind
from conformance.model.vocabulary import ANY_DTYPE
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Odd sizes, one element, none, and more than fits a small message.
SHAPES: tuple[Shape, ...] = ((7,), (1,), (3, 5), (0,), (5, 0, 2), (129, 33), ())


def any_dtype(target: Target, subject: Subject) -> Sequence[str]:
    """Return one result, in float32, for properties that do not depend on what reduces."""
    return [ANY_DTYPE] if subject.info.reduction in ("", "sum") else []


def shapes_of(collective: Collective) -> list[Shape]:
    """Return the shapes that a collective takes."""
    return [shape for shape in SHAPES if collective.scalars or shape]


def given_by(
    collective: Collective, me: int, size: int, shape: Shape, dtype: torch.dtype, salt: int = 0
) -> Tensors:
    """Return the inputs of a rank, on the CPU."""
    return [
        numbers(me + salt, part, dtype, place, collective.reduction)
        for place, part in enumerate(collective.given(me, size, shape))
    ]


def host(tensors: Sequence[torch.Tensor]) -> Tensors:
    """Return copies on the CPU."""
    return [tensor.detach().cpu().clone() for tensor in tensors]


@program
def collect(rank: Rank, name: str, shapes: Sequence[Shape], dtype: str, root: int) -> list[Any]:
    """Return for each shape the results of a collective and its inputs afterwards, all on the CPU."""
    import torch.distributed as dist

    collective = find(name)
    results = []
    for shape in shapes:
        tensors = [
            t.to(rank.device)
            for t in given_by(collective, rank.rank, rank.size, shape, getattr(torch, dtype))
        ]
        call = CollectiveCall(range(rank.size), rank.rank, root, collective.reduction)
        outputs = collective.issue(dist, call, tensors).wait()
        results.append((host(outputs), host(tensors)))
    return results


def compare(
    recorder: Recorder,
    collective: Collective,
    actual: Sequence[torch.Tensor],
    due: Sequence[torch.Tensor],
    what: str,
) -> bool:
    """Compare the results of a rank with those that are due: exactly, but for averages."""
    recorder.compared(1)
    if len(actual) != len(due):
        recorder.fail(Kind.METADATA, f"{what}: {len(actual)} tensors, expected {len(due)}.")
        return False
    good = True
    for place, (got, want) in enumerate(zip(actual, due, strict=True)):
        words = what if len(due) == 1 else f"{what}, tensor {place}"
        if got.dtype != want.dtype:
            recorder.fail(Kind.DTYPE, f"{words}: the dtype is {got.dtype}, expected {want.dtype}.")
            good = False
            continue
        unit = 2 * unit_of(want.dtype) if collective.reduction == "avg" else 0.0
        # A mean may be made of parts that are divided first, each of at most the largest given number.
        tolerance = Tolerance(unit, unit * LARGEST) if unit else EXACT
        if want.is_floating_point() and want.itemsize == 1:
            got, want = got.float(), want.float()
        good &= compare_values(recorder, got, want, tolerance=tolerance, what=words)
    return good


def compare_ranks(
    recorder: Recorder,
    collective: Collective,
    actual: Sequence[Sequence[torch.Tensor]],
    given: list[Tensors],
    root: int,
    what: str,
) -> bool:
    """Compare the results of all ranks of a group with those that are due for their inputs."""
    due = collective.due(given, root, collective.reduction)
    return all(
        compare(recorder, collective, results, expected, f"{what}, on rank {me} of {len(given)}")
        for me, (results, expected) in enumerate(zip(actual, due, strict=True))
    )


def still_works(target: Target, recorder: Recorder, after: str) -> bool:
    """Return whether the group still sums up after a refusal."""
    collective = find("all_reduce")
    answers = worker_ranks.values(
        target,
        recorder,
        collect,
        what=f"all_reduce after {after}",
        name=collective.name,
        shapes=[(7,)],
        dtype="float32",
        root=0,
    )
    if answers is None:
        return False
    given = [given_by(collective, me, len(answers), (7,), torch.float32) for me in range(len(answers))]
    actual = [answer[0][0] for answer in answers]
    return compare_ranks(recorder, collective, actual, given, 0, f"all_reduce after {after}")
