"""A conforming variant: a device that rounds inexact results differently from the CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.behaviours import lab as bench
from conformance.framework.trees import tree_map
from tests.injected_faults.api.faults import schema_returns_view, schema_writes_argument

#: The tag of torch operators that draw random numbers. ``RoundsDifferently`` leaves the results of these
#: operators unchanged.
_DRAWS = torch.Tag.nondeterministic_seeded


class RoundsDifferently(TorchDispatchMode):
    """Dispatch mode in which each inexact floating-point element of 16 or 32 bits differs by one unit in the
    last place.

    An element is inexact if the operator's result for float64 inputs is not representable in the dtype. Exact
    elements are unchanged, because every IEEE device returns them. Examples are sums and products of small
    whole numbers, comparisons and copies. Random draws are unchanged too.
    """

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        unchanged = (
            bench.is_lab_working()
            or schema_returns_view(function)
            or schema_writes_argument(function)
            or _DRAWS in function.tags
        )
        if unchanged or not _may_round(args):
            return function(*args, **kwargs)
        widened = tree_map(_as_float64, (args, kwargs))
        result = function(*args, **kwargs)
        try:
            exact = function(*widened[0], **widened[1])
        except Exception:
            return result
        return _move_inexact_elements(result, exact)


def _may_round(args: Any) -> bool:
    operands: list[torch.Tensor] = []
    tree_map(lambda leaf: operands.append(leaf) if isinstance(leaf, torch.Tensor) else None, args)
    if any(t.is_meta or isinstance(t, FakeTensor) for t in operands):
        return False  # a trace has no values to round
    return any(t.is_floating_point() and t.itemsize <= 4 and t.layout is torch.strided for t in operands)


def _as_float64(leaf: Any) -> Any:
    if isinstance(leaf, torch.dtype) and leaf.is_floating_point:
        return torch.float64
    if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.layout is torch.strided:
        return leaf.detach().to(torch.float64)
    return leaf


def _move_inexact_elements(result: Any, exact: Any) -> Any:
    if isinstance(result, (tuple, list)) and isinstance(exact, (tuple, list)) and len(result) == len(exact):
        moved = [
            _move_inexact_elements(result_item, exact_item)
            for result_item, exact_item in zip(result, exact, strict=True)
        ]
        if hasattr(result, "_fields") or hasattr(result, "n_fields"):
            return result
        return type(result)(moved)
    if not (isinstance(result, torch.Tensor) and isinstance(exact, torch.Tensor)):
        return result
    roundable = result.layout is torch.strided and result.is_floating_point() and result.itemsize in (2, 4)
    if (
        not roundable
        or exact.shape != result.shape
        or result.dtype not in (torch.float16, torch.bfloat16, torch.float32)
    ):
        return result
    with torch.no_grad():
        inexact = (exact.to(result.dtype).to(torch.float64) != exact) & torch.isfinite(result) & (result != 0)
        integer_dtype = torch.int32 if result.itemsize == 4 else torch.int16
        bits = result.view(integer_dtype)
        neighbour = (bits + 1).view(result.dtype)
        result.copy_(torch.where(inexact & torch.isfinite(neighbour), neighbour, result))
    return result
