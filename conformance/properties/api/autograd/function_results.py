"""Results of Functions: leaves, changed inputs, results marked twice, and saved results."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import Function

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


class _Added(Function):
    """``a += b`` in place, and ``b + 2``."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> Any:
        ctx.mark_dirty(a)
        return a.add_(b), b + 2

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any) -> Any:
        return first, first + second


@behaviour("autograd", sees=("value", "error"))
def changed_inputs_as_results(lab: Lab) -> None:
    """An input that is changed in place and returned becomes a result of the Function: a plain one comes to
    need gradients, and a view passes them to its base.
    """
    plain, other = lab.put([1.0, 2.0]), lab.put([3.0, 4.0], requires_grad=True)
    changed, sum_of_two = _Added.apply(plain, other)
    lab.holds("the input itself is returned", changed is plain)
    lab.same("its node", type(changed.grad_fn).__name__)
    lab.same("needs", [changed.requires_grad, sum_of_two.requires_grad])
    changed.sum().backward()
    lab.expect("gradient of what was added", other.grad, [1.0, 1.0])

    class Twice(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            x.mul_(2)
            ctx.mark_dirty(x)
            return x, x

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            return first * 2 + second * 2

    leaf = lab.put([1.0, 2.0], requires_grad=True)
    left, right = Twice.apply(leaf.clone())
    lab.holds("a changed input returned twice is one tensor", left is right)
    left.sum().backward()
    lab.expect("its gradient", leaf.grad, [2.0, 2.0])
    lab.raises("a changed view returned twice", lambda: Twice.apply(leaf.clone().view_as(leaf)))

    class Doubled(Function):
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
    Doubled.apply(base[:], unused).sum().backward()
    lab.expect("gradient through a view", leaf.grad, [2.0, 2.0])
    lab.holds("an input whose gradient is None has none", unused.grad is None)


@behaviour("autograd", sees=("value", "error"))
def changed_inputs_without_gradients(lab: Lab) -> None:
    """A result may be marked both as changed in place and as non-differentiable: it needs no gradient then,
    and what else is returned does.
    """

    class Cleared(Function):
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
    held = x.clone()
    cleared, tripled = Cleared.apply(held, y)
    lab.shares("the input and the cleared result", held, cleared)
    lab.same("needs", [cleared.requires_grad, tripled.requires_grad])
    lab.same("value", cleared.detach())
    (cleared + tripled).sum().backward()
    lab.expect("gradient of the other", y.grad, [3.0, 3.0])
    lab.raises("backward of the cleared one", lambda: cleared.sum().backward(), match="does not require grad")


@behaviour("autograd", sees=("value",))
def leaves_as_results(lab: Lab) -> None:
    """A leaf that a Function returns becomes a result of it: its own hooks see the gradient of all its uses,
    and under no_grad it stays a leaf.
    """

    class Passed(Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> Any:
            return a, a + b

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            return first + second, second

    x, y = lab.put([1.0, 2.0], requires_grad=True), lab.put([3.0, 4.0], requires_grad=True)
    seen: list[torch.Tensor] = []
    same, total = Passed.apply(x, y)
    x.register_hook(lambda grad: seen.append(grad.clone()))
    (same + total).sum().backward()
    lab.same("what the leaf's hook saw", seen)
    lab.same("gradients", [x.grad, y.grad])

    class Through(Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor) -> Any:
            return a

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    with torch.no_grad():
        out = Through.apply(x)
    lab.same("under no_grad", [x.requires_grad, out.grad_fn is None, x.is_leaf])
    plain = lab.integers(3, 2)
    first, second = lab.put([1.0, 2.0], requires_grad=True), lab.put([3.0, 4.0], requires_grad=True)
    plain[0] = first
    plain[1] = 2 * second
    lab.same("a plain tensor with parts that need gradients", [plain.requires_grad, plain.is_leaf])
    plain.sum().backward()
    lab.expect("gradient of a part", first.grad, [1.0, 1.0])
    lab.expect("gradient of a doubled part", second.grad, [2.0, 2.0])


@behaviour("autograd", sees=("value",))
def saved_results_of_functions(lab: Lab) -> None:
    """A result that a Function saved comes back with its place among the results, and leads to the same
    node.
    """
    places: list[Any] = []

    class Three(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            parts = x * 1, x * 2, x * 3
            ctx.save_for_backward(*parts)
            return parts

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            saved = ctx.saved_tensors
            places.append([part.output_nr for part in saved])
            places.append([part.grad_fn is ctx for part in saved])
            return grads[0] + 2 * grads[1] + 3 * grads[2]

    x = lab.put([1.0, 2.0], requires_grad=True)
    parts = Three.apply(x)
    lab.same("places", [part.output_nr for part in parts])
    (parts[1] + parts[2]).sum().backward()
    lab.same("places of what was saved", places)
    lab.expect("gradient", x.grad, [5.0, 5.0])
