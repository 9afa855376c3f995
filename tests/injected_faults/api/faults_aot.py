"""Faults of ahead-of-time tracing: wrong results, lost writes, and wrong modules and graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from conformance.behaviours.lab import Lab
from conformance.properties.api.aot import exported_graphs, functions, modules, traced_operators
from tests.injected_faults.api.faults import NAMED
from tests.injected_faults.api.faults_control_flow import with_wrong_results


@contextlib.contextmanager
def wrong_results(lab: Lab) -> Iterator[None]:
    """Make traced functions return wrong results on the device side."""
    traced: Callable[..., Any] = functions.traced
    compiled: Callable[..., Any] = functions.compiled
    functions.traced = lambda function, **options: with_wrong_results(traced(function, **options))
    functions.compiled = lambda function, **options: with_wrong_results(compiled(function, **options))
    try:
        yield
    finally:
        functions.traced, functions.compiled = traced, compiled


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
    NAMED[name] = wrong_results


@contextlib.contextmanager
def lost_writes(lab: Lab) -> Iterator[None]:
    """Make traced functions write into copies of their inputs."""
    traced: Callable[..., Any] = functions.traced

    def traced_on_copies(function: Any, **options: Any) -> Any:
        traced_function = traced(function, **options)
        return lambda *args: traced_function(*(arg.clone() if hasattr(arg, "clone") else arg for arg in args))

    functions.traced = traced_on_copies
    try:
        yield
    finally:
        functions.traced = traced


NAMED["aot-writes-into-inputs"] = lost_writes


@contextlib.contextmanager
def wrong_modules(lab: Lab) -> Iterator[None]:
    """Make traced and lowered modules return wrong results on the device side."""
    traced, lowered_graph, graph_of = modules.traced, modules.lowered_graph, modules.graph_with_dynamic_shapes
    modules.traced = lambda module: with_wrong_results(traced(module))
    modules.lowered_graph = lambda module, inputs: with_wrong_results(lowered_graph(module, inputs))
    modules.graph_with_dynamic_shapes = lambda function, *inputs: with_wrong_results(
        graph_of(function, *inputs)
    )
    try:
        yield
    finally:
        modules.traced, modules.lowered_graph, modules.graph_with_dynamic_shapes = (
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
    NAMED[name] = wrong_modules


@contextlib.contextmanager
def wrong_exports(lab: Lab) -> Iterator[None]:
    """Make exported graphs return wrong results on the device side."""
    exported, exported_function = (
        exported_graphs.exported_graph_and_signature,
        exported_graphs.exported_graph_of_function,
    )

    def wrong_exported(module: Any, inputs: Any, **options: Any) -> Any:
        graph, signature = exported(module, inputs, **options)
        return with_wrong_results(graph), signature

    exported_graphs.exported_graph_and_signature = wrong_exported
    exported_graphs.exported_graph_of_function = lambda *args, **options: with_wrong_results(
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
    NAMED[name] = wrong_exports


@contextlib.contextmanager
def wrong_graphs(lab: Lab) -> Iterator[None]:
    """Make graphs of operators return wrong results on the device side."""
    traced: Callable[..., Any] = traced_operators.traced
    traced_operators.traced = lambda *args, **options: with_wrong_results(traced(*args, **options))
    try:
        yield
    finally:
        traced_operators.traced = traced


for name in (
    *(f"{prefix}graphs-of-entries-{part}-of-8" for prefix in ("", "fake-") for part in range(1, 9)),
    *(f"open-graphs-of-entries-{part}-of-16" for part in range(1, 5)),
    *(f"open-graphs-of-entries-in-place-{part}-of-4" for part in range(1, 5)),
):
    NAMED[name] = wrong_graphs
