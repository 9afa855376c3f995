"""Register properties of several ranks, and run rank programs for their checks."""

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

#: Default tolerance of :meth:`Bench.close`: units of the largest element of a tensor by which training steps
#: may differ that add in a different order.
ROUNDINGS = 64.0


@program
def import_module(rank: Rank, module: str) -> None:
    """Import the module that defines a later rank program."""
    importlib.import_module(module)


class Bench:
    """The object through which a check runs rank programs and records comparisons."""

    def __init__(self, target: Target, recorder: Recorder) -> None:
        self.target = target
        self.recorder = recorder
        dtype_name = recorder.id.dtype
        self.dtype = "float32" if dtype_name == ANY_DTYPE else dtype_name
        self.size = worker_ranks.size()

    def values(self, program: Callable[..., Any], **arguments: Any) -> list[Any] | None:
        """Return the value of a rank program on each rank.

        If a rank returns no value, record a failure and return None.
        """
        label = program.__name__.replace("_", " ")
        return worker_ranks.values(self.target, self.recorder, program, label=label, **arguments)

    def replies(self, program: Callable[..., Any], **arguments: Any) -> list[RankReply] | None:
        """Return the replies of a rank program that may fail, and close the ranks afterwards.

        Its time limit does not include imports, which a first program makes. If an import fails, record a
        failure and return None.
        """
        if (
            worker_ranks.values(
                self.target, self.recorder, import_module, label="a world", module=program.__module__
            )
            is None
        ):
            return None
        try:
            return worker_ranks.world(self.target).run(program, **arguments)
        finally:
            worker_ranks.world(self.target).close()

    def fact(self, holds: bool, message: str, kind: Kind = Kind.STATE) -> bool:
        """Record one comparison, and a failure if ``holds`` is False. Return ``holds``."""
        return fact(self.recorder, holds, kind, message)

    def same(self, label: str, actual: Any, expected: Any) -> bool:
        """Check that texts, numbers or containers of them are equal. Return whether they are."""
        return self.fact(actual == expected, f"{label} is {actual!r}, expected {expected!r}.", Kind.VALUE)

    def close(
        self,
        label: str,
        actual: dict[str, torch.Tensor],
        expected: dict[str, torch.Tensor],
        *,
        roundings: float = 0.0,
    ) -> bool:
        """Check that tensors by name agree up to the order of sums. Return whether they do.

        ``roundings`` (default :data:`ROUNDINGS`) is the tolerance in units of each tensor's largest element,
        in its dtype.
        """
        if not self.same(f"the names in {label}", sorted(actual), sorted(expected)):
            return False
        equal = True
        for name, expected_tensor in expected.items():
            actual_tensor = actual[name]
            unit = (
                (roundings or ROUNDINGS) * unit_of(expected_tensor.dtype)
                if expected_tensor.is_floating_point()
                else 0.0
            )
            largest = float(expected_tensor.abs().max()) if expected_tensor.numel() and unit else 0.0
            tolerance = Tolerance(unit, unit * largest)
            equal &= self.fact(
                actual_tensor.dtype == expected_tensor.dtype,
                f"{name} in {label} has dtype {actual_tensor.dtype}, not {expected_tensor.dtype}.",
                Kind.DTYPE,
            )
            equal &= compare_values(
                self.recorder, actual_tensor, expected_tensor, tolerance=tolerance, label=f"{name} in {label}"
            )
        return equal


def multi_rank_property(
    area: str,
    *,
    level: str = "full",
    dtypes: Sequence[str] = (ANY_DTYPE,),
    capabilities: Sequence[str] = (),
    accelerators: bool = False,
) -> Callable[[Callable[[Bench], None]], Callable[[Bench], None]]:
    """Register a check of several ranks as a property of an area.

    The property's name is the name of the function with dashes. Its requirement is the first paragraph of the
    docstring. If ``accelerators`` is set, the property does not apply to the CPU. Raises ValueError for an
    unknown area.
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
