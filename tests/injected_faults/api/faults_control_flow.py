"""Faults of control flow operators. Torch rejects these operators under a dispatch mode, so the faults
replace the functions through which behaviours call the operators.
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


def change_value_and_gradient(value: Any) -> Any:
    """Return a tensor with a changed value and a changed gradient. Return any other value unchanged."""
    if isinstance(value, torch.Tensor) and (value.is_floating_point() or not value.dtype.is_signed):
        return value * 2 + 1
    return value


def make_results_wrong(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that returns wrong results of ``function``."""
    return lambda *args, **kwargs: tree_map(change_value_and_gradient, function(*args, **kwargs))


def swallow_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that returns None if ``function`` raises."""

    def faulty_call(*args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            return function(*args, **kwargs)

    return faulty_call


def control_flow_fault(change: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Callable[[Lab], Any]:
    """Return a fault: a context manager that applies ``change`` to every control flow operator."""

    @contextlib.contextmanager
    def change_operators(lab: Lab) -> Iterator[None]:
        choose, find = branches.call_cond, loops.control_flow_operator
        branches.call_cond = change(choose)
        loops.control_flow_operator = lambda name: change(find(name))
        try:
            yield
        finally:
            branches.call_cond = choose
            loops.control_flow_operator = find

    return change_operators


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
    NAMED[name] = control_flow_fault(make_results_wrong)
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
    NAMED[name] = control_flow_fault(swallow_errors)


def make_forward_wrong(graph: Any) -> Any:
    """Make the graph return wrong results, and return it."""
    graph.forward = make_results_wrong(graph.forward)
    return graph


@contextlib.contextmanager
def graphs_return_wrong_results(lab: Lab) -> Iterator[None]:
    """Make graphs and compiled functions return wrong results on the device side."""
    traced, compiled = graphs.trace_graph, graphs.compile_with_backend
    graphs.trace_graph = lambda function, *inputs, **options: make_forward_wrong(
        traced(function, *inputs, **options)
    )
    graphs.compile_with_backend = lambda function, backend: make_results_wrong(compiled(function, backend))
    try:
        yield
    finally:
        graphs.trace_graph, graphs.compile_with_backend = traced, compiled


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
    NAMED[name] = graphs_return_wrong_results
