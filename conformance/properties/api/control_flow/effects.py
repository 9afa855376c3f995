"""Writes and aliases in the functions of control flow operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.func import functionalize

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.control_flow import branches, graphs
from conformance.properties.api.control_flow.branches import predicate
from conformance.properties.api.control_flow.loops import ERRORS, map_over, scan, trees_are_equal, while_loop


@behaviour("control-flow", level="full", sees=())
def writes_of_branches_are_refused(lab: Lab) -> None:
    """cond refuses branches that write to an operand, directly, through a view or in a nested branch. It
    refuses branches that return an operand, a view of it, or one tensor twice. This holds in eager calls,
    under functionalize and in a graph.
    """
    x, y, pred = lab.integers(3), lab.integers(3), predicate(lab, True)

    def total(a: torch.Tensor) -> torch.Tensor:
        return a.sum()

    def written(a: torch.Tensor) -> torch.Tensor:
        return a.add_(1).sum()

    def written_by_view(a: torch.Tensor) -> torch.Tensor:
        return a.view(-1).add_(1).sum()

    def inner(a: torch.Tensor) -> Any:
        return torch.cond(a.sum() > 0, written, total, (a,))

    wrong: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "a write in the first": (written, total),
        "a write in the second": (total, written),
        "a write through a view": (written_by_view, total),
        "a nested write": (inner, total),
        "the operand": (lambda a: a, lambda a: a.view(3)),
        "one result twice": (lambda a: 2 * (a + 1,), lambda a: (a + 1, a + 2)),
    }
    for name, (yes, no) in wrong.items():

        def run(p: torch.Tensor, a: torch.Tensor, yes: Any = yes, no: Any = no) -> Any:
            return branches.choose(p, yes, no, (a,))

        lab.raises(name, lambda run=run: run(pred, x), *ERRORS)  # type: ignore[misc]
        lab.raises(
            f"{name}, in a graph",
            lambda run=run: graphs.traced(functionalize(run), pred, x, sizes="symbolic"),  # type: ignore[misc]
            *ERRORS,
        )

    def replaced(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.set_(b)  # type: ignore[call-overload]
        return a + b

    lab.raises("set_", lambda: branches.choose(pred, replaced, replaced, (x, y)), *ERRORS)


@behaviour("control-flow", level="full", sees=())
def writes_of_loops_are_refused(lab: Lab) -> None:
    """map, scan and while_loop refuse functions that write to their arguments, that return an argument or a
    view of it, or that return one tensor twice.
    """
    xs, row, zero = lab.integers(4, 3), lab.integers(3), lab.put(0)

    def mapped(body: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: functionalize(lambda a, r: map_over(body, a, r))(xs, row)

    def scanned(step: Callable[..., Any], start: Any) -> Callable[[], Any]:
        return lambda: functionalize(lambda a, c: scan(step, c, a, dim=0))(xs, start)

    def looped(body: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: while_loop(lambda i, a, b: i < 3, body, (zero, row, row + 1))

    def twice(value: torch.Tensor) -> Any:
        return value, value

    wrong: dict[str, Callable[[], Any]] = {
        "map, a write to the row": mapped(lambda v, r: v.add_(4) + r),
        "map, a write to the argument": mapped(lambda v, r: v + r.add_(4)),
        "map, a view of the row": mapped(lambda v, r: v.view(v.shape)),
        "map, the row": mapped(lambda v, r: v),
        "scan, a write to the input": scanned(lambda c, v: (c + v.add_(1), v + 1), row),
        "scan, a write to the carry": scanned(lambda c, v: (c.add_(v), v + 1), row),
        "scan, the input as output": scanned(lambda c, v: (c + v, v), row),
        "scan, the input as carry": scanned(lambda c, v: (v, c + v), row),
        "scan, one carry twice": scanned(lambda c, v: (twice(c[0] + v), c[1] + v), (row, row + 1)),
        "scan, the carry as output too": scanned(lambda c, v: twice(c + v), row),
        "while_loop, a write": looped(lambda i, a, b: (i + 1, a.add_(1), b + 1)),
        "while_loop, the state": looped(lambda i, a, b: (i + 1, a, b + 1)),
        "while_loop, one tensor twice": looped(lambda i, a, b: (i + 1, *twice(a + b))),
    }
    for name, call in wrong.items():
        lab.raises(name, call, *ERRORS)


@behaviour("control-flow", level="full", capabilities=("autograd",), sees=())
def writes_inside_are_kept_inside(lab: Lab) -> None:
    """Functions of control flow may write to tensors that they create. Under functionalize, their graphs
    contain no operator that writes, and give the same results.
    """
    x, row, zero = lab.integers(4, 3), lab.integers(3), lab.put(0)

    def work(a: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        added = a + r
        added.view(-1).add_(4)
        return added * r

    functions: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
        "cond": lambda a, r: torch.cond(a.sum() > 3, work, lambda a, r: (a - r).mul_(2), (a, r)),
        "map": lambda a, r: map_over(work, a, r),
        "scan": lambda a, r: scan(lambda c, v: (work(c, v).clamp(-9, 9), work(v, c)), r, a, dim=0),
        "while_loop": lambda a, r: while_loop(
            lambda i, v: i.clone().add_(1) < 3, lambda i, v: (i + 1, work(v, r).clamp(-9, 9)), (zero, a)
        ),
        "map of cond": lambda a, r: map_over(
            lambda v, r: torch.cond(r.sum() > 0, work, lambda v, r: (v * 2).sub_(r), (v, r)), a, r
        ),
    }
    for name, function in functions.items():
        torch_testing_internals.reset_dynamo()
        graph = graphs.traced(functionalize(function), x, row, sizes="fake", closures=True)
        results, expected = [graph(x, row), graph(-x, row)], [function(x, row), function(-x, row)]
        lab.same(name, results)
        lab.holds(f"{name}: as the function", trees_are_equal(results, expected))
        lab.same(f"operators that write, {name}", torch_testing_internals.writing_operators(graph))
