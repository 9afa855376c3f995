"""Faults of control flow operators. Torch refuses a dispatch mode around these operators, so this module
patches them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.behaviours.lab import Lab
from conformance.framework.trees import tree_map
from conformance.properties.api.control_flow import branches, graphs, loops
from tests.injected_faults.api.faults import NAMED


def off(value: Any) -> Any:
    """Return the number or tensor with a changed value and its gradient."""
    if isinstance(value, torch.Tensor) and (value.is_floating_point() or not value.dtype.is_signed):
        return value * 2 + 1
    return value


def bent(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with wrong results."""
    return lambda *args, **kwargs: tree_map(off, function(*args, **kwargs))


def silent(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function without its errors."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            return function(*args, **kwargs)

    return call


def planted(change: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Callable[[Lab], Any]:
    """Return a fault that changes every control flow operator on the device side."""

    @contextlib.contextmanager
    def around(lab: Lab) -> Iterator[None]:
        choose, find = branches.choose, loops.control_flow
        branches.choose = change(choose)
        loops.control_flow = lambda name: change(find(name))
        try:
            yield
        finally:
            branches.choose = choose
            loops.control_flow = find

    return around


for name in (
    "scan-folds",
    "scan-takes-trees",
    "scan-differentiates",
    "associative-scan-folds",
    "map-maps-rows",
    "while-loop-runs",
    "cond-chooses",
    "cond-takes-trees",
    "cond-differentiates",
    "cond-under-vmap",
    "associative-scan-combines",
    "associative-scan-differentiates",
    "scan-under-vmap",
    "scan-differentiates-parts",
    "loops-differentiate-parts",
    "while-loop-counts",
    "scan-agrees-with-associative-scan",
):
    NAMED[name] = planted(bent)
for name in (
    "scan-refuses",
    "associative-scan-refuses",
    "associative-scan-refuses-functions",
    "map-refuses",
    "while-loop-refuses",
    "cond-refuses",
    "writes-of-branches-are-refused",
    "writes-of-loops-are-refused",
):
    NAMED[name] = planted(silent)


def bent_graph(graph: Any) -> Any:
    """Return the graph with wrong results."""
    graph.forward = bent(graph.forward)
    return graph


@contextlib.contextmanager
def wrong_graphs(lab: Lab) -> Iterator[None]:
    """Make graphs and compiled functions return wrong results on the device side."""
    traced, compiled = graphs.traced, graphs.compiled
    graphs.traced = lambda function, *inputs, **options: bent_graph(traced(function, *inputs, **options))
    graphs.compiled = lambda function, backend: bent(compiled(function, backend))
    try:
        yield
    finally:
        graphs.traced, graphs.compiled = traced, compiled


for name in (
    "graphs-of-cond",
    "graphs-of-loops",
    "graphs-of-nested-cond",
    "graphs-of-nested-loops",
    "control-flow-with-open-sizes",
    "graphs-of-closures",
    "graphs-with-gradients",
    "writes-inside-are-kept-inside",
    "compiled-control-flow",
):
    NAMED[name] = wrong_graphs
