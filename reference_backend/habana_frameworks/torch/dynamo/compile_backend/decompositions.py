"""Choose the operators that are decomposed before a graph is partitioned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._decomp import core_aten_decompositions

from . import inductor

Table = dict[Any, Callable[..., Any]]


def decomposition_table(mode: str, fused: bool) -> Table:
    """Return the table of a decomposition mode: operator to the function that decomposes it.

    Args:
        mode: ``core_aten`` (torch's core set), ``none``, ``inductor`` (Inductor's table) or ``habana``. The
            mode ``habana`` is Inductor's table for fused recipes and no decomposition for interpreted
            recipes: the device has a kernel for each operator, and one call is faster than several calls.
        fused: recipes are fused.
    """
    if mode == "habana":
        mode = "inductor" if fused else "none"
    if mode == "inductor":
        return inductor.inductor_decompositions()
    return dict(core_aten_decompositions()) if mode == "core_aten" else {}
