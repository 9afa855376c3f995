"""Behaviours of the results of ``autograd.Function`` classes: returned leaves, inputs changed in place,
non-differentiable results and saved results.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import Function

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


class _AddInPlaceAndReturnTwo(Function):
    """An ``autograd.Function`` that returns ``a += b``, in place, and ``b + 2``."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> Any:
        ctx.mark_dirty(a)
        return a.add_(b), b + 2

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any) -> Any:
        return first, first + second


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    page="generated/torch.autograd.function.FunctionCtx.mark_dirty.html",
)
def changed_inputs_as_results(lab: Lab) -> None:
    """An input that an ``autograd.Function`` changes in place and returns becomes a result of this function.
    The input then requires grad, also if it did not require grad before. If the input is a view, the gradient
    is passed to the view's base.
    """
    without_gradient, added = lab.put([1.0, 2.0]), lab.put([3.0, 4.0], requires_grad=True)
    changed, sum_of_two = _AddInPlaceAndReturnTwo.apply(without_gradient, added)
    with lab.parity("No page says that the result is the same Python object as the input"):
        lab.holds("the input itself is returned", changed is without_gradient)
    with lab.parity("No page says how the node of a Function is named"):
        lab.same("its node", type(changed.grad_fn).__name__)
    lab.same("needs", [changed.requires_grad, sum_of_two.requires_grad])
    changed.sum().backward()
    lab.expect("gradient of the second summand", added.grad, [1.0, 1.0])

    class ReturnsWrittenInputTwice(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            x.mul_(2)
            ctx.mark_dirty(x)
            return x, x

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            return first * 2 + second * 2

    leaf = lab.put([1.0, 2.0], requires_grad=True)
    first_result, second_result = ReturnsWrittenInputTwice.apply(leaf.clone())
    with lab.parity("No page says that two results are the same Python object"):
        lab.holds("a changed input returned twice is one tensor", first_result is second_result)
    first_result.sum().backward()
    lab.expect("its gradient", leaf.grad, [2.0, 2.0])
    with lab.parity("No page says that a changed view may not be returned twice"):
        lab.raises(
            "a changed view returned twice",
            lambda: ReturnsWrittenInputTwice.apply(leaf.clone().view_as(leaf)),
        )

    class DoublesInPlace(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2, None

    leaf.grad = None
    unused = lab.put([1.0], requires_grad=True)
    base = leaf.clone()
    DoublesInPlace.apply(base[:], unused).sum().backward()
    lab.expect("gradient through a view", leaf.grad, [2.0, 2.0])
    lab.holds("a gradient that the backward returns as None is not added", unused.grad is None)


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    page="generated/torch.autograd.function.FunctionCtx.mark_non_differentiable.html",
)
def changed_inputs_without_gradients(lab: Lab) -> None:
    """An ``autograd.Function`` may mark one result as both changed in place and non-differentiable. This
    result does not require grad, and the other results do.
    """

    class ZeroesInputInPlace(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
            x.mul_(0)
            ctx.mark_dirty(x)
            ctx.mark_non_differentiable(x)
            return x, y * 3

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            return None, second * 3

    x, y = lab.put([1.0, 2.0], requires_grad=True), lab.put([3.0, 4.0], requires_grad=True)
    cleared_input = x.clone()
    cleared, tripled = ZeroesInputInPlace.apply(cleared_input, y)
    lab.shares("the input and the cleared result", cleared_input, cleared)
    lab.same("needs", [cleared.requires_grad, tripled.requires_grad])
    lab.same("value", cleared.detach())
    (cleared + tripled).sum().backward()
    lab.expect("gradient of the other input", y.grad, [3.0, 3.0])
    with lab.parity("No page says that a backward of a tensor without history is an error"):
        lab.raises(
            "backward of the non-differentiable result",
            lambda: cleared.sum().backward(),
            match="does not require grad",
        )


@behaviour(
    "autograd",
    must_detect=("value",),
    ground="hooks of a tensor get its whole gradient; under no_grad nothing is recorded",
)
def leaves_as_results(lab: Lab) -> None:
    """A leaf that an ``autograd.Function`` returns becomes a result of this function. The leaf's hooks
    receive the sum of the gradients of all its uses. Under ``no_grad`` the leaf remains a leaf.
    """

    class ReturnsInputAndSum(Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> Any:
            return a, a + b

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            return first + second, second

    x, y = lab.put([1.0, 2.0], requires_grad=True), lab.put([3.0, 4.0], requires_grad=True)
    hook_gradients: list[torch.Tensor] = []
    same, total = ReturnsInputAndSum.apply(x, y)
    x.register_hook(lambda grad: hook_gradients.append(grad.clone()))
    (same + total).sum().backward()
    lab.same("gradients that the leaf's hook received", hook_gradients)
    lab.same("gradients", [x.grad, y.grad])

    class ReturnsInput(Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor) -> Any:
            return a

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    with torch.no_grad():
        out = ReturnsInput.apply(x)
    lab.same("under no_grad", [x.requires_grad, out.grad_fn is None, x.is_leaf])
    rows = lab.integers(3, 2)
    first, second = lab.put([1.0, 2.0], requires_grad=True), lab.put([3.0, 4.0], requires_grad=True)
    rows[0] = first
    rows[1] = 2 * second
    lab.same("a tensor into which tensors with grad were written", [rows.requires_grad, rows.is_leaf])
    rows.sum().backward()
    lab.expect("gradient of a part", first.grad, [1.0, 1.0])
    lab.expect("gradient of a part that was doubled", second.grad, [2.0, 2.0])


@behaviour(
    "autograd",
    must_detect=("value",),
    page="generated/torch.autograd.function.FunctionCtx.save_for_backward.html",
    basis="parity",
    ground="No page describes output_nr or which node a saved result has",
)
def saved_results_of_functions(lab: Lab) -> None:
    """A result that an ``autograd.Function`` saves is unpacked with its output number and with the function's
    node as ``grad_fn``.
    """
    positions: list[Any] = []

    class ReturnsAndSavesThreeResults(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            parts = x * 1, x * 2, x * 3
            ctx.save_for_backward(*parts)
            return parts

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            saved = ctx.saved_tensors
            positions.append([part.output_nr for part in saved])
            positions.append([part.grad_fn is ctx for part in saved])
            return grads[0] + 2 * grads[1] + 3 * grads[2]

    x = lab.put([1.0, 2.0], requires_grad=True)
    parts = ReturnsAndSavesThreeResults.apply(x)
    lab.same("places", [part.output_nr for part in parts])
    (parts[1] + parts[2]).sum().backward()
    lab.same("output numbers of the saved results", positions)
    with lab.documented():
        lab.expect("gradient", x.grad, [5.0, 5.0])
