"""Behaviours of writes and aliases in the functions that are passed to control flow operators."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch.func import functionalize

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.control_flow import branches, graphs
from conformance.properties.api.control_flow.branches import predicate_tensor
from conformance.properties.api.control_flow.loops import ERRORS, map_over, scan, trees_are_equal, while_loop


@behaviour(
    "control-flow",
    level="full",
    must_detect=(),
    capabilities=("storage",),
    page="higher_order_ops/cond.html",
    ground="The page allows writes only without grad mode, and does not mention aliased results",
)
def writes_of_branches_are_refused(lab: Lab) -> None:
    """``cond`` refuses a branch that writes to an operand, directly, through a view or in a nested branch.
    ``cond`` also refuses a branch that returns an operand, a view of an operand, or one tensor twice. These
    branches are refused in eager calls, under ``functionalize`` and in a graph.
    """
    x, y, pred = lab.integers(3), lab.integers(3), predicate_tensor(lab, True)

    def sum_of_elements(a: torch.Tensor) -> torch.Tensor:
        return a.sum()

    def write_and_sum(a: torch.Tensor) -> torch.Tensor:
        return a.add_(1).sum()

    def write_view_and_sum(a: torch.Tensor) -> torch.Tensor:
        return a.view(-1).add_(1).sum()

    def cond_with_writing_branch(a: torch.Tensor) -> Any:
        return torch.cond(a.sum() > 0, write_and_sum, sum_of_elements, (a,))

    wrong: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "a write in the first branch": (write_and_sum, sum_of_elements),
        "a write in the second branch": (sum_of_elements, write_and_sum),
        "a write through a view": (write_view_and_sum, sum_of_elements),
        "a nested write": (cond_with_writing_branch, sum_of_elements),
        "the operand": (lambda a: a, lambda a: a.view(3)),
        "one result twice": (lambda a: 2 * (a + 1,), lambda a: (a + 1, a + 2)),
    }
    for name, (yes, no) in wrong.items():

        def cond_of_branches(p: torch.Tensor, a: torch.Tensor, yes: Any = yes, no: Any = no) -> Any:
            return branches.call_cond(p, yes, no, (a,))

        with (
            lab.parity("The page does not say that results that share memory are refused")
            if name in ("the operand", "one result twice")
            else contextlib.nullcontext()
        ):
            lab.raises(name, lambda call=cond_of_branches: call(pred, x), *ERRORS)  # type: ignore[misc]
            lab.raises(
                f"{name}, in a graph",
                lambda call=cond_of_branches: graphs.trace_graph(
                    functionalize(call), pred, x, tracing_mode="symbolic"
                ),  # type: ignore[misc]
                *ERRORS,
            )

    def set_storage_and_add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.set_(b)  # type: ignore[call-overload]
        return a + b

    lab.raises(
        "set_", lambda: branches.call_cond(pred, set_storage_and_add, set_storage_and_add, (x, y)), *ERRORS
    )


@behaviour(
    "control-flow",
    level="full",
    must_detect=(),
    page="higher_order_ops/scan.html",
    ground="The pages forbid writes and aliases; map's page only writes; only scan's page repeated results",
)
def writes_of_loops_are_refused(lab: Lab) -> None:
    """``map``, ``scan`` and ``while_loop`` refuse a function that writes to its arguments, returns an
    argument or a view of an argument, or returns one tensor twice.
    """
    xs, row, zero = lab.integers(4, 3), lab.integers(3), lab.put(0)

    def functionalized_map_call(body: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: functionalize(lambda a, r: map_over(body, a, r))(xs, row)

    def functionalized_scan_call(step: Callable[..., Any], start: Any) -> Callable[[], Any]:
        return lambda: functionalize(lambda a, c: scan(step, c, a, dim=0))(xs, start)

    def while_loop_call(body: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: while_loop(lambda i, a, b: i < 3, body, (zero, row, row + 1))

    def same_tensor_twice(value: torch.Tensor) -> Any:
        return value, value

    wrong: dict[str, Callable[[], Any]] = {
        "map, a write to the row": functionalized_map_call(lambda v, r: v.add_(4) + r),
        "map, a write to the argument": functionalized_map_call(lambda v, r: v + r.add_(4)),
        "map, a view of the row": functionalized_map_call(lambda v, r: v.view(v.shape)),
        "map, the row": functionalized_map_call(lambda v, r: v),
        "scan, a write to the input": functionalized_scan_call(lambda c, v: (c + v.add_(1), v + 1), row),
        "scan, a write to the carry": functionalized_scan_call(lambda c, v: (c.add_(v), v + 1), row),
        "scan, the input as output": functionalized_scan_call(lambda c, v: (c + v, v), row),
        "scan, the input as carry": functionalized_scan_call(lambda c, v: (v, c + v), row),
        "scan, one carry twice": functionalized_scan_call(
            lambda c, v: (same_tensor_twice(c[0] + v), c[1] + v), (row, row + 1)
        ),
        "scan, one tensor as carry and output": functionalized_scan_call(
            lambda c, v: same_tensor_twice(c + v), row
        ),
        "while_loop, a write": while_loop_call(lambda i, a, b: (i + 1, a.add_(1), b + 1)),
        "while_loop, the state": while_loop_call(lambda i, a, b: (i + 1, a, b + 1)),
        "while_loop, one tensor twice": while_loop_call(lambda i, a, b: (i + 1, *same_tensor_twice(a + b))),
    }
    for name, call in wrong.items():
        with (
            lab.parity("The page of this operator does not say that these aliases are refused")
            if name in ("map, a view of the row", "map, the row", "while_loop, one tensor twice")
            else contextlib.nullcontext()
        ):
            lab.raises(name, call, *ERRORS)


@behaviour(
    "control-flow",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="generated/torch.func.functionalize.html",
)
def writes_inside_are_kept_inside(lab: Lab) -> None:
    """Functions that are passed to control flow operators may write to tensors that they create. Under
    ``functionalize``, the graphs of these functions give the same results and contain no operator that
    writes.
    """
    x, row, zero = lab.integers(4, 3), lab.integers(3), lab.put(0)

    def add_write_and_multiply(a: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        added = a + r
        added.view(-1).add_(4)
        return added * r

    functions: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
        "cond": lambda a, r: torch.cond(
            a.sum() > 3, add_write_and_multiply, lambda a, r: (a - r).mul_(2), (a, r)
        ),
        "map": lambda a, r: map_over(add_write_and_multiply, a, r),
        "scan": lambda a, r: scan(
            lambda c, v: (add_write_and_multiply(c, v).clamp(-9, 9), add_write_and_multiply(v, c)),
            r,
            a,
            dim=0,
        ),
        "while_loop": lambda a, r: while_loop(
            lambda i, v: i.clone().add_(1) < 3,
            lambda i, v: (i + 1, add_write_and_multiply(v, r).clamp(-9, 9)),
            (zero, a),
        ),
        "map of cond": lambda a, r: map_over(
            lambda v, r: torch.cond(
                r.sum() > 0, add_write_and_multiply, lambda v, r: (v * 2).sub_(r), (v, r)
            ),
            a,
            r,
        ),
    }
    for name, function in functions.items():
        torch_testing_internals.reset_dynamo()
        graph = graphs.trace_graph(
            functionalize(function), x, row, tracing_mode="fake", allow_closed_over_tensors=True
        )
        results, expected = [graph(x, row), graph(-x, row)], [function(x, row), function(-x, row)]
        lab.same(name, results)
        lab.holds(f"{name}: as the function", trees_are_equal(results, expected))
        lab.same(f"operators that write, {name}", torch_testing_internals.writing_operators(graph))
