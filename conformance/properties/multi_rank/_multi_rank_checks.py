"""Register properties that need several ranks, and run rank programs for their checks."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.distributed import worker_ranks
from conformance.distributed.rank_programs import Rank, program
from conformance.distributed.rank_replies import RankReply
from conformance.framework.compare import compare_values, fact
from conformance.framework.property import register, requirement_of
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import Tolerance, unit_of
from conformance.model.verdicts import Kind
from conformance.model.vocabulary import ANY_DTYPE
from conformance.subjects import areas
from conformance.target.target import Target

#: Default tolerance of :meth:`MultiRankChecker.check_close`, in rounding units of a tensor's largest element.
#: It allows the differences between training steps that add gradients in a different order.
ROUNDINGS = 64.0


@program
def import_module(rank: Rank, module: str) -> None:
    """Import the module that defines a rank program, before the program itself runs."""
    importlib.import_module(module)


class MultiRankChecker:
    """The object through which a check runs rank programs and records comparisons."""

    def __init__(self, target: Target, recorder: Recorder) -> None:
        self.target = target
        self.recorder = recorder
        dtype_name = recorder.id.dtype
        self.dtype = "float32" if dtype_name == ANY_DTYPE else dtype_name
        self.size = worker_ranks.world_size()

    def run(self, program: Callable[..., Any], **arguments: Any) -> list[Any] | None:
        """Run a rank program and return the list of its return values, one for each rank.

        If a rank fails, record a failure and return None.
        """
        label = program.__name__.replace("_", " ")
        return worker_ranks.values_of_ranks(self.target, self.recorder, program, label=label, **arguments)

    def run_expecting_failures(self, program: Callable[..., Any], **arguments: Any) -> list[RankReply] | None:
        """Run a rank program that may fail, close the rank pool, and return one reply per rank.

        The time limit of the program starts after the ranks have imported the program's module. If the import
        fails, record a failure and return None.
        """
        if (
            worker_ranks.values_of_ranks(
                self.target,
                self.recorder,
                import_module,
                label="importing the rank program",
                module=program.__module__,
            )
            is None
        ):
            return None
        try:
            return worker_ranks.rank_pool(self.target).run(program, **arguments)
        finally:
            worker_ranks.rank_pool(self.target).close()

    def check(self, holds: bool, message: str, kind: Kind = Kind.STATE) -> bool:
        """Record one comparison, and a failure if ``holds`` is False. Return ``holds``."""
        return fact(self.recorder, holds, kind, message)

    def check_equal(self, label: str, actual: Any, expected: Any) -> bool:
        """Check that two texts, numbers or containers are equal, and return whether they are equal."""
        return self.check(actual == expected, f"{label} is {actual!r}, expected {expected!r}.", Kind.VALUE)

    def check_close(
        self,
        label: str,
        actual: dict[str, torch.Tensor],
        expected: dict[str, torch.Tensor],
        *,
        roundings: float = 0.0,
    ) -> bool:
        """Check that tensors with the same names agree within a tolerance, and return whether they agree.

        ``roundings`` is the tolerance in rounding units of the largest element of each tensor. If it is 0,
        the tolerance is :data:`ROUNDINGS`.
        """
        if not self.check_equal(f"the names in {label}", sorted(actual), sorted(expected)):
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
            equal &= self.check(
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
    basis: str = "documented",
    ground: str = "",
) -> Callable[[Callable[[MultiRankChecker], None]], Callable[[MultiRankChecker], None]]:
    """Return a decorator that registers a check function as a property of an area.

    The property's name is the name of the function with dashes instead of underscores. Its requirement is the
    first paragraph of the docstring. If ``accelerators`` is true, the property does not apply to the CPU.
    Raise ValueError for an unknown area.
    """
    if area not in areas.WORLD:
        raise ValueError(
            f"area {area!r} is not one of {', '.join(areas.WORLD)}; add it to conformance/subjects/areas.py"
        )

    def register_check(check: Callable[[MultiRankChecker], None]) -> Callable[[MultiRankChecker], None]:
        statement = requirement_of(check)

        def dtypes_to_check(target: Target, subject: Any) -> Sequence[str]:
            if subject.name != area or (accelerators and target.is_cpu):
                return ()
            return [dtype for dtype in dtypes if dtype == ANY_DTYPE or target.declares(dtype)]

        register(
            check.__name__.replace("_", "-"),
            subject_kind="world",
            statement=statement,
            level=level,
            applies=dtypes_to_check,
            modes=("distributed",),
            runs=False,
            capabilities=("distributed", *capabilities),
            documentation=areas.WORLD[area].documentation,
            basis=basis,
            ground=ground,
        )(lambda target, subject, recorder: check(MultiRankChecker(target, recorder)))
        return check

    return register_check
