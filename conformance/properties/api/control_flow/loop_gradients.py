"""Behaviours of the gradients of ``scan``, ``map``, ``cond`` and ``while_loop`` through layers and
``no_grad`` blocks, and of Python integers in the state of ``while_loop``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.control_flow import branches, graphs
from conformance.properties.api.control_flow.branches import predicate_tensor
from conformance.properties.api.control_flow.loops import (
    ERRORS,
    associative_scan,
    map_over,
    scan,
    scan_by_loop,
    trees_are_equal,
    while_loop,
)


def compare_results_and_gradients(
    lab: Lab, name: str, results: Any, expected_results: Any, inputs: list[torch.Tensor]
) -> None:
    """Record results and their gradients, which must equal the expected results and gradients. The gradients
    are computed for the sum of the squared results.

    The sum includes only results whose expected tensor requires grad.
    """
    differentiable = [index for index, tensor in enumerate(expected_results) if tensor.requires_grad]
    lab.holds(
        f"{name}: results that must require grad do",
        all(results[index].requires_grad for index in differentiable),
    )
    gradients, expected_gradients = (
        torch.autograd.grad(
            torch.stack([(outputs[index] * outputs[index]).sum() for index in differentiable]).sum(),
            inputs,
            allow_unused=True,
        )
        for outputs in (results, expected_results)
    )
    filled, filled_expected = (
        [torch.zeros_like(i) if g is None else g for g, i in zip(gradient_list, inputs, strict=True)]
        for gradient_list in (gradients, expected_gradients)
    )
    values, expected_values = (
        [tensor.detach() for tensor in outputs] for outputs in (results, expected_results)
    )
    with lab.consistent("The operator and the equivalent program must have the same results and gradients"):
        lab.same(name, [values, filled])
        lab.holds(
            f"{name}: the operator and the equivalent program agree",
            trees_are_equal(values, expected_values) and trees_are_equal(filled, filled_expected),
        )


@behaviour(
    "control-flow",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="higher_order_ops/scan.html",
    basis="consistency",
    ground="scan and the equivalent loop must have the same gradients",
)
def scan_differentiates_parts(lab: Lab) -> None:
    """The gradient of ``scan`` is the gradient of the equivalent loop. The step may be a stack of layers, may
    return one value as both carry and output, and may compute the carry or the output under ``no_grad``.
    """
    xs, start = lab.integers(3, 2, requires_grad=True), lab.integers(2, requires_grad=True)
    weights = [lab.integers(2, 2, low=-1, high=2, requires_grad=True) for _ in range(2)]

    def layered_step(carry: torch.Tensor, x: torch.Tensor) -> Any:
        hidden = carry
        for weight in weights:
            hidden = (hidden @ weight + x).relu()
        return hidden, hidden * x

    def step_with_equal_outputs(carry: torch.Tensor, x: torch.Tensor) -> Any:
        new = carry * x
        return new, new.clone()

    def step_with_no_grad_carry(carry: torch.Tensor, x: torch.Tensor) -> Any:
        with torch.no_grad():
            new = carry + x
        return new, x * x + new

    def step_with_no_grad_output(carry: torch.Tensor, x: torch.Tensor) -> Any:
        with torch.no_grad():
            out = carry + x
        return carry * x, out

    for name, step in (
        ("one value twice", step_with_equal_outputs),
        ("no_grad for the output", step_with_no_grad_output),
    ):
        compare_results_and_gradients(
            lab, name, scan(step, start, xs, dim=0), scan_by_loop(step, start, xs), [xs, start]
        )
    constant = start.detach()
    compare_results_and_gradients(
        lab,
        "no_grad for the carry",
        scan(step_with_no_grad_carry, constant, xs, dim=0),
        scan_by_loop(step_with_no_grad_carry, constant, xs),
        [xs],
    )
    with lab.parity("The page says that closures are not supported"):
        compare_results_and_gradients(
            lab,
            "layers",
            scan(layered_step, start, xs, dim=0),
            scan_by_loop(layered_step, start, xs),
            [xs, start, *weights],
        )


@behaviour(
    "control-flow",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    basis="parity",
    ground="The pages say that map and while_loop do not support gradients",
)
def loops_differentiate_parts(lab: Lab) -> None:
    """The gradients of ``map``, ``while_loop`` and ``cond`` are the gradients of the equivalent Python
    program. This holds for nested lists, for results of which only some require grad, and for a user-defined
    module.
    """
    a, b = lab.integers(3, 2, requires_grad=True), lab.integers(3, 1, requires_grad=True)
    with lab.consistent("cond and a direct call of the chosen branch must have the same gradients"):
        _compare_gradients_of_cond(lab, a)
    y = lab.integers(2)

    def products_in_lists(x: Any, y: torch.Tensor) -> Any:
        (p, q), r = x
        return [[p * q], r * y]

    result = map_over(products_in_lists, [[a, b], a * a], y)
    expected = [[a * b], a * a * y]
    compare_results_and_gradients(
        lab,
        "map of nested lists",
        [result[0][0], result[1]],
        [expected[0][0], expected[1]],  # type: ignore[index]
        [a, b],
    )
    compare_results_and_gradients(
        lab,
        "map with a result that does not require grad",
        map_over(lambda x, y: (x[0] * x[0] + y, y * 2), [a, lab.integers(3, 2)], y),
        [a * a + y, torch.stack([y * 2] * 3)],
        [a],
    )
    weight = lab.integers(2, requires_grad=True)
    powers = while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v * weight), (lab.put(0), a))
    compare_results_and_gradients(lab, "while_loop", powers[1:], [a * weight * weight], [a, weight])


def _compare_gradients_of_cond(lab: Lab, a: torch.Tensor) -> None:
    """Compare the gradients of ``cond`` for a module as branch and for a tree of results."""

    class ScaledSquareModule(torch.nn.Module):
        def __init__(self, weight: torch.Tensor) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(weight)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.weight * x.square()

    module = ScaledSquareModule(lab.integers(2))
    for value in (True, False):
        chosen = branches.call_cond(predicate_tensor(lab, value), module, lambda v: (v + 4).abs(), (a,))
        reference = module(a) if value else (a + 4).abs()
        compare_results_and_gradients(
            lab, f"cond with a module, {value}", [chosen], [reference], [a, module.weight]
        )
        c = lab.integers(3, 2, requires_grad=True)
        chosen = branches.call_cond(
            predicate_tensor(lab, value),
            lambda t: {"p": [t["q"][0] * 2, (t["r"] * t["r"],)]},
            lambda t: {"p": [t["r"] * 3, (t["q"][0] * t["r"],)]},
            ({"q": [a], "r": c},),
        )
        reference_tree = [a * 2, c * c] if value else [c * 3, a * c]
        compare_results_and_gradients(
            lab,
            f"cond with a tree of results, {value}",
            [chosen["p"][0], chosen["p"][1][0]],
            reference_tree,
            [a, c],
        )


@behaviour(
    "control-flow",
    level="full",
    must_detect=(),
    page="higher_order_ops/while_loop.html",
    ground="follows from the equivalent program; the page calls the integers unknown in traced programs",
)
def while_loop_counts(lab: Lab) -> None:
    """The state of ``while_loop`` may contain Python integers, directly or in trees. Eager calls, compiled
    calls and exported programs return the final integers.
    """
    x, row = lab.integers(4, 3), lab.integers(3)

    def loop_over_integer(a: torch.Tensor, r: torch.Tensor) -> Any:
        return while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v * r), (0, a))

    def loop_over_integer_tree(a: torch.Tensor, r: torch.Tensor) -> Any:
        state, last = while_loop(
            lambda t, v: t["n"][0] < 3,
            lambda t, v: ({"n": [t["n"][0] + 1], "k": t["k"] * 2}, v + r * t["k"]),
            ({"n": [0], "k": 1}, a),
        )
        return (state["n"][0], state["k"], last)

    for name, function, numbers, expected in (
        ("a number", loop_over_integer, (2,), x * row * row),
        ("a tree", loop_over_integer_tree, (3, 8), x + row * 7),
    ):
        torch_testing_internals.reset_dynamo()
        for variant, call in (
            ("plain", function),
            ("compiled", graphs.compile_with_backend(function, "eager")),
        ):
            *counts, last = call(x, row)
            lab.same(f"{name}, {variant}: numbers", [int(count) for count in counts])
            lab.holds(
                f"{name}, {variant}: the final integers are correct", tuple(map(int, counts)) == numbers
            )
            lab.expect(f"{name}, {variant}", last, expected.cpu())
        program = torch.export.export(_FunctionModule(function), (x, row)).module()
        *counts, last = program(x, row)
        lab.same(f"{name}, exported", [[int(count) for count in counts], last])


class _FunctionModule(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


@behaviour(
    "control-flow",
    level="full",
    must_detect=(),
    page="higher_order_ops/associative_scan.html",
    ground="follows from the formulas of both pages",
)
def scan_agrees_with_associative_scan(lab: Lab) -> None:
    """A ``scan`` gives the result of ``associative_scan`` with ``f`` if the first carry is the first element,
    and if the step returns ``f(carry, x)`` both as carry and as output.
    """
    xs = lab.integers(5, 3, low=-2, high=3)
    functions: dict[str, Callable[..., Any]] = {"add": torch.add, "mul": torch.mul, "max": torch.maximum}
    for name, combine in functions.items():

        def combine_step(carry: torch.Tensor, x: torch.Tensor, combine: Any = combine) -> Any:
            new = combine(carry, x)
            return new, new.clone()

        outputs = scan(combine_step, xs[0].clone(), xs[1:].clone(), dim=0)[1]
        expected = associative_scan(combine, xs, 0, combine_mode="generic")
        lab.same(name, outputs)
        with lab.consistent("both operators must give the same running results"):
            lab.holds(f"{name}: both operators agree", torch.equal(outputs, expected[1:]))
    start = lab.integers(3)
    with lab.parity("No page says that a number as output is refused"):
        lab.raises("a number as output", lambda: scan(lambda c, x: (c + x, 0.5), start, xs, dim=0), *ERRORS)
    lab.raises("a number as carry", lambda: scan(lambda c, x: (0.5, c + x), start, xs, dim=0), *ERRORS)
    lab.raises(
        "a carry of a different structure",
        lambda: scan(
            lambda c, x: ({"p": c["p"] + x, "q": (c["q"],)}, x + 1), {"p": start, "q": start + 1}, xs, dim=0
        ),
        *ERRORS,
    )
