"""A device that is correct and different: a result that must be rounded is rounded to the other side."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.behaviours import lab as bench
from conformance.framework.trees import tree_map
from tests.injected_faults.api.faults import is_view, writes

#: Operators that only move, choose or make numbers that are given; they round nothing.
_DRAWS = torch.Tag.nondeterministic_seeded


class RoundsOtherwise(TorchDispatchMode):
    """Each floating result of 32 bits or fewer that differs from the one of float64 inputs moves by one unit.

    An element whose exact value fits the dtype is left alone: every IEEE device gives that one. So are sums
    and
    products of small whole numbers, comparisons, copies and random draws.
    """

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        plain = bench.is_lab_working() or is_view(function) or writes(function) or _DRAWS in function.tags
        if plain or not _small(args):
            return function(*args, **kwargs)
        kept = tree_map(_wide, (args, kwargs))
        found = function(*args, **kwargs)
        try:
            exact = function(*kept[0], **kept[1])
        except Exception:
            return found
        return _both(found, exact)


def _small(args: Any) -> bool:
    found: list[torch.Tensor] = []
    tree_map(lambda leaf: found.append(leaf) if isinstance(leaf, torch.Tensor) else None, args)
    if any(t.is_meta or isinstance(t, FakeTensor) for t in found):
        return False  # a trace: there are no values to round
    return any(t.is_floating_point() and t.itemsize <= 4 and t.layout is torch.strided for t in found)


def _wide(leaf: Any) -> Any:
    if isinstance(leaf, torch.dtype) and leaf.is_floating_point:
        return torch.float64
    if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.layout is torch.strided:
        return leaf.detach().to(torch.float64)
    return leaf


def _both(found: Any, exact: Any) -> Any:
    if isinstance(found, (tuple, list)) and isinstance(exact, (tuple, list)) and len(found) == len(exact):
        moved = [_both(one, other) for one, other in zip(found, exact, strict=True)]
        if hasattr(found, "_fields") or hasattr(found, "n_fields"):
            return found
        return type(found)(moved)
    if not (isinstance(found, torch.Tensor) and isinstance(exact, torch.Tensor)):
        return found
    plain = found.layout is torch.strided and found.is_floating_point() and found.itemsize in (2, 4)
    if (
        not plain
        or exact.shape != found.shape
        or found.dtype not in (torch.float16, torch.bfloat16, torch.float32)
    ):
        return found
    with torch.no_grad():
        inexact = (exact.to(found.dtype).to(torch.float64) != exact) & torch.isfinite(found) & (found != 0)
        words = torch.int32 if found.itemsize == 4 else torch.int16
        bits = found.view(words)
        neighbour = (bits + 1).view(found.dtype)
        found.copy_(torch.where(inexact & torch.isfinite(neighbour), neighbour, found))
    return found
