"""Faults of ahead-of-time tracing: wrong results, lost writes, and wrong modules and graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from conformance.behaviours.lab import Lab
from conformance.properties.api.aot import exported_graphs, functions, modules, traced_operators
from tests.injected_faults.api.faults import NAMED
from tests.injected_faults.api.faults_control_flow import make_results_wrong


@contextlib.contextmanager
def traced_functions_return_wrong_results(lab: Lab) -> Iterator[None]:
    """Make traced functions return wrong results on the device side."""
    traced: Callable[..., Any] = functions.trace_with_aot_autograd
    compiled: Callable[..., Any] = functions.compile_with_aot_eager
    functions.trace_with_aot_autograd = lambda function, **options: make_results_wrong(
        traced(function, **options)
    )
    functions.compile_with_aot_eager = lambda function, **options: make_results_wrong(
        compiled(function, **options)
    )
    try:
        yield
    finally:
        functions.trace_with_aot_autograd, functions.compile_with_aot_eager = traced, compiled


for name in (
    "aot-calls",
    "aot-returns-aliases",
    "aot-inputs-that-share",
    "aot-partitions-and-sizes",
    "aot-views-beside-writes",
    "aot-flags-of-results",
    "aot-views-that-must-not-be-written",
    "aot-exchanges-storage",
    "aot-writes-hidden-from-autograd",
    "aot-inputs-turned-and-written",
    "aot-writes-in-the-backward",
    "aot-keeps-sizes-for-the-backward",
    "aot-of-subclasses",
    "aot-writes-into-subclasses",
    "aot-gradients-of-other-kinds",
    "aot-of-modules-with-subclasses",
    "compiled-norms-and-layouts",
    "compiled-for-other-inputs",
    "compiled-with-saved-tensor-hooks",
    "compiled-under-autocast",
):
    NAMED[name] = traced_functions_return_wrong_results


@contextlib.contextmanager
def traced_functions_write_to_copies(lab: Lab) -> Iterator[None]:
    """Make traced functions write into copies of their inputs."""
    traced: Callable[..., Any] = functions.trace_with_aot_autograd

    def trace_on_copies(function: Any, **options: Any) -> Any:
        traced_function = traced(function, **options)
        return lambda *args: traced_function(*(arg.clone() if hasattr(arg, "clone") else arg for arg in args))

    functions.trace_with_aot_autograd = trace_on_copies
    try:
        yield
    finally:
        functions.trace_with_aot_autograd = traced


NAMED["aot-writes-into-inputs"] = traced_functions_write_to_copies


@contextlib.contextmanager
def traced_modules_return_wrong_results(lab: Lab) -> Iterator[None]:
    """Make traced and lowered modules return wrong results on the device side."""
    traced, lowered_graph, graph_of = (
        modules.trace_module_with_aot_autograd,
        modules.lowered_graph,
        modules.graph_with_dynamic_shapes,
    )
    modules.trace_module_with_aot_autograd = lambda module: make_results_wrong(traced(module))
    modules.lowered_graph = lambda module, inputs: make_results_wrong(lowered_graph(module, inputs))
    modules.graph_with_dynamic_shapes = lambda function, *inputs: make_results_wrong(
        graph_of(function, *inputs)
    )
    try:
        yield
    finally:
        modules.trace_module_with_aot_autograd, modules.lowered_graph, modules.graph_with_dynamic_shapes = (
            traced,
            lowered_graph,
            graph_of,
        )


for name in (
    "aot-of-modules",
    "aot-of-modules-for-inference",
    "aot-lowers-modules",
    "graphs-of-modules-with-open-sizes",
):
    NAMED[name] = traced_modules_return_wrong_results


@contextlib.contextmanager
def exported_graphs_return_wrong_results(lab: Lab) -> Iterator[None]:
    """Make exported graphs return wrong results on the device side."""
    exported, exported_function = (
        exported_graphs.exported_graph_and_signature,
        exported_graphs.exported_graph_of_function,
    )

    def export_and_change(module: Any, inputs: Any, **options: Any) -> Any:
        graph, signature = exported(module, inputs, **options)
        return make_results_wrong(graph), signature

    exported_graphs.exported_graph_and_signature = export_and_change
    exported_graphs.exported_graph_of_function = lambda *args, **options: make_results_wrong(
        exported_function(*args, **options)
    )
    try:
        yield
    finally:
        exported_graphs.exported_graph_and_signature, exported_graphs.exported_graph_of_function = (
            exported,
            exported_function,
        )


for name in (
    "exported-functions-compute",
    "exported-modules-name-their-state",
    "exported-functions-refuse",
):
    NAMED[name] = exported_graphs_return_wrong_results


@contextlib.contextmanager
def operator_graphs_return_wrong_results(lab: Lab) -> Iterator[None]:
    """Make graphs of operators return wrong results on the device side."""
    traced: Callable[..., Any] = traced_operators.trace_graph
    traced_operators.trace_graph = lambda *args, **options: make_results_wrong(traced(*args, **options))
    try:
        yield
    finally:
        traced_operators.trace_graph = traced


for name in (
    *(f"{prefix}graphs-of-entries-{part}-of-8" for prefix in ("", "fake-") for part in range(1, 9)),
    *(f"open-graphs-of-entries-{part}-of-16" for part in range(1, 5)),
    *(f"open-graphs-of-entries-in-place-{part}-of-4" for part in range(1, 5)),
):
    NAMED[name] = operator_graphs_return_wrong_results
