"""Tables of the operators that are decomposed before a graph is cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._decomp import core_aten_decompositions

from . import inductor

Table = dict[Any, Callable[..., Any]]


def decompositions(mode: str, fused: bool) -> Table:
    """Table of a decomposition mode, from operators to functions that decompose them.

    Args:
        mode: ``core_aten`` (torch's core set), ``none``, ``inductor`` (Inductor's), or ``habana``: what suits
            the device, which is Inductor's for fused recipes, and none for interpreted ones, as the device
            has a kernel for each operator and one call is cheaper than many.
        fused: recipes are fused.
    """
    if mode == "habana":
        mode = "inductor" if fused else "none"
    if mode == "inductor":
        return inductor.decompositions()
    return dict(core_aten_decompositions()) if mode == "core_aten" else {}
