"""Behaviours of ``scan`` and ``associative_scan``: tensors from closures, gradients, nested operators,
batches and refusals.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.control_flow.loops import (
    ERRORS,
    associative_scan,
    scan,
    scan_by_loop,
    trees_are_equal,
)


def associative_scan_by_loop(combine: Callable[..., Any], xs: torch.Tensor) -> torch.Tensor:
    """Return the documented result of ``associative_scan`` over the first dimension, computed by a Python
    loop.
    """
    # Each row is cloned, because control flow operators inside ``combine`` refuse inputs that share storage.
    rows = [xs[0].clone()]
    for row in xs[1:]:
        rows.append(combine(rows[-1], row.clone()))
    return torch.stack(rows)


def generic_associative_scan(combine: Callable[..., Any], xs: Any, dim: int = 0) -> Any:
    """Call ``associative_scan`` with ``combine_mode`` "generic", which accepts any associative function."""
    return associative_scan(combine, xs, dim, combine_mode="generic")


@behaviour(
    "control-flow",
    level="full",
    must_detect=(),
    page="higher_order_ops/associative_scan.html",
    basis="parity",
    ground="The page says that the function must not use closures, and mentions no nested operators",
)
def associative_scan_combines(lab: Lab) -> None:
    """The function that is passed to ``associative_scan`` may use tensors, modules and trees of tensors from
    closures. The function may contain loops, expanded tensors, ``vmap``, ``cond`` and another ``scan``.
    """
    xs, zeros = lab.integers(5, 3), lab.put([0.0, 1.0, 0.0])
    layer = lab.to(torch.nn.Linear(3, 3, bias=False))
    with torch.no_grad():
        layer.weight.copy_(torch.eye(3))
    tree = {"scale": [zeros], "by": 1.0}
    pred = lab.put(True)

    def scale_by_closed_over_tree(value: torch.Tensor) -> torch.Tensor:
        return value * tree["scale"][0] * tree["by"]  # type: ignore[index, no-any-return]

    def add_in_python_loop(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        total = torch.zeros_like(a)
        for step in range(3):
            total = total + (a + b) * (step == 1)
        return total

    def maximum_with_expanded(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.maximum(a, b.amax(-1, keepdim=True).expand(b.shape))

    def add_inner_scan(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a + b + generic_associative_scan(torch.add, a * 0, -1)  # type: ignore[no-any-return]

    # All of these functions are associative: they compute sums or maxima, and the factors from closures are
    # 0 or 1.
    functions: dict[str, Callable[..., Any]] = {
        "a closed-over tensor": lambda a, b: a * zeros + b * zeros,
        "a closed-over tree": lambda a, b: scale_by_closed_over_tree(a) + scale_by_closed_over_tree(b),
        "a closed-over function": lambda a, b: scale_by_closed_over_tree(a + b),
        "a module": lambda a, b: layer(a).detach() + b,
        "a loop": add_in_python_loop,
        "expanded": maximum_with_expanded,
        "vmap": lambda a, b: torch.vmap(torch.add)(a, b),
        "cond": lambda a, b: torch.cond(pred, torch.add, torch.sub, (a, b)),
        "a scan": add_inner_scan,
    }
    for name, function in functions.items():
        result = generic_associative_scan(function, xs)
        lab.same(name, result)
        with lab.consistent("associative_scan and the equivalent loop must agree"):
            lab.holds(
                f"{name}: operator and loop agree",
                torch.equal(result, associative_scan_by_loop(function, xs)),
            )
    pairs = generic_associative_scan(
        lambda a, b: {"p": a["p"] * zeros + b["p"] * zeros, "q": torch.maximum(a["q"], b["q"])},
        {"p": xs, "q": xs + 1},
    )
    lab.same("a tree of inputs", pairs)
    matrices = lab.integers(4, 2, 2, low=-1, high=2)
    turn = lab.put([[0.0, 1.0], [1.0, 0.0]])
    product = lambda a, b: a @ turn @ b  # noqa: E731
    lab.expect(
        "products",
        generic_associative_scan(product, matrices),
        associative_scan_by_loop(product, matrices).cpu(),
    )


@behaviour(
    "control-flow",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="higher_order_ops/associative_scan.html",
    basis="parity",
    ground="The page says that the operator supports neither gradients nor closures",
)
def associative_scan_differentiates(lab: Lab) -> None:
    """The gradient of ``associative_scan`` is the gradient of the equivalent loop, with respect to inputs and
    tensors from closures. This also holds if only some inputs require grad, and if a part of the function
    runs under ``no_grad``.
    """
    xs, ys, weight = lab.integers(4, 3), lab.integers(4, 3), lab.put([1.0, 0.0, 1.0])

    def weighted_sum(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a * weight + b

    # The weight does not require grad. The function is associative only for weights of 0 and 1, so that its
    # derivative with respect to the weight depends on the order of the calls.
    x = xs.clone().requires_grad_()
    gradients, expected = (
        torch.autograd.grad((each * each).sum(), x)
        for each in (generic_associative_scan(torch.add, x), associative_scan_by_loop(torch.add, x))
    )
    lab.same("a sum", gradients)
    with lab.consistent("the operator and the equivalent loop must have the same gradients"):
        lab.holds("a sum: gradients agree with the loop", trees_are_equal(gradients, expected))
    factor = torch.ones(3, device=lab.device, requires_grad=True)
    gradients = torch.autograd.grad(
        generic_associative_scan(lambda a, b: (a + b) * factor, x)[1].sum(), (x, factor)
    )
    expected = torch.autograd.grad(((x[0] + x[1]) * factor).sum(), (x, factor))
    lab.same("a closed-over factor", gradients)
    with lab.consistent("the operator and the equivalent program must have the same gradients"):
        lab.holds(
            "a closed-over factor: gradients agree with the program", trees_are_equal(gradients, expected)
        )
    first_result, second_result = generic_associative_scan(
        lambda a, b: (a[0] + b[0], torch.maximum(a[1], b[1])), (x, ys)
    )
    lab.same("gradient of only one input", torch.autograd.grad((first_result * first_result).sum(), x)[0])
    lab.holds("the result of the other input does not require grad", not second_result.requires_grad)

    def add_second_under_no_grad(a: Any, b: Any) -> Any:
        with torch.no_grad():
            second = a[1] + b[1]
        return a[0] + b[0], second

    first_result, second_result = generic_associative_scan(
        add_second_under_no_grad, (x, ys.clone().requires_grad_())
    )
    lab.same(
        "beside no_grad",
        [torch.autograd.grad((first_result * first_result).sum(), x)[0], second_result.detach()],
    )
    lab.same("weighted", generic_associative_scan(weighted_sum, xs))


@behaviour(
    "control-flow",
    level="full",
    must_detect=(),
    page="higher_order_ops/associative_scan.html",
    ground="The page restricts shapes and modes, and does not mention branches on values",
)
def associative_scan_refuses_functions(lab: Lab) -> None:
    """``associative_scan`` refuses a function whose results differ from the inputs in number or shape, and a
    function that branches on values. Inputs of different sizes are refused too. With
    ``combine_mode="pointwise"``, a function that is not pointwise is refused.
    """
    xs = lab.integers(4, 3)
    pair = (xs, xs + 1)
    wrong: dict[str, Callable[[], Any]] = {
        "fewer results": lambda: generic_associative_scan(lambda a, b: (a[0] + b[0],), pair),
        "another shape": lambda: generic_associative_scan(
            lambda a, b: (a[0] + b[0], (a[1] + b[1])[None]), pair
        ),
        "inputs of different sizes in the dimension": lambda: generic_associative_scan(
            lambda a, b: (a[0] + b[0], a[1] + b[1]), (xs, xs[:, :2]), 1
        ),
        "a branch on values": lambda: generic_associative_scan(
            lambda a, b: a + b if (a.sum() > 0).item() else a, xs
        ),
        "matmul with combine_mode pointwise": lambda: associative_scan(
            torch.matmul, torch.ones(3, 2, 2, device=lab.device), 0, combine_mode="pointwise"
        ),
        "an unknown mode": lambda: associative_scan(torch.add, xs, 0, combine_mode="other"),
    }
    for name, call in wrong.items():
        with (
            lab.parity("The page does not say that a branch on values is refused")
            if name == "a branch on values"
            else contextlib.nullcontext()
        ):
            lab.raises(name, call, *ERRORS, AssertionError)


@behaviour(
    "control-flow",
    level="full",
    must_detect=(),
    page="generated/torch.vmap.html",
    ground="The definition of vmap maps the function over the elements; no page names scan",
)
def scan_under_vmap(lab: Lab) -> None:
    """For each element of the batch, ``vmap`` over ``scan`` gives the result of ``scan`` for the element's
    carry and input. The batch may be in any dimension, and all elements may share an input or a tensor from a
    closure. The step may contain several operators, and ``vmap`` may be nested.
    """
    xs, start = lab.integers(2, 3, 3), lab.integers(2, 3)

    def sum_and_product_step(carry: torch.Tensor, x: torch.Tensor) -> Any:
        return carry + x, carry * x

    def scan_of_element(start: torch.Tensor, xs: torch.Tensor) -> Any:
        return scan(sum_and_product_step, start, xs, dim=0)

    def compare_elements(name: str, result: Any, results_by_loop: list[Any]) -> None:
        lab.same(name, result)
        expected = [torch.stack(parts) for parts in zip(*results_by_loop, strict=True)]
        lab.holds(f"{name}: the batch and single calls agree", trees_are_equal(result, expected))

    compare_elements(
        "both",
        torch.vmap(scan_of_element)(start, xs),
        [scan_by_loop(sum_and_product_step, s, x) for s, x in zip(start, xs, strict=True)],
    )
    compare_elements(
        "an input for all",
        torch.vmap(scan_of_element, in_dims=(0, None))(start, xs[0]),
        [scan_by_loop(sum_and_product_step, s, xs[0]) for s in start],
    )
    compare_elements(
        "other dimensions",
        torch.vmap(scan_of_element, in_dims=(0, 2))(start, xs.permute(1, 2, 0)),
        [scan_by_loop(sum_and_product_step, s, x) for s, x in zip(start, xs, strict=True)],
    )
    shared = lab.integers(3)

    def step_of_several_operators(carry: torch.Tensor, x: torch.Tensor) -> Any:
        new = torch.maximum(carry * shared, x - carry).clamp(-9, 9)
        return new, torch.where(x > 0, new, carry) + x.sum()

    with lab.parity("The page says that closures are not supported"):
        compare_elements(
            "several operators",
            torch.vmap(lambda s, x: scan(step_of_several_operators, s, x, dim=0))(start, xs),
            [scan_by_loop(step_of_several_operators, s, x) for s, x in zip(start, xs, strict=True)],
        )
    weights = lab.integers(2, 3)

    def step_with_vmapped_scan(carry: torch.Tensor, x: torch.Tensor) -> Any:
        inner = torch.vmap(lambda w: scan(sum_and_product_step, w, x[None], dim=0)[0])(weights)
        return carry + x, inner.sum(0) + carry

    def step_by_definition(carry: torch.Tensor, x: torch.Tensor) -> Any:
        return carry + x, (weights + x).sum(0) + carry

    with lab.parity("The page says that closures are not supported"):
        result = scan(step_with_vmapped_scan, start[0], xs[0], dim=0)
        lab.same("vmap in scan", result)
        lab.holds(
            "vmap in scan: scan and loop agree",
            trees_are_equal(result, scan_by_loop(step_by_definition, start[0], xs[0])),
        )
        compare_elements(
            "vmap of scan of vmap of scan",
            torch.vmap(lambda s, x: scan(step_with_vmapped_scan, s, x, dim=0))(start, xs),
            [scan_by_loop(step_by_definition, s, x) for s, x in zip(start, xs, strict=True)],
        )
