"""Behaviours of ``jvp`` and ``linearize``: kinds of functions, errors, ``autograd.Function``s, and writes
into views of batched dual tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.func import grad, jvp, linearize, vmap

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


class _CubeByJvp(torch.autograd.Function):
    """An ``autograd.Function`` that computes a cube. Its ``forward`` and ``backward`` call ``jvp``."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return jvp(lambda a: a * a * a * a / 4, (x,), (torch.ones_like(x),))[1]  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return g * jvp(lambda a: a * a * a, (x,), (torch.ones_like(x),))[1]  # type: ignore[no-any-return]


@behaviour(
    "functorch", level="full", capabilities=("forward_ad", "autograd"), page="generated/torch.func.jvp.html"
)
def jvp_of_many_functions(lab: Lab) -> None:
    """``jvp`` accepts unused inputs, functions that create tensors, and trees of auxiliary results. ``jvp``
    works inside an ``autograd.Function``, and for ``torch.cov`` under ``vmap``. ``linearize`` works on
    functions that call ``grad``.
    """
    x, t, unused = lab.integers(3), lab.integers(3), lab.integers(3)
    lab.same("an unused input", jvp(lambda a, b: a * 1, (x, unused), (t, unused)))
    lab.expect("its tangent", jvp(lambda a, b: a * 1, (x, unused), (t, unused))[1], t.cpu())
    with_new_tensor = jvp(lambda a: a + a.new_tensor(0.5), (x,), (t,))
    lab.expect("a new tensor", with_new_tensor[0], x.cpu() + 0.5)
    lab.expect("the tangent of a function that creates a tensor", with_new_tensor[1], t.cpu())
    lab.same("a tree beside", jvp(lambda a: (a * a, {"p": a + 1, "q": [a * 3]}), (x,), (t,), has_aux=True))
    start = x.clone().requires_grad_()
    value = _CubeByJvp.apply(start)
    lab.expect("inside of a Function", value.detach(), x.cpu() ** 3)
    (gradient,) = torch.autograd.grad(value.sum(), start)
    lab.expect("gradient from a backward that calls jvp", gradient, 3 * x.cpu() ** 2)
    points = lab.integers(4, 2)

    def jvp_of_covariance(_: torch.Tensor, a: torch.Tensor) -> Any:
        return jvp(torch.cov, (a,), (torch.ones(2, device=a.device),))

    value, tangent = vmap(vmap(jvp_of_covariance, (0, None)))(torch.ones(4, 1, device=lab.device), points)
    lab.close("a covariance in batches", value)
    lab.expect("the covariance's tangent along a shift is zero", tangent, torch.zeros(4, 1), roundings=16.0)
    weights = lab.integers(3)

    def gradient_of_weighted_squares(a: torch.Tensor) -> Any:
        return grad(lambda b: (weights * b * b).sum())(a)

    value, push = linearize(gradient_of_weighted_squares, x)
    lab.same("linearize of grad", (value, push(t)))
    lab.holds("as jvp of grad", torch.equal(push(t), jvp(gradient_of_weighted_squares, (x,), (t,))[1]))
    lab.same(
        "linearize of a linear map's grad",
        linearize(lambda a: grad(lambda b: (weights * b).sum())(a), x)[1](t),
    )


@behaviour(
    "functorch",
    level="full",
    capabilities=("forward_ad",),
    must_detect=("error", "message"),
    page="generated/torch.func.jvp.html",
    basis="parity",
    ground=(
        "No page describes strict=, requires tensors as auxiliary results, or forbids writes to captured "
        "tensors"
    ),
)
def jvp_refuses(lab: Lab) -> None:
    """``jvp`` raises an error for auxiliary results that are not tensors and, if ``strict=True``, for outputs
    that do not depend on the inputs. A write of a dual value into a captured tensor is an error too.
    """
    x, t = lab.integers(3), lab.integers(3)
    lab.raises("a constant", lambda: jvp(lambda a: (a, t), (x,), (t,), strict=True), match="strict")
    for name, auxiliary in {"a number": 1, "a fraction": 1.5, "a word": "b"}.items():
        for form, value in {"": auxiliary, " in a list": [t, auxiliary]}.items():
            lab.raises(
                f"{name}{form} beside",
                lambda: jvp(lambda a: (a, value), (x,), (t,), has_aux=True),
                match="(?i)tensor",
            )
    outside = lab.integers(3)

    def write_into_captured_tensor(a: torch.Tensor) -> torch.Tensor:
        outside.copy_(a)
        return (a * outside).sum()

    lab.raises("a write under jvp", lambda: jvp(write_into_captured_tensor, (x,), (t,)), match="mutate")
    lab.raises("a write under grad", lambda: grad(write_into_captured_tensor)(x), match="mutate")


@behaviour(
    "functorch",
    level="full",
    capabilities=("forward_ad",),
    must_detect=("value", "alias"),
    page="func.ux_limitations.html",
    ground="writes to mapped tensors are allowed, and the tangent is the directional derivative",
)
def batches_of_dual_writes(lab: Lab) -> None:
    """Under ``vmap``, a write of a dual tensor also writes its tangent, for any mapped dimension. The tangent
    passes from a view to its base, from a base to its views, and into tensors without a tangent.
    """

    def jvp_of_both_inputs(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, xt, y, yt: jvp(function, (x, y), (xt, yt))

    def jvp_of_second_input(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, y, yt: jvp(functools.partial(function, x), (y,), (yt,))

    def overwrite(x: torch.Tensor, y: torch.Tensor) -> Any:
        x.copy_(y)
        return x

    def overwrite_view_of_x(x: torch.Tensor, y: torch.Tensor) -> Any:
        view = x[:, ::2]
        view.copy_(y)
        return view, x

    def overwrite_base_x_of_view(x: torch.Tensor, y: torch.Tensor) -> Any:
        view = x[0, ::2]
        x.copy_(y)
        return x, view

    def overwrite_view_of_clone(x: torch.Tensor, y: torch.Tensor) -> Any:
        base = x.clone()
        view = base[0]
        view.copy_(y)
        return view, base

    def overwrite_clone_of_view(x: torch.Tensor, y: torch.Tensor) -> Any:
        base = x.clone()
        view = base[0]
        base.copy_(y)
        return view, base

    x, xt, y, yt = (lab.integers(3, 2) for _ in range(4))
    value, tangent = vmap(jvp_of_both_inputs(overwrite), in_dims=1)(x, xt, y, yt)
    lab.expect("a whole", value, y.T.cpu())
    lab.expect("the tangent of an overwritten tensor", tangent, yt.T.cpu())
    lab.same("the input", x)
    x, xt, y, yt = lab.integers(3, 2), lab.integers(3, 2), lab.integers(3, 3)[:, 1], lab.integers(6)[::2]
    value, tangent = vmap(jvp_of_both_inputs(overwrite), in_dims=(1, 1, None, None))(x, xt, y, yt)
    lab.expect("a source that is not mapped", value, y.expand(2, 3).cpu())
    lab.expect("the tangent of a source that is not mapped", tangent, yt.expand(2, 3).cpu())

    x, xt, y, yt = lab.integers(2, 6, 2), lab.integers(2, 6, 2), lab.integers(2, 2, 3), lab.integers(2, 2, 3)
    expected, due_tangent = x.clone(), xt.clone()
    expected[:, ::2] = y.movedim(1, 2)
    due_tangent[:, ::2] = yt.movedim(1, 2)
    values, tangents = vmap(jvp_of_both_inputs(overwrite_view_of_x), in_dims=(2, 2, 1, 1))(x, xt, y, yt)
    lab.same("through a view", (values, tangents))
    lab.expect("through a view: the base", values[1], expected.movedim(2, 0).cpu())
    lab.expect("through a view: the base's tangent", tangents[1], due_tangent.movedim(2, 0).cpu())
    lab.expect("through a view: the input", x, expected.cpu())

    x, xt, y, yt = lab.integers(2, 2, 6), lab.integers(2, 6, 2), lab.integers(2, 2, 6), lab.integers(2, 2, 6)
    values, tangents = vmap(jvp_of_both_inputs(overwrite_base_x_of_view), in_dims=(1, 2, 1, 1))(x, xt, y, yt)
    lab.same("under a view", (values, tangents))
    lab.expect("under a view: the view's tangent", tangents[1], yt.movedim(1, 0)[:, 0, ::2].cpu())

    x, y, yt = lab.integers(2, 2, 6), lab.integers(6, 2), lab.integers(6, 2)
    values, tangents = vmap(jvp_of_second_input(overwrite_view_of_clone), in_dims=1)(x, y, yt)
    lab.same("into a view without a tangent", (values, tangents))
    base = torch.zeros(2, 2, 6)
    base[:, 0] = yt.T.cpu()
    lab.expect("into a view without a tangent: the base's tangent", tangents[1], base)

    x, y, yt = lab.integers(2, 2, 6), lab.integers(2, 6, 2), lab.integers(2, 6, 2)
    values, tangents = vmap(jvp_of_second_input(overwrite_clone_of_view), in_dims=(1, 2, 2))(x, y, yt)
    lab.same("into a base without a tangent", (values, tangents))
    lab.expect("into a base without a tangent: the view's tangent", tangents[0], yt.movedim(2, 0)[:, 0].cpu())
