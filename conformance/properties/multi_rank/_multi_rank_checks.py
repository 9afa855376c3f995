"""The shared parts of the properties of several ranks: their registration, and the bench that they use."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.distributed import worker_ranks
from conformance.distributed.rank_programs import Rank, program
from conformance.distributed.rank_replies import RankReply
from conformance.framework.compare import compare_values, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import Tolerance, unit_of
from conformance.model.verdicts import Kind
from conformance.model.vocabulary import ANY_DTYPE
from conformance.subjects import areas
from conformance.target.target import Target

#: Units in which training steps that sum in another order may differ, of the largest element of a tensor.
ROUNDINGS = 64.0


@program
def imports(rank: Rank, module: str) -> None:
    """Import the module of a later program."""
    importlib.import_module(module)


class Bench:
    """The ranks of a world on one side, the recorder on the other."""

    def __init__(self, target: Target, recorder: Recorder) -> None:
        self.target = target
        self.recorder = recorder
        word = recorder.id.dtype
        self.dtype = "float32" if word == ANY_DTYPE else word
        self.size = worker_ranks.size()

    def values(self, program: Callable[..., Any], **arguments: Any) -> list[Any] | None:
        """Return what a program returns on each rank; None, and a failure, if one of them has no value."""
        what = program.__name__.replace("_", " ")
        return worker_ranks.values(self.target, self.recorder, program, what=what, **arguments)

    def answers(self, program: Callable[..., Any], **arguments: Any) -> list[RankReply] | None:
        """Return all answers of a program that may end badly; the world is not used again.

        Its seconds do not count what ranks import before it. None, and a failure, if the import fails.
        """
        if (
            worker_ranks.values(
                self.target, self.recorder, imports, what="a world", module=program.__module__
            )
            is None
        ):
            return None
        try:
            return worker_ranks.world(self.target).run(program, **arguments)
        finally:
            worker_ranks.world(self.target).close()

    def fact(self, holds: bool, message: str, kind: Kind = Kind.STATE) -> bool:
        """Count one fact, and a failure if it does not hold; return whether it holds."""
        return fact(self.recorder, holds, kind, message)

    def same(self, what: str, actual: Any, expected: Any) -> bool:
        """Compare words, numbers or containers of them, which must be equal."""
        return self.fact(actual == expected, f"{what} is {actual!r}, expected {expected!r}.", Kind.VALUE)

    def close(
        self,
        what: str,
        actual: dict[str, torch.Tensor],
        expected: dict[str, torch.Tensor],
        *,
        roundings: float = 0.0,
    ) -> bool:
        """Compare tensors by name, which must agree but for the order of sums.

        ``roundings`` (default :data:`ROUNDINGS`) are units of each tensor's largest element, in its dtype.
        """
        if not self.same(f"the names in {what}", sorted(actual), sorted(expected)):
            return False
        good = True
        for name, want in expected.items():
            got = actual[name]
            unit = (roundings or ROUNDINGS) * unit_of(want.dtype) if want.is_floating_point() else 0.0
            largest = float(want.abs().max()) if want.numel() and unit else 0.0
            tolerance = Tolerance(unit, unit * largest)
            good &= self.fact(
                got.dtype == want.dtype,
                f"{name} in {what} has dtype {got.dtype}, not {want.dtype}.",
                Kind.DTYPE,
            )
            good &= compare_values(self.recorder, got, want, tolerance=tolerance, what=f"{name} in {what}")
        return good


def together(
    area: str,
    *,
    level: str = "full",
    dtypes: Sequence[str] = (ANY_DTYPE,),
    capabilities: Sequence[str] = (),
    accelerators: bool = False,
) -> Callable[[Callable[[Bench], None]], Callable[[Bench], None]]:
    """Register a check of several ranks as the property of an area.

    Its name is that of the function with dashes, its statement the first paragraph of the docstring.
    ``accelerators``: it says nothing about the CPU. Raises ValueError for an unknown area.
    """
    if area not in areas.WORLD:
        raise ValueError(
            f"area {area!r} is not one of {', '.join(areas.WORLD)}; add it to conformance/subjects/areas.py"
        )

    def wrap(check: Callable[[Bench], None]) -> Callable[[Bench], None]:
        statement = " ".join((inspect.getdoc(check) or "").partition("\n\n")[0].split())

        def applies(target: Target, subject: Any) -> Sequence[str]:
            if subject.name != area or (accelerators and target.is_cpu):
                return ()
            return [dtype for dtype in dtypes if dtype == ANY_DTYPE or target.declares(dtype)]

        register(
            check.__name__.replace("_", "-"),
            subject_kind="world",
            statement=statement,
            level=level,
            applies=applies,
            modes=("distributed",),
            runs=False,
            capabilities=("distributed", *capabilities),
            documentation=areas.WORLD[area].documentation,
        )(lambda target, subject, recorder: check(Bench(target, recorder)))
        return check

    return wrap
