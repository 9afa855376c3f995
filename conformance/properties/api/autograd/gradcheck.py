"""Behaviours of ``gradcheck`` and ``gradgradcheck`` on the device: they accept correct gradients and reject
wrong ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.autograd.function import Function

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


class _SquareWithWrongGradient(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * x * 2.5


@behaviour(
    "autograd",
    dtypes=("float64", "complex128"),
    level="training",
    must_detect=("value",),
    page="generated/torch.autograd.gradcheck.gradcheck.html",
)
def gradcheck_of_right_gradients(lab: Lab) -> None:
    """``gradcheck`` and ``gradgradcheck`` accept the correct gradients of products, powers, views and
    indexing, with several inputs and outputs.
    """
    x, y = lab.floats(2, 3, requires_grad=True), lab.floats(3, 2, low=0.5, high=1.5, requires_grad=True)
    cases: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "product": (lambda a, b: a @ b, (x, y)),
        "power": (lambda b: b**3, (y,)),
        "several outputs": (lambda a, b: (a * b.t(), a + 1), (x, y)),
        "view": (lambda a: a.t()[1:].sin(), (x,)),
        "in place": (lambda a: a.clone().mul_(2).add_(a), (x,)),
        "in place on a view": (lambda a: (a * 1).view(-1).mul_(a.view(-1)), (x,)),
        "index": (lambda a: a[:, [0, 2]], (x,)),
    }
    for name, (function, inputs) in cases.items():
        lab.same(f"fast gradcheck of {name}", gradcheck(function, inputs, fast_mode=True))
        if name in ("product", "power"):
            lab.same(f"gradcheck of {name}", gradcheck(function, inputs, fast_mode=False))
            lab.same(f"gradgradcheck of {name}", gradgradcheck(function, inputs, fast_mode=True))
    batched, forward = lab.target.capable("functorch"), lab.target.capable("forward_ad")
    lab.same("batched", gradcheck(lambda a: a * a, (x,), check_batched_grad=batched))
    lab.same("forward", gradcheck(lambda a: a * a, (x,), check_forward_ad=forward))
    if forward:
        lab.same(
            "batched forward",
            gradcheck(lambda a: a * a, (x,), check_forward_ad=True, check_batched_forward_grad=batched),
        )
        lab.same(
            "forward alone", gradcheck(lambda a: a * a, (x,), check_forward_ad=True, check_backward_ad=False)
        )
    lab.same("one input that does not require grad", gradcheck(lambda a, b: a @ b, (x, y.detach())))
    lab.same("a shape that depends on values", gradcheck(lambda a: a.flatten()[: int(a.shape[0])], (x,)))


@behaviour(
    "autograd",
    dtypes=("float64",),
    level="training",
    must_detect=("value", "error", "message"),
    page="generated/torch.autograd.gradcheck.gradcheck.html",
)
def gradcheck_of_wrong_gradients(lab: Lab) -> None:
    """``gradcheck`` raises an error for a wrong Jacobian in backward mode and in forward mode. With
    ``raise_exception=False`` it returns False.
    """
    x = lab.floats(3, low=1.0, high=2.0, requires_grad=True)
    for fast in (False, True):
        lab.raises(
            f"a wrong factor, fast {fast}",
            lambda: gradcheck(_SquareWithWrongGradient.apply, (x,), fast_mode=fast),
            match="Jacobian mismatch",
        )
        lab.same(
            f"without raising, fast {fast}",
            gradcheck(_SquareWithWrongGradient.apply, (x,), fast_mode=fast, raise_exception=False),
        )

    calls: list[int] = []

    class NondeterministicGradient(Function):
        @staticmethod
        def forward(ctx: Any, t: torch.Tensor) -> Any:
            return t * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            calls.append(1)
            return grad * 2 * (1 + 0.5 * (len(calls) % 2))

    lab.raises(
        "a gradient that differs at each call",
        lambda: gradcheck(NondeterministicGradient.apply, (x,), fast_mode=False),
        match="not reentrant|mismatch",
    )

    class IgnoresIncomingGradient(Function):
        @staticmethod
        def forward(ctx: Any, t: torch.Tensor) -> Any:
            return t * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return torch.full_like(grad, 2.0)

    lab.raises(
        "a backward that ignores the incoming gradient",
        lambda: gradcheck(IgnoresIncomingGradient.apply, (x,)),
    )

    class WrongForwardModeTangent(Function):
        @staticmethod
        def forward(ctx: Any, t: torch.Tensor) -> Any:
            return t * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return tangent * 3

    if lab.target.capable("forward_ad"):
        lab.raises(
            "a wrong tangent",
            lambda: gradcheck(WrongForwardModeTangent.apply, (x,), check_forward_ad=True),
            match="Jacobian",
        )
    lab.same("a correct backward beside a wrong tangent", gradcheck(WrongForwardModeTangent.apply, (x,)))

    class WrongForZeroGradients(Function):
        @staticmethod
        def forward(ctx: Any, t: torch.Tensor) -> Any:
            return t * 2, t * 3

        @staticmethod
        def backward(ctx: Any, first_grad: Any, second_grad: Any) -> Any:
            if (first_grad == 0).all():
                return torch.ones_like(first_grad)
            return first_grad * 2 + second_grad * 3

    lab.raises("a backward that returns ones for zeros", lambda: gradcheck(WrongForZeroGradients.apply, (x,)))
    lab.same("gradient", torch.autograd.grad(_SquareWithWrongGradient.apply(x).sum(), x)[0])


@behaviour(
    "autograd",
    dtypes=("float64",),
    must_detect=("error",),
    page="generated/torch.autograd.gradcheck.gradcheck.html",
    basis="parity",
    ground="The page warns that such checks may fail; it does not say that such inputs are errors",
)
def gradcheck_of_unfit_inputs(lab: Lab) -> None:
    """``gradcheck`` reports inputs that do not require grad, inputs whose elements overlap in memory, and
    outputs that cannot be differentiated.
    """
    x = lab.floats(3, requires_grad=True)
    lab.raises(
        "no input that requires grad",
        lambda: gradcheck(lambda a: a * 2, (lab.floats(3),)),
        ValueError,
        match="require",
    )
    lab.raises("no output can", lambda: gradcheck(lambda a: a.detach(), (x,)), RuntimeError, ValueError)
    lab.warns(
        "single precision",
        lambda: _result_or_error_name(
            lambda: gradcheck(lambda a: a * 2, (x.detach().float().requires_grad_(),))
        ),
        match="double",
    )
    expanded = lab.floats(1).expand(3).detach().requires_grad_()
    lab.raises(
        "an input whose elements overlap", lambda: gradcheck(lambda a: a * 2, (expanded,)), match="overlap"
    )
    lab.raises("no function", lambda: gradcheck(3, (x,)), TypeError)  # type: ignore[arg-type]
    lab.raises(
        "neither direction",
        lambda: gradcheck(lambda a: a, (x,), check_forward_ad=False, check_backward_ad=False),
        AssertionError,
        ValueError,
    )


def _result_or_error_name(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or the class name of its exception."""
    try:
        return call()
    except Exception as error:
        return type(error).__name__
