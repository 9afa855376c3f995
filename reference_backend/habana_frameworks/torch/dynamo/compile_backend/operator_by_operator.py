"""Clusters run operator by operator, and counts of what ran."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

Recipe = Callable[[list[Any]], Sequence[Any]]

#: Runs of recipes by what ran: ``fused`` code, an ``interpreted`` recipe, or its operators one by one
#: (``calls``: the run that is captured, and graphs that cannot be).
_executed = {"fused": 0, "interpreted": 0, "calls": 0}


def executed_graphs() -> dict[str, int]:
    """Numbers of recipes that have run in this process so far, by kind of executable."""
    return dict(_executed)


def count(kind: str) -> None:
    """Count a run of one kind: ``fused``, ``interpreted`` or ``calls``."""
    _executed[kind] += 1


def by_calls(module: GraphModule) -> Recipe:
    """Make a boxed callable that runs the operators of a cluster one by one."""

    def run(inputs: list[Any]) -> Sequence[Any]:
        count("calls")
        with torch.no_grad():
            results = module(*inputs)
        inputs.clear()
        return results

    return run
