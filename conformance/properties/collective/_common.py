"""What the properties of collectives share: the program that runs one, and the comparison of its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from conformance.checking.compare import compare_values
from conformance.checking.recorder import Recorder
from conformance.checking.tolerances import EXACT, Tolerance, unit_of
from conformance.distributed import team
from conformance.distributed.calls import Call, Shape, Tensors
from conformance.distributed.collectives import LARGEST, Collective, find, numbers
from conformance.distributed.programs import Rank, program
from conformance.model.verdicts import Kind
from conformance.model.vocabulary import ANY_DTYPE
from conformance.subjects.databases import Subject
from conformance.target.target import Target

#: Odd sizes, one element, none, and more than fits a small message.
SHAPES: tuple[Shape, ...] = ((7,), (1,), (3, 5), (0,), (5, 0, 2), (129, 33), ())


def any_dtype(target: Target, subject: Subject) -> Sequence[str]:
    """For properties with one result, in float32, that do not depend on what reduces."""
    return [ANY_DTYPE] if subject.info.reduction in ("", "sum") else []


def shapes_of(one: Collective) -> list[Shape]:
    """The shapes that a collective takes."""
    return [shape for shape in SHAPES if one.scalars or shape]


def given_by(one: Collective, me: int, size: int, shape: Shape, dtype: torch.dtype, salt: int = 0) -> Tensors:
    """What a rank gives, on the CPU."""
    return [
        numbers(me + salt, part, dtype, place, one.reduction)
        for place, part in enumerate(one.given(me, size, shape))
    ]


def host(tensors: Sequence[torch.Tensor]) -> Tensors:
    """Copies on the CPU."""
    return [tensor.detach().cpu().clone() for tensor in tensors]


@program
def collect(rank: Rank, name: str, shapes: Sequence[Shape], dtype: str, root: int) -> list[Any]:
    """For each shape the results of a collective, and what it has made of the given tensors."""
    import torch.distributed as dist

    one = find(name)
    found = []
    for shape in shapes:
        tensors = [
            t.to(rank.device) for t in given_by(one, rank.rank, rank.size, shape, getattr(torch, dtype))
        ]
        call = Call(range(rank.size), rank.rank, root, one.reduction)
        results = one.issue(dist, call, tensors).wait()
        found.append((host(results), host(tensors)))
    return found


def compare(
    recorder: Recorder,
    one: Collective,
    actual: Sequence[torch.Tensor],
    due: Sequence[torch.Tensor],
    what: str,
) -> bool:
    """Hold what a rank has against what it should have: exactly, but for averages."""
    recorder.compared(1)
    if len(actual) != len(due):
        recorder.fail(Kind.METADATA, f"{what}: {len(actual)} tensors where {len(due)} are due.")
        return False
    good = True
    for place, (got, want) in enumerate(zip(actual, due, strict=True)):
        words = what if len(due) == 1 else f"{what}, tensor {place}"
        if got.dtype != want.dtype:
            recorder.fail(Kind.DTYPE, f"{words}: the dtype is {got.dtype} where {want.dtype} is due.")
            good = False
            continue
        unit = 2 * unit_of(want.dtype) if one.reduction == "avg" else 0.0
        # A mean may be made of parts that are divided first, each of at most the largest given number.
        tolerance = Tolerance(unit, unit * LARGEST) if unit else EXACT
        if want.is_floating_point() and want.itemsize == 1:
            got, want = got.float(), want.float()
        good &= compare_values(recorder, got, want, tolerance=tolerance, what=words)
    return good


def compare_ranks(
    recorder: Recorder,
    one: Collective,
    actual: Sequence[Sequence[torch.Tensor]],
    given: list[Tensors],
    root: int,
    what: str,
) -> bool:
    """Hold the results of all ranks of a group against what is due for what they gave."""
    due = one.due(given, root, one.reduction)
    return all(
        compare(recorder, one, mine, wanted, f"{what}, on rank {me} of {len(given)}")
        for me, (mine, wanted) in enumerate(zip(actual, due, strict=True))
    )


def still_works(target: Target, recorder: Recorder, after: str) -> bool:
    """Whether the group still sums up after something that was refused."""
    one = find("all_reduce")
    found = team.values(
        target,
        recorder,
        collect,
        what=f"all_reduce after {after}",
        name=one.name,
        shapes=[(7,)],
        dtype="float32",
        root=0,
    )
    if found is None:
        return False
    given = [given_by(one, me, len(found), (7,), torch.float32) for me in range(len(found))]
    actual = [answer[0][0] for answer in found]
    return compare_ranks(recorder, one, actual, given, 0, f"all_reduce after {after}")
