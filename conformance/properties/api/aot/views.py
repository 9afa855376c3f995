"""Behaviours of ahead-of-time autograd: views among the results of a function, and ``requires_grad`` flags of
inputs and results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.aot import functions
from conformance.properties.api.aot.functions import compare_with_eager, non_leaf_copies, trees_are_equal


class HalvesGradient(torch.autograd.Function):
    """An ``autograd.Function`` that returns its input and halves the gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Return ``x`` itself."""
        return x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        """Return half of the gradient."""
        return grad * 0.5


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd", "storage"),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/generated/functorch.compile.aot_function.html",
    basis="consistency",
    ground="sharing of memory and gradients of views must agree between the traced and the eager call",
)
def aot_views_beside_writes(lab: Lab) -> None:
    """Views that a traced function returns share memory and pass gradients as the views of the original
    function do. The views may be views of written, transposed or unchanged inputs, and of intermediate
    results.
    """
    x, y, z = lab.integers(3, 4), lab.integers(3, 4), lab.integers(3, 4)
    compare_with_eager(
        lab,
        "two written, two views",
        lambda a, b, c: (a.mul_(2), c.mul_(3), b.view(4, 3), c.view(4, 3))[2:],
        x,
        y,
        z,
        make_arguments=non_leaf_copies,
    )
    compare_with_eager(
        lab,
        "three views: of an unchanged, a written and a transposed input",
        lambda a, b, c: (b.mul_(3), c.t_(), a.view(-1), b.view(4, 3), c.unsqueeze(0))[2:],
        x,
        y,
        z,
        make_arguments=non_leaf_copies,
    )

    def view_result_and_detached_row(a: torch.Tensor) -> Any:
        b = a * 3
        return b.view(-1), b, b[0].detach()

    def views_of_two_intermediates(a: torch.Tensor) -> Any:
        b, c = a * 3, a * 4
        return b.view(-1), c.t(), b.t()

    def transpose_and_detach_in_place(a: torch.Tensor) -> Any:
        b = a * 3
        b.t_()
        b.detach_()
        return b, a + 1

    compare_with_eager(lab, "one without a gradient", view_result_and_detached_row, x)
    compare_with_eager(lab, "of two intermediates", views_of_two_intermediates, x)
    compare_with_eager(lab, "turned and detached", transpose_and_detach_in_place, x)
    compare_with_eager(
        lab,
        "a detached input and an unchanged input",
        lambda a, b: (a.detach(), b),
        x,
        y,
        make_arguments=non_leaf_copies,
    )
    compare_with_eager(
        lab,
        "a function that returns its input",
        lambda a: HalvesGradient.apply(a),
        x,
        make_arguments=non_leaf_copies,
    )
    compare_with_eager(
        lab,
        "a view with a size that is an argument",
        lambda a, n: (a.view(n), a.view(-1)),
        x,
        make_arguments=tensor_and_size,
        dynamic=True,
    )

    start = x.clone().requires_grad_()
    result, expected = functions.trace_with_aot_autograd(lambda a: (a + 1).view(-1))(start), (x + 1).view(-1)
    result.mul_(2)
    lab.same("a result written afterwards", result.detach())
    lab.holds("a result that is written after the call", trees_are_equal(result.detach(), expected * 2))
    (gradient,) = torch.autograd.grad(result.sum(), start)
    lab.expect("its gradient", gradient, torch.full((3, 4), 2.0))


def tensor_and_size(clones: Sequence[torch.Tensor]) -> list[Any]:
    """Return a tensor and the number of its elements."""
    return [clones[0].clone(), clones[0].numel()]


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/generated/functorch.compile.aot_function.html",
    basis="consistency",
    ground="requires_grad flags and gradients of the traced and of the eager call must agree",
)
def aot_flags_of_results(lab: Lab) -> None:
    """Results and inputs of a traced function have the ``requires_grad`` flags that the original function
    gives them. The function may set flags, use ``enable_grad`` under ``no_grad``, create views under
    ``no_grad``, and compute gradients.
    """
    x, y = lab.integers(3, 4), lab.integers(3, 4)

    def require_grad_of_view(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        view = a.view(-1)
        view.requires_grad_(True)
        return view

    def require_grad_of_input(a: torch.Tensor, b: torch.Tensor) -> Any:
        a.requires_grad_(True)
        return a * 3, b * 4

    def square_under_enable_grad(a: torch.Tensor, b: torch.Tensor) -> Any:
        product = a * b
        with torch.enable_grad():
            square = a * a
        return product, square

    def gradient_inside(a: torch.Tensor, b: torch.Tensor) -> Any:
        return torch.autograd.grad((a * a * b).sum(), a)

    def view_and_product(a: torch.Tensor, b: torch.Tensor) -> Any:
        return a.view(-1), a * b

    for name, function, first, second, grad in (
        ("set on a view", require_grad_of_view, False, True, True),
        ("set on an input", require_grad_of_input, False, True, True),
        ("enable_grad under no_grad", square_under_enable_grad, True, False, False),
        ("enable_grad without an input that requires grad", square_under_enable_grad, False, False, False),
        ("a view under no_grad", view_and_product, True, False, False),
        ("grad inside", gradient_inside, True, False, True),
    ):
        traced_function = functions.trace_with_aot_autograd(function)
        observed = []
        for call in (traced_function, function):
            a, b = x.clone().requires_grad_(first), y.clone().requires_grad_(second)
            with torch.set_grad_enabled(grad):
                results = call(a, b)
            results = [results] if isinstance(results, torch.Tensor) else list(results)
            ends = [result for result in results if result.grad_fn is not None]
            leaves = [leaf for leaf, flag in ((a, first), (b, second)) if flag]
            gradients: Any = ()
            if ends and leaves:
                gradients = torch.autograd.grad(sum(end.sum() for end in ends), leaves, allow_unused=True)
            observed.append(
                {
                    "results": [result.detach().clone() for result in results],
                    "flags": [result.requires_grad for result in results],
                    "gradients": [g if g is None else g.clone() for g in gradients],
                }
            )
        lab.same(name, observed[0])
        for part, value in observed[1].items():
            lab.holds(f"{name}: {part}, traced and eager agree", trees_are_equal(observed[0][part], value))

    written = functions.trace_with_aot_autograd(lambda a, b: a.add_(b))
    leaf = y.clone().requires_grad_()
    result = written(x.clone(), leaf)
    lab.same("a written input that did not require grad", result.detach())
    (gradient,) = torch.autograd.grad(result.sum(), leaf)
    lab.expect("its gradient", gradient, torch.ones(3, 4))


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/generated/functorch.compile.aot_function.html",
    basis="parity",
    ground="No page says that a write into one of several views of a function is an error",
)
def aot_views_that_must_not_be_written(lab: Lab) -> None:
    """If a traced function returns several views of its input, a write into one of the views is an error, as
    without tracing.
    """
    for name, function in (
        ("traced", functions.trace_with_aot_autograd(lambda a: list(a.unbind(0)))),
        ("plain", torch.unbind),
    ):
        start = lab.integers(3, 3).requires_grad_()
        views = function(start.clone())
        with lab.consistent("The traced and the eager function must return the same views"):
            lab.same(f"{name}: the views", [view.detach().clone() for view in views])
        lab.raises(
            f"{name}: a write",
            lambda views=views: views[0].mul_(2),  # type: ignore[misc]
            match="output views|multiple views",
        )
        base = start.clone()
        views = function(base)
        base.mul_(2)
        lab.raises(
            f"{name}: after a write into the base",
            lambda views=views: views[0].grad_fn,  # type: ignore[misc]
            match="output views|multiple views",
        )
