"""The vocabulary of collectives: shapes, dtypes, reduce operators, and a call of a rank."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from conformance.distributed.strided_buffers import DENSE, room

Tensors = list[torch.Tensor]
Shape = tuple[int, ...]

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
OTHERS = ("complex64", "complex128", "bool", "float8_e4m3fn", "float8_e5m2")

#: Reduce operators by the word in a subject's name (``all_reduce.max``); the plain name means the sum.
REDUCTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "sum": ("SUM", (*FLOATS, *INTEGERS)),
    "product": ("PRODUCT", (*FLOATS, *INTEGERS)),
    "min": ("MIN", (*FLOATS, *INTEGERS)),
    "max": ("MAX", (*FLOATS, *INTEGERS)),
    "avg": ("AVG", FLOATS),
    "band": ("BAND", INTEGERS),
    "bor": ("BOR", INTEGERS),
    "bxor": ("BXOR", INTEGERS),
}


@dataclasses.dataclass
class CollectiveCall:
    """The arguments of a rank's call.

    ``ranks`` are those of the group, by number in the world; ``root`` and ``me`` are positions among them,
    ``me`` that of this rank. ``word`` names the reduction. ``layout`` is that of the tensors made for
    results, which are kept in ``made``.
    """

    ranks: Sequence[int]
    me: int
    root: int
    word: str = ""
    group: Any = None
    asynchronous: bool = False
    layout: str = DENSE
    made: Tensors = dataclasses.field(default_factory=list)

    def result(self, like: torch.Tensor, *shape: int) -> torch.Tensor:
        """Make room for a result of a shape, with the dtype and device of ``like``."""
        self.made.append(room(like, shape, self.layout))
        return self.made[-1]

    @property
    def op(self) -> Any:
        """The reduce operator of torch.distributed."""
        from torch.distributed import ReduceOp

        return getattr(ReduceOp, REDUCTIONS[self.word][0])

    @property
    def size(self) -> int:
        """Number of ranks in the group."""
        return len(self.ranks)


@dataclasses.dataclass
class Running:
    """A call that was issued: the tensors that will hold its results, and its handles if the call asked for
    any.
    """

    outputs: Tensors
    works: list[Any]

    def wait(self) -> Tensors:
        """Make the current stream wait for the call, and return the results."""
        for work in self.works:
            if work is not None:
                work.wait()
        return self.outputs
