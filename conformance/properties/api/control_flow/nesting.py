"""Behaviours of graphs of nested control flow operators, of graphs with dynamic shapes, with tensors from
closures, and with gradients.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch.func import functionalize

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.control_flow import graphs
from conformance.properties.api.control_flow.graphs import Function, difference_branch, product_branch
from conformance.properties.api.control_flow.loops import map_over, trees_are_equal, while_loop


def compare_graph_with_function(
    lab: Lab,
    name: str,
    function: Function,
    *calls: tuple[Any, ...],
    tracing_mode: str = "symbolic",
    allow_closed_over_tensors: bool = False,
) -> None:
    """Trace the graph of a function on the first of ``calls``. Compare the results of the graph with the
    function's results, for all of ``calls``.
    """
    torch_testing_internals.reset_dynamo()
    graph = graphs.trace_graph(
        function, *calls[0], tracing_mode=tracing_mode, allow_closed_over_tensors=allow_closed_over_tensors
    )
    results = [graph(*inputs) for inputs in calls]
    lab.same(f"{name}, {tracing_mode}", results)
    graphs.expect_results_of_function(lab, f"{name}, {tracing_mode}", results, function, *calls)


def predicate_combinations(lab: Lab, count: int) -> list[list[torch.Tensor]]:
    """Return all combinations of the values of ``count`` predicates.

    Each predicate is a separate tensor, because a graph treats one tensor passed twice as one input.
    """
    return [[lab.put(value) for value in values] for values in itertools.product((True, False), repeat=count)]


def nested_cond(p: Any, q: Any, a: torch.Tensor) -> Any:
    """Return the result of a ``cond`` whose first branch contains a second ``cond``."""
    return torch.cond(
        p,
        lambda b, q: torch.cond(q, lambda c: c * c, lambda c: c + c, (b,)) + b,
        lambda b, q: b - 5,
        (a, q),
    )


@behaviour(
    "control-flow",
    level="full",
    must_detect=(),
    page="higher_order_ops/cond.html",
    basis="consistency",
    ground="The traced graph must give the results of the function",
)
def graphs_of_nested_cond(lab: Lab) -> None:
    """A graph with nested or several calls of ``cond`` runs the branches that the predicates of each call
    choose. This holds for traces with real tensors, with fake tensors and with dynamic shapes, and for a
    graph that is traced again under ``functionalize``.
    """
    x = lab.integers(3, 2)
    calls = [(p, q, x) for p, q in predicate_combinations(lab, 2)]
    for tracing_mode in ("real", "fake", "symbolic"):
        compare_graph_with_function(lab, "nested", nested_cond, *calls, tracing_mode=tracing_mode)
    compare_graph_with_function(
        lab,
        "with a tensor that a branch creates",
        lambda p, q, a: torch.cond(
            p, lambda b, q: nested_cond(q, p, b) + torch.ones_like(b), minus_one, (a, q)
        ),
        *calls,
        tracing_mode="fake",
    )
    compare_graph_with_function(
        lab,
        "side by side",
        lambda p, q, a: (
            torch.cond(p, torch.neg, torch.abs, (a,)) + torch.cond(q, torch.add, torch.mul, (a, a))
        ),
        *calls,
        tracing_mode="fake",
    )
    functions = lambda a, b: torch.cond(a.sum() > b.sum(), torch.add, torch.mul, (a, b))  # noqa: E731
    y = lab.integers(3, 2)
    compare_graph_with_function(lab, "functions of torch", functions, (x, y), (y, x))
    torch_testing_internals.reset_dynamo()
    first = graphs.trace_graph(functions, x, y, tracing_mode="real")
    second = graphs.trace_graph(functionalize(first), x, y, tracing_mode="real")
    results = [second(x, y), second(y, x)]
    lab.same("traced anew", results)
    graphs.expect_results_of_function(lab, "traced anew", results, functions, (x, y), (y, x))


def minus_one(a: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Return ``a - 1``, as a branch that ignores its second operand."""
    return a - 1


@behaviour(
    "control-flow",
    level="full",
    must_detect=(),
    basis="consistency",
    ground="The traced graph must give the results of the function",
)
def graphs_of_nested_loops(lab: Lab) -> None:
    """A graph with nested calls of ``while_loop``, or with trees as state, runs each loop as often as the
    loop's condition is true. A graph with ``map`` inside ``cond``, or ``cond`` inside ``map``, runs the
    branches that the predicates of each call choose.
    """
    x, row = lab.integers(4, 3), lab.integers(3)
    zero, start = lab.put(0), lab.put(1)

    def body_with_inner_loop(i: torch.Tensor, j: torch.Tensor, a: torch.Tensor) -> Any:
        inner = while_loop(lambda j, b: j < 2, lambda j, b: (j + 1, b + 1), (j, a))
        return i + 1, inner[0] * 0, inner[1] * 2

    for tracing_mode in ("real", "fake", "symbolic"):
        compare_graph_with_function(
            lab,
            "while_loop in while_loop",
            lambda i, j, a: while_loop(lambda i, j, a: i < 3, body_with_inner_loop, (i, j, a)),
            (zero, start, x),
            (start, zero, x),
            tracing_mode=tracing_mode,
        )
    compare_graph_with_function(
        lab,
        "a tree of state",
        lambda i, a: while_loop(
            lambda t: t["i"] < 3,
            lambda t: ({"i": t["i"] + 1, "a": (t["a"][0] * 2,)},),
            ({"i": i, "a": (a,)},),
        ),
        (zero, x),
        (start, x[:2]),
    )

    def map_with_inner_cond(p: torch.Tensor, a: torch.Tensor, r: torch.Tensor) -> Any:
        return map_over(lambda v, p, r: torch.cond(p, product_branch, difference_branch, (v, r)), a, p, r)

    compare_graph_with_function(
        lab,
        "cond in map",
        map_with_inner_cond,
        *[(p, x[:size, :size], row[:size]) for (p,) in predicate_combinations(lab, 1) for size in (3, 2)],
    )
    compare_graph_with_function(
        lab,
        "cond in map in cond",
        lambda q, p, a, r: torch.cond(
            q,
            lambda p, a, r: map_with_inner_cond(p, a, r) * 2,
            lambda p, a, r: map_with_inner_cond(p, a, r) + 1,
            (p, a, r),
        ),
        *[(q, p, x[:3], row) for q, p in predicate_combinations(lab, 2)],
        (start > 0, zero > 0, x[:2, :2], row[:2]),
    )
    functional = functionalize(map_with_inner_cond)
    compare_graph_with_function(
        lab,
        "functionalized",
        functional,
        *[(p, x, row) for (p,) in predicate_combinations(lab, 1)],
        tracing_mode="fake",
    )


@behaviour(
    "control-flow",
    level="full",
    must_detect=(),
    page="higher_order_ops/cond.html",
    basis="consistency",
    ground="one graph must give the results of the function for all sizes",
)
def control_flow_with_open_sizes(lab: Lab) -> None:
    """A graph traced with dynamic shapes runs the branch that the sizes or counts of each call select. The
    graph accepts inputs of sizes that were not traced, also in trees.
    """
    x, row = lab.integers(4, 3, low=1, high=5), lab.integers(3)

    def cond_on_row_count(a: torch.Tensor) -> Any:
        return torch.cond(a.shape[0] == 4, lambda b: b + b, lambda b: b * b, (a,))

    for rows in (3, 2):
        compare_graph_with_function(
            lab,
            f"a branch by the size, traced with {rows} rows",
            cond_on_row_count,
            (x[:rows],),
            (x,),
            (x[:, :2],),
        )
    compare_graph_with_function(
        lab,
        "by a count",
        lambda a: torch.cond(a.nonzero().shape[0] > 3, lambda b: b + b, lambda b: b * b, (a,)),
        (x,),
        (x * 0,),
        (x[:1],),
    )

    def cond_with_row_count_inside(p: torch.Tensor, a: torch.Tensor) -> Any:
        size = a.shape[0]
        return torch.cond(p, lambda b: b * size, lambda b: b + size, (a,))

    compare_graph_with_function(
        lab,
        "with a size in the branches",
        cond_with_row_count_inside,
        *[(p, x[:size]) for (p,) in predicate_combinations(lab, 1) for size in (3, 2)],
    )
    compare_graph_with_function(
        lab,
        "map of a list",
        lambda a, r: map_over(lambda v, r: [v[0][0] * r, v[1] + r], [[a], a * 2], r),
        (x, row),
        (x[:3, :2], row[:2]),
    )
    compare_graph_with_function(
        lab,
        "map of a dict",
        lambda a, r: map_over(
            lambda d, r: {"s": d["x"]["y"] * r, "t": d["z"] + r}, {"x": {"y": a}, "z": a * 2}, r
        ),
        (x, row),
        (x[:3, :2], row[:2]),
    )


@behaviour(
    "control-flow",
    level="full",
    must_detect=(),
    page="higher_order_ops/cond.html",
    basis="consistency",
    ground="The traced graph must give the results of the function, also after writes to closed-over tensors",
)
def graphs_of_closures(lab: Lab) -> None:
    """If the branches of a ``cond`` use tensors, parameters, buffers or numbers from closures, the graph
    refers to these tensors and numbers, also in nested branches. After a later write to one of these tensors,
    the graph uses the new value.
    """
    x = lab.integers(2, 3)
    a, b = lab.integers(2, 3), lab.integers(2, 3)
    module = torch.nn.Module()
    module.register_parameter("p", torch.nn.Parameter(lab.integers(2, 3), requires_grad=False))
    module.register_buffer("b", lab.integers(2, 3))
    number = 2
    functions: dict[str, Function] = {
        "tensors": lambda p, v: torch.cond(p, lambda w: w + a, lambda w: w * b, (v,)),
        "a module's": lambda p, v: torch.cond(p, lambda w: w + module.p, lambda w: w * module.b, (v,)),
        "a number": lambda p, v: torch.cond(p, lambda w: w + a, lambda w: w + number, (v,)),
        "nested": lambda p, v: torch.cond(
            p,
            lambda w: torch.cond(w.sum() > 0, lambda u: u + a, lambda u: u * b, (w,)),
            lambda w: torch.cond(w.sum() > 5, lambda u: u - a, lambda u: u + b, (w,)),
            (v,),
        ),
    }
    for name, function in functions.items():
        compare_graph_with_function(
            lab,
            name,
            function,
            *[(p, v) for (p,) in predicate_combinations(lab, 1) for v in (x, -x)],
            allow_closed_over_tensors=True,
        )
    torch_testing_internals.reset_dynamo()
    for tracing_mode in ("real", "symbolic"):
        graph = graphs.trace_graph(
            functions["tensors"], lab.put(True), x, tracing_mode=tracing_mode, allow_closed_over_tensors=True
        )
        for tensor in (a, b):
            tensor.add_(1)
        results = [graph(p, x) for (p,) in predicate_combinations(lab, 1)]
        lab.same(f"after a write, {tracing_mode}", results)
        lab.holds(
            f"after a write, {tracing_mode}: graph and function agree",
            trees_are_equal(results, [x + a, x * b]),
        )


@behaviour(
    "control-flow",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    basis="consistency",
    ground="The traced or compiled graph must give the gradients of the function",
)
def graphs_with_gradients(lab: Lab) -> None:
    """If a function differentiates ``cond`` or ``map``, for tensors or trees, its graph gives the same
    gradients as the function, also for inputs of other sizes.
    """

    def matrix_and_row_leaves(rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
        return lab.integers(rows, columns, requires_grad=True), lab.integers(columns, requires_grad=True)

    def gradients_of_cond(p: torch.Tensor, a: torch.Tensor, r: torch.Tensor) -> Any:
        result = torch.cond(p, lambda a, r: a * a * r, lambda a, r: a - r * r, (a, r))
        return torch.autograd.grad(result.sum(), (a, r))

    def gradient_function_of_map(body: Function, tree: Function) -> Function:
        def gradients_of_map(a: torch.Tensor, r: torch.Tensor) -> Any:
            results = map_over(body, tree(a), r)
            results = results if isinstance(results, (list, tuple)) else [results]
            return torch.autograd.grad(results, (a, r), [torch.ones_like(each) for each in results])

        return gradients_of_map

    x, row = matrix_and_row_leaves(4, 3)
    predicates = [p for (p,) in predicate_combinations(lab, 1)]
    compare_graph_with_function(lab, "cond", gradients_of_cond, *[(p, x, row) for p in predicates])
    torch_testing_internals.reset_dynamo()
    compiled = graphs.compile_with_backend(
        lambda p, a, r: torch.cond(p, lambda a, r: a * a * r, lambda a, r: a - r * r, (a, r)), "aot_eager"
    )
    for value, p in zip((True, False), predicates, strict=True):
        gradients = torch.autograd.grad(compiled(p, x, row).sum(), (x, row))
        lab.same(f"cond, compiled, {value}", gradients)
        lab.holds(
            f"cond, compiled, {value}: graph and function agree",
            trees_are_equal(gradients, gradients_of_cond(p, x, row)),
        )
    calls = (matrix_and_row_leaves(4, 3), matrix_and_row_leaves(3, 2))
    for name, function in {
        "map": gradient_function_of_map(lambda v, r: v * v * r, lambda a: a),
        "map of a list": gradient_function_of_map(
            lambda v, r: [v[0] * r, v[1] + r * r], lambda a: [a * a, a * 2]
        ),
        "map of a dict": gradient_function_of_map(
            lambda d, r: [d["p"] * r, d["q"] * d["p"]], lambda a: {"p": a, "q": a * 2}
        ),
    }.items():
        with lab.parity("The page says that map does not support gradients"):
            compare_graph_with_function(lab, name, function, *calls)
