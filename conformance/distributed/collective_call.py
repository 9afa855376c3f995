"""The arguments and the result of one rank's call of a collective, and the dtypes and reduce operators that
collectives support.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from conformance.distributed.strided_buffers import DENSE, result_buffer

Tensors = list[torch.Tensor]
Shape = tuple[int, ...]

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
OTHERS = ("complex64", "complex128", "bool", "float8_e4m3fn", "float8_e5m2")

#: Maps the suffix of a subject's name (``all_reduce.max``) to the name of torch's ``ReduceOp`` and its
#: dtypes. A name without a suffix denotes the sum.
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
    """The arguments of one rank's call of a collective.

    ``ranks`` lists the members of ``group`` by their ranks in the default group. ``group_rank`` is the
    position of this rank in ``ranks``, and ``root`` is the position of the root. ``reduction`` names the
    reduce operator. :meth:`new_result_buffer` allocates result buffers in ``layout`` and appends them to
    ``result_buffers``.
    """

    ranks: Sequence[int]
    group_rank: int
    root: int
    reduction: str = ""
    group: Any = None
    asynchronous: bool = False
    layout: str = DENSE
    result_buffers: Tensors = dataclasses.field(default_factory=list)

    def new_result_buffer(self, like: torch.Tensor, *shape: int) -> torch.Tensor:
        """Allocate a result buffer with the given shape and the dtype and device of ``like``."""
        self.result_buffers.append(result_buffer(like, shape, self.layout))
        return self.result_buffers[-1]

    @property
    def reduce_op(self) -> Any:
        """The reduce operator of torch.distributed."""
        from torch.distributed import ReduceOp

        return getattr(ReduceOp, REDUCTIONS[self.reduction][0])

    @property
    def group_size(self) -> int:
        """Number of ranks in the group."""
        return len(self.ranks)


@dataclasses.dataclass
class IssuedCall:
    """A collective that was issued: its result tensors, and its work handles if it was asynchronous."""

    outputs: Tensors
    works: list[Any]

    def wait(self) -> Tensors:
        """Make the current stream wait for the collective, and return the result tensors."""
        for work in self.works:
            if work is not None:
                work.wait()
        return self.outputs
