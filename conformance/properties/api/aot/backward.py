"""Behaviours of ahead-of-time autograd: writes during the backward, and the tensors and sizes that the
forward saves for the backward.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.aot import functions
from conformance.properties.api.aot.functions import trees_are_equal


class WritesSavedTensorInBackward(torch.autograd.Function):
    """An ``autograd.Function`` whose backward doubles the saved tensor in place."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, saved: torch.Tensor) -> torch.Tensor:
        """Return a copy of ``x``."""
        ctx.save_for_backward(saved)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        """Double the saved tensor in place and return the gradient."""
        (saved,) = ctx.saved_tensors
        saved.mul_(2)
        return grad.clone(), None


class WritesIncomingGradient(torch.autograd.Function):
    """An ``autograd.Function`` whose backward doubles the incoming gradient in place."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Return a copy of ``x``."""
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        """Double the incoming gradient in place and return a copy of the doubled gradient."""
        grad.mul_(2)
        return grad.clone()


class IncrementsCounterInBothPasses(torch.autograd.Function):
    """An ``autograd.Function`` that adds 1 to a tensor in its forward and again in its backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, counter: torch.Tensor) -> torch.Tensor:
        """Add 1 to the counter and return a copy of ``x``."""
        counter.add_(1)
        ctx.counter = counter
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        """Add 1 to the counter and return the gradient. The 1 is computed from the gradient, so that the
        addition cannot run before the backward.
        """
        ctx.counter.add_(grad * 0 + 1)
        return grad, None


def observe_forward_and_backward(
    function: Callable[..., Any], x: torch.Tensor, second_input: torch.Tensor
) -> list[torch.Tensor]:
    """Return the result, the second input after the forward and after the backward, and the gradient."""
    leaf = x.clone().requires_grad_()
    result = function(leaf, second_input)
    observed = [result.detach().clone(), second_input.detach().clone()]
    (result * 2).sum().backward()
    return [
        *observed,
        second_input.detach().clone(),
        leaf.grad if leaf.grad is not None else torch.zeros_like(x),
    ]


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd", "double_backward"),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/generated/functorch.compile.aot_function.html",
    basis="consistency",
    ground="writes of the traced and of the eager backward on the device must agree",
)
def aot_writes_in_the_backward(lab: Lab) -> None:
    """The backward of a traced function writes into inputs, saved tensors and gradients as the backward of
    the original function does. These writes do not happen during the forward. With ``create_graph``, a write
    into a tensor that requires grad is an error.
    """
    x, y = lab.integers(3, 4), lab.integers(3, 4)
    programs: dict[str, Callable[..., Any]] = {
        "into a saved input": lambda a, b: a * WritesSavedTensorInBackward.apply(b + 0, b),
        "into a saved input without other uses": lambda a, b: WritesSavedTensorInBackward.apply(a, b),
        "after a write in the forward": lambda a, b: WritesSavedTensorInBackward.apply(a, b.mul_(5)) + 1,
        "into the gradient": lambda a, b: WritesIncomingGradient.apply(a * b),
        "in both": lambda a, b: IncrementsCounterInBothPasses.apply(a, b),
    }
    forbidden = {
        "into the gradient": "notes/extending.html says never to modify the gradients that a backward gets",
        "in both": "notes/extending.html says that a Function must mark each input that it modifies",
    }
    for name, program in programs.items():
        basis = lab.parity(forbidden[name]) if name in forbidden else contextlib.nullcontext()
        # With ``in_graph=False``, writes into inputs are not part of the graph and run after the graph.
        # Programs that write in the forward and in the backward are not run with ``in_graph=False``, because
        # torch itself fails on such programs or moves their writes.
        with basis:
            for in_graph in (True,) if "forward" in name or "both" in name else (False, True):
                observed = observe_forward_and_backward(
                    functions.trace_with_aot_autograd(program, in_graph=in_graph), x, y.clone()
                )
                lab.same(f"{name}, {in_graph}", observed)
                lab.holds(
                    f"{name}, {in_graph}: traced and eager agree",
                    trees_are_equal(observed, observe_forward_and_backward(program, x, y.clone())),
                )

    leaf = x.clone().requires_grad_()
    second_leaf = y.clone().requires_grad_()
    traced_function = functions.trace_with_aot_autograd(
        lambda a, b: WritesSavedTensorInBackward.apply(a, b * 1.0), in_graph=True
    )
    traced_function(leaf, second_leaf).sum().backward()
    lab.same("a copy of an input that requires grad", [leaf.grad, second_leaf.detach()])

    with torch.library._scoped_library("conformance_suite", "FRAGMENT") as library:
        library.define("zeroes_later(Tensor x, Tensor y) -> Tensor")
        library.impl("zeroes_later", lambda a, b: a.clone(), "CompositeExplicitAutograd")

        def store_second_input(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.other = inputs[1]

        def zero_stored_input_in_backward(ctx: Any, grad: torch.Tensor) -> Any:
            with torch.no_grad():
                ctx.other.zero_()
            return grad * 2, None

        torch.library.register_autograd(
            "conformance_suite::zeroes_later",
            zero_stored_input_in_backward,
            setup_context=store_second_input,
            lib=library,
        )
        op = torch.ops.conformance_suite.zeroes_later
        observed = observe_forward_and_backward(
            functions.trace_with_aot_autograd(lambda a, b: op(a, b) + 1, in_graph=True), x, y.clone()
        )
        lab.same("of a custom operator", observed)
        lab.holds(
            "of a custom operator: traced and eager agree",
            trees_are_equal(observed, observe_forward_and_backward(lambda a, b: op(a, b) + 1, x, y.clone())),
        )
        first, second = x.clone().requires_grad_(), y.clone().requires_grad_()
        result = functions.trace_with_aot_autograd(lambda a, b: op(a, b))(first, second.clone())
        with lab.parity("No page says that a write in a traced backward with create_graph is an error"):
            lab.raises(
                "with create_graph",
                lambda: torch.autograd.grad(result.sum(), first, create_graph=True),
                match="create_graph",
            )


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/generated/functorch.compile.aot_function.html",
    basis="consistency",
    ground="The traced call and the eager call of one function on the device must agree",
)
def aot_keeps_sizes_for_the_backward(lab: Lab) -> None:
    """If the backward of a traced function with dynamic shapes needs only the sizes of a tensor, the function
    saves these sizes and not the tensor. The tensor may therefore be written later. Sizes among the results
    have no gradient.
    """
    x = lab.integers(3, 4)

    def zero_first_row_in_place(a: torch.Tensor) -> torch.Tensor:
        row = a[0]
        return row.masked_fill_(torch.ones_like(row, dtype=torch.bool), 0)

    def sum_and_row_count(a: torch.Tensor) -> Any:
        return [a + 1, a.shape[0]]

    observed = []
    for call in (
        functions.trace_with_aot_autograd(zero_first_row_in_place, dynamic=True),
        zero_first_row_in_place,
    ):
        leaf = x.clone().requires_grad_()
        result = call(leaf.clone())
        (gradient,) = torch.autograd.grad(result.sum(), leaf)
        observed.append([result.detach().clone(), gradient])
    lab.same("a write", observed[0])
    lab.holds("a write: traced and eager agree", trees_are_equal(observed[0], observed[1]))

    leaf = x.clone().requires_grad_()
    result, number = functions.trace_with_aot_autograd(sum_and_row_count, dynamic=True)(leaf)
    (gradient,) = torch.autograd.grad(result.sum(), leaf)
    lab.same("a result that is a size", [result.detach(), number, gradient])

    # For the second size, torch may either trace the function again or reuse the first trace.
    traced_function = functions.trace_with_aot_autograd(
        lambda a, b: (a * b).expand(2, *a.shape), dynamic=True
    )
    for rows in (2, 3):
        left_factor, right_factor = x[:rows].clone().requires_grad_(), x[:rows] + 1
        result = traced_function(left_factor, right_factor)
        (gradient,) = torch.autograd.grad(result.sum(), left_factor)
        lab.same(f"{rows} rows", [result.detach(), gradient])
