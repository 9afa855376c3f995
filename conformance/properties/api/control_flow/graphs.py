"""Graphs of functions with control flow: traced with values, without them, with open sizes, and compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.func import functionalize

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.control_flow.loops import associative_scan, equal, map_over, scan, while_loop

Function = Callable[..., Any]


def traced(function: Function, *inputs: Any, sizes: str, closures: bool = False) -> Function:
    """The graph of a function; tests break it here."""
    graph: Function = torch_testing_internals.graph_of(function, *inputs, sizes=sizes, closures=closures)
    return graph


def check(
    lab: Lab, name: str, function: Function, *calls: tuple[torch.Tensor, ...], open_sizes: bool = False
) -> None:
    """Graphs of a function, traced on the first of ``calls``, give on each what the function gives."""
    ways = [("traced", function, "real"), ("functionalized", functionalize(function), "fake")]
    if open_sizes:
        ways.append(("traced", function, "symbolic"))
    for word, changed, sizes in ways:
        graph = traced(changed, *calls[0], sizes=sizes)
        results = [graph(*inputs) for inputs in calls]
        lab.same(f"{name}, {word}, {sizes}", results)
        as_the_function(lab, f"{name}, {word}, {sizes}", results, function, *calls)


def as_the_function(
    lab: Lab, name: str, results: Sequence[Any], function: Function, *calls: tuple[Any, ...]
) -> None:
    """The CPU's results of a graph, to which the target's are held, are those of the function itself.

    On the target that is left out: each call of a function with control flow compiles it anew, and what it
    gives there is seen by the behaviours of that control flow.
    """
    lab.holds(
        f"{name}: as the function",
        lab.on_target or equal(results, [function(*inputs) for inputs in calls]),
    )


def one(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A branch."""
    return a * b + a


def other(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The other branch."""
    return a - b


@behaviour("control-flow", level="full", sees=())
def graphs_of_cond(lab: Lab) -> None:
    """A graph with cond takes the branch of each call's own predicate: plain, one after the other, with
    writes inside and under functionalize.
    """
    yes, no = lab.put(True), lab.put(False)
    x, y = lab.integers(3, 2), lab.integers(3, 2)
    calls = ((yes, x, y), (no, x, y), (yes, y, x), (no, y, x))
    check(lab, "plain", lambda p, a, b: torch.cond(p, one, other, (a, b)), *calls, open_sizes=True)
    # Not nested: torch 2.13 refuses that in a process that has traced other functions before.
    check(lab, "by the data", lambda a, b: torch.cond(a.sum() > b.sum(), one, other, (a, b)), (x, y), (y, x))
    check(
        lab,
        "two of them",
        lambda p, a, b: torch.cond(p, one, other, (torch.cond(p, other, one, (a, b)), b)),
        *calls,
    )
    written = lambda a, b: a.clone().view(-1).add_(1).view(3, 2) * b  # noqa: E731
    check(lab, "writes inside", lambda p, a, b: torch.cond(p, written, other, (a, b)), *calls)


@behaviour("control-flow", level="full", sees=())
def graphs_of_loops(lab: Lab) -> None:
    """Graphs with map, scan and while_loop, over trees and with cond inside, give what the loops give."""
    x, y = lab.integers(3, 2, low=1, high=5), lab.integers(3, 2, low=1, high=5)
    row, col = lab.integers(2), lab.integers(2)
    calls = ((x, row), (y, col))
    check(lab, "map", lambda a, r: map_over(lambda v, r: v * r + 1, a, r), *calls, open_sizes=True)
    check(
        lab, "map of a list", lambda a, r: map_over(lambda p, r: [p[0] + r, p[1] * r], [a, a * 2], r), *calls
    )
    check(
        lab,
        "map of a dict",
        lambda a, r: map_over(lambda d, r: {"s": d["x"] * r, "t": d["y"] + r}, {"x": a, "y": a * 2}, r),
        *calls,
    )
    check(
        lab,
        "map of cond",
        lambda a, r: map_over(lambda v, r: torch.cond(v.sum() > r.sum(), one, other, (v, r)), a, r),
        *calls,
    )
    check(lab, "scan", lambda a, r: scan(lambda c, v: (c + v, c * v), r, a, dim=0), *calls)
    check(
        lab,
        "while_loop",
        lambda a, r: while_loop(
            lambda i, v: i < 3,
            lambda i, v: (i + 1, v * 2 + r),
            (torch.zeros((), dtype=torch.int64, device=a.device), a),
        ),
        *calls,
    )


@behaviour("control-flow", level="full", sees=())
def compiled_control_flow(lab: Lab) -> None:
    """Functions with control flow, compiled whole without a graph break, give their eager results."""
    x, y = lab.integers(4, 2, low=1, high=4), lab.integers(4, 2, low=1, high=4)
    zero = lab.put(0)
    layer = lab.to(torch.nn.Linear(2, 2))
    with torch.no_grad():
        layer.weight.copy_(lab.integers(2, 2))
        layer.bias.fill_(1)
    functions: dict[str, Function] = {
        "cond": lambda a, b: torch.cond(a.sum() > b.sum(), one, other, (a, b)),
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
            compiled_function = compiled(function, backend)
            with torch.no_grad():
                for inputs in ((x, y), (y, x)):
                    result, due = compiled_function(*inputs), function(*inputs)
                    lab.same(f"{name} by {backend}", result)
                    lab.holds(f"{name} by {backend}: as eagerly", equal(result, due))
    torch_testing_internals.reset_dynamo()


def compiled(function: Function, backend: str) -> Function:
    """torch.compile; tests break it here."""
    return torch.compile(function, backend=backend, fullgraph=True)
