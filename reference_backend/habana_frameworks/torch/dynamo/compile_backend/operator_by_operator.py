"""Run clusters operator by operator, and count the runs of recipes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

Recipe = Callable[[list[Any]], Sequence[Any]]

#: Number of runs of clusters by kind: ``fused`` code, an ``interpreted`` recipe, or ``calls``. A run counts
#: as ``calls`` if the operators run one by one: during a capture, or because the cluster cannot be captured.
_executed = {"fused": 0, "interpreted": 0, "calls": 0}


def executed_graphs() -> dict[str, int]:
    """Return the number of cluster runs in this process, by kind: fused, interpreted or calls."""
    return dict(_executed)


def count_cluster_run(kind: str) -> None:
    """Count one run of a cluster, under its kind: ``fused``, ``interpreted`` or ``calls``."""
    _executed[kind] += 1


def make_operator_by_operator_recipe(module: GraphModule) -> Recipe:
    """Return a boxed callable that runs the operators of a cluster one by one."""

    def run(inputs: list[Any]) -> Sequence[Any]:
        count_cluster_run("calls")
        with torch.no_grad():
            results: Sequence[Any] = module(*inputs)
        inputs.clear()
        return results

    return run
