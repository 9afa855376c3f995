"""Behaviours of functions with control flow operators: compiled functions, and graphs that are traced with
real values, with fake tensors and with dynamic shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.func import functionalize

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.control_flow.loops import (
    associative_scan,
    map_over,
    scan,
    trees_are_equal,
    while_loop,
)

Function = Callable[..., Any]


def trace_graph(
    function: Function, *inputs: Any, tracing_mode: str, allow_closed_over_tensors: bool = False
) -> Function:
    """Return the graph of a function, traced on inputs. ``tracing_mode`` is ``real``, ``fake`` or
    ``symbolic`` (dynamic shapes). Tests replace this function by a faulty one.
    """
    graph: Function = torch_testing_internals.graph_of_function(
        function, *inputs, sizes=tracing_mode, closures=allow_closed_over_tensors
    )
    return graph


def compare_graphs_with_function(
    lab: Lab, name: str, function: Function, *calls: tuple[torch.Tensor, ...], dynamic: bool = False
) -> None:
    """Trace graphs of a function on the first of ``calls``. Compare the results of the graphs with the
    function's results, for all of ``calls``.

    One graph is functionalized. If ``dynamic`` is set, a graph with dynamic shapes is traced too.
    """
    variants = [("traced", function, "real"), ("functionalized", functionalize(function), "fake")]
    if dynamic:
        variants.append(("traced", function, "symbolic"))
    for variant, changed, tracing_mode in variants:
        graph = trace_graph(changed, *calls[0], tracing_mode=tracing_mode)
        results = [graph(*inputs) for inputs in calls]
        lab.same(f"{name}, {variant}, {tracing_mode}", results)
        expect_results_of_function(lab, f"{name}, {variant}, {tracing_mode}", results, function, *calls)


def expect_results_of_function(
    lab: Lab, name: str, results: Sequence[Any], function: Function, *calls: tuple[Any, ...]
) -> None:
    """Expect on the CPU that the results of a graph are the results of the function.

    The check is skipped on the target, whose results are compared with the results on the CPU. A call of the
    function would compile the function, which takes long. Other behaviours cover such calls on the target.
    """
    lab.holds(
        f"{name}: as the function",
        lab.on_target or trees_are_equal(results, [function(*inputs) for inputs in calls]),
    )


def product_branch(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return ``a * b + a``, as one branch of a ``cond``."""
    return a * b + a


def difference_branch(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return ``a - b``, as one branch of a ``cond``."""
    return a - b


@behaviour(
    "control-flow",
    level="full",
    must_detect=(),
    page="higher_order_ops/cond.html",
    basis="consistency",
    ground="The traced graph must give the results of the function",
)
def graphs_of_cond(lab: Lab) -> None:
    """A graph with ``cond`` runs the branch that the predicate of each call chooses. The graph may contain
    one ``cond``, two in sequence, or a ``cond`` whose branches write. The graph may be traced under
    ``functionalize``.
    """
    yes, no = lab.put(True), lab.put(False)
    x, y = lab.integers(3, 2), lab.integers(3, 2)
    calls = ((yes, x, y), (no, x, y), (yes, y, x), (no, y, x))
    compare_graphs_with_function(
        lab,
        "plain",
        lambda p, a, b: torch.cond(p, product_branch, difference_branch, (a, b)),
        *calls,
        dynamic=True,
    )
    # The calls of ``cond`` are not nested, because torch 2.13 refuses a nested ``cond`` in a process that has
    # traced other functions before.
    compare_graphs_with_function(
        lab,
        "by the data",
        lambda a, b: torch.cond(a.sum() > b.sum(), product_branch, difference_branch, (a, b)),
        (x, y),
        (y, x),
    )
    compare_graphs_with_function(
        lab,
        "two of them",
        lambda p, a, b: torch.cond(
            p,
            product_branch,
            difference_branch,
            (torch.cond(p, difference_branch, product_branch, (a, b)), b),
        ),
        *calls,
    )
    written = lambda a, b: a.clone().view(-1).add_(1).view(3, 2) * b  # noqa: E731
    compare_graphs_with_function(
        lab, "writes inside", lambda p, a, b: torch.cond(p, written, difference_branch, (a, b)), *calls
    )


@behaviour(
    "control-flow",
    level="full",
    must_detect=(),
    basis="consistency",
    ground="The traced graph must give the results of the function",
)
def graphs_of_loops(lab: Lab) -> None:
    """A graph with ``map``, ``scan`` or ``while_loop`` gives the results of the loop. The loop may be over
    trees and contain ``cond``.
    """
    x, y = lab.integers(3, 2, low=1, high=5), lab.integers(3, 2, low=1, high=5)
    row, col = lab.integers(2), lab.integers(2)
    calls = ((x, row), (y, col))
    compare_graphs_with_function(
        lab, "map", lambda a, r: map_over(lambda v, r: v * r + 1, a, r), *calls, dynamic=True
    )
    compare_graphs_with_function(
        lab, "map of a list", lambda a, r: map_over(lambda p, r: [p[0] + r, p[1] * r], [a, a * 2], r), *calls
    )
    compare_graphs_with_function(
        lab,
        "map of a dict",
        lambda a, r: map_over(lambda d, r: {"s": d["x"] * r, "t": d["y"] + r}, {"x": a, "y": a * 2}, r),
        *calls,
    )
    compare_graphs_with_function(
        lab,
        "map of cond",
        lambda a, r: map_over(
            lambda v, r: torch.cond(v.sum() > r.sum(), product_branch, difference_branch, (v, r)), a, r
        ),
        *calls,
    )
    compare_graphs_with_function(
        lab, "scan", lambda a, r: scan(lambda c, v: (c + v, c * v), r, a, dim=0), *calls
    )
    compare_graphs_with_function(
        lab,
        "while_loop",
        lambda a, r: while_loop(
            lambda i, v: i < 3,
            lambda i, v: (i + 1, v * 2 + r),
            (torch.zeros((), dtype=torch.int64, device=a.device), a),
        ),
        *calls,
    )


@behaviour("control-flow", level="full", must_detect=())
def compiled_control_flow(lab: Lab) -> None:
    """Functions with control flow operators are compiled without a graph break. The compiled functions give
    the results of eager.
    """
    x, y = lab.integers(4, 2, low=1, high=4), lab.integers(4, 2, low=1, high=4)
    zero = lab.put(0)
    layer = lab.to(torch.nn.Linear(2, 2))
    with torch.no_grad():
        layer.weight.copy_(lab.integers(2, 2))
        layer.bias.fill_(1)
    functions: dict[str, Function] = {
        "cond": lambda a, b: torch.cond(a.sum() > b.sum(), product_branch, difference_branch, (a, b)),
        "while_loop over a layer": lambda a, b: while_loop(
            lambda i, v: i < 2, lambda i, v: (i + 1, layer(v)), (zero, a + b)
        ),
        "map": lambda a, b: map_over(lambda v, w: v * w.sum() + 1, a, b),
        "scan": lambda a, b: scan(lambda c, v: (c + v, c * v), b[0], a, dim=0),
        "associative_scan": lambda a, b: associative_scan(torch.add, a * b, 0, combine_mode="generic"),
        "while_loop": lambda a, b: while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2 + b), (zero, a)),
    }
    for name, function in functions.items():
        for backend in ("eager",):
            torch_testing_internals.reset_dynamo()
            compiled_function = compile_with_backend(function, backend)
            with torch.no_grad():
                for inputs in ((x, y), (y, x)):
                    result, expected = compiled_function(*inputs), function(*inputs)
                    lab.same(f"{name} by {backend}", result)
                    lab.holds(
                        f"{name} by {backend}: compiled and eager agree", trees_are_equal(result, expected)
                    )
    torch_testing_internals.reset_dynamo()


def compile_with_backend(function: Function, backend: str) -> Function:
    """Return the function compiled by ``torch.compile``. Tests replace this function by a faulty one."""
    return torch.compile(function, backend=backend, fullgraph=True)
