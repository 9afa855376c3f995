"""Behaviours of grad modes, seeds and saved tensor hooks inside and around transforms, and of features that
transforms do not support.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.func import grad, grad_and_value, hessian, jacrev, jvp, vjp, vmap

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


def square_minus_constant_square(a: torch.Tensor) -> torch.Tensor:
    """Return ``a * a - a * a``. The second square is computed under ``no_grad`` and is therefore a constant.
    The value is zero, and the gradient is the gradient of the first square.
    """
    with torch.no_grad():
        part = a * a
    return a * a - part


@behaviour(
    "functorch",
    level="full",
    capabilities=("double_backward", "autograd"),
    page="generated/torch.func.grad.html",
)
def no_grad_and_transforms(lab: Lab) -> None:
    """A transform treats values that its function computes under ``no_grad`` as constants. A transform that
    is called under ``no_grad`` still differentiates, and its result has no graph.
    """
    x = lab.integers(requires_grad=True)
    scalar_one = torch.ones((), device=lab.device)
    with torch.no_grad():
        both = grad(square_minus_constant_square)(x)
    lab.same("inside and outside", both)
    lab.holds("no graph", not both.requires_grad)

    def cube_minus_constant_gradient(a: torch.Tensor) -> Any:
        with torch.no_grad():
            part = grad(lambda b: 0.25 * b * b * b * b)(a)
        return a * a * a - part

    def cube_minus_constant_value(a: torch.Tensor) -> Any:
        with torch.no_grad():
            _, value = grad_and_value(lambda b: b * b * b)(a)
        return a * a * a - value

    def cube_minus_constant_cube(a: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            part = a * a * a
        return a * a * a - part

    def gradient_minus_constant_gradient(a: torch.Tensor) -> Any:
        first = grad(cube_minus_constant_cube)(a)
        with torch.no_grad():
            second = grad(cube_minus_constant_cube)(a)
        return first - second

    start = x.detach().cpu()
    for name, function, first_expected, second_expected in (
        ("a gradient that is a constant", cube_minus_constant_gradient, 3 * start**2, 6 * start),
        ("a value that is a constant", cube_minus_constant_value, 3 * start**2, 6 * start),
        ("one of two gradients", gradient_minus_constant_gradient, 6 * start, torch.tensor(6.0)),
    ):
        first = grad(function)(x)
        lab.expect(name, first.detach(), first_expected)
        (second,) = torch.autograd.grad(first, x)
        lab.expect(f"{name}: the engine's gradient of the result", second, second_expected)

    def square(a: torch.Tensor) -> torch.Tensor:
        return a * a

    value, pull = vjp(square, x)  # type: ignore[misc]
    with torch.no_grad():
        (pulled,) = pull(scalar_one)
    lab.same("only the vjp function under no_grad", pulled)
    lab.same("which results have a graph", (pulled.requires_grad, value.requires_grad))
    lab.same("gradient of the value", torch.autograd.grad(value, x))
    with torch.no_grad():
        value, pull = vjp(square, x)  # type: ignore[misc]
    (pulled,) = pull(scalar_one)
    lab.same("only vjp under no_grad", pulled.detach())
    lab.holds("the value has no graph", not value.requires_grad)
    lab.same("gradient of the vjp function's result", torch.autograd.grad(pulled, x))


@behaviour(
    "functorch",
    level="full",
    capabilities=("random", "autograd"),
    must_detect=("value",),
    page="notes/randomness.html",
    basis="consistency",
    ground="random numbers drawn after the same seed inside and outside of the transform must agree",
)
def seeds_inside_of_transforms(lab: Lab) -> None:
    """A seed set inside a transform gives the same random numbers as a seed set outside."""
    x = lab.integers(4)

    def seed_and_sum_with_random_weights(a: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(5)
        return (a * torch.rand_like(a)).sum()

    torch.manual_seed(5)
    expected = torch.rand_like(x)
    lab.holds("under grad", torch.equal(grad(seed_and_sum_with_random_weights)(x), expected))
    (engine,) = torch.autograd.grad(seed_and_sum_with_random_weights(y := x.clone().requires_grad_()), y)
    lab.holds("as by the engine", torch.equal(engine, expected))
    lab.same("times zero", grad(seed_and_sum_with_random_weights)(x) * 0)


@behaviour(
    "functorch",
    level="full",
    capabilities=("autograd",),
    must_detect=("error", "message"),
    page="func.ux_limitations.html",
    basis="parity",
    ground="The page says that torch.autograd calls may be refused, not that they must be",
)
def engine_calls_inside_of_transforms(lab: Lab) -> None:
    """``requires_grad_``, ``retain_grad`` and the functions of ``torch.autograd.functional`` raise an error
    inside a transform.
    """
    x, rows = lab.integers(3), lab.integers(4, 3)

    def sum_of_squares(a: torch.Tensor) -> torch.Tensor:
        return (a * a).sum()

    calls: dict[str, Callable[[torch.Tensor], Any]] = {
        "requires_grad_": lambda a: a.requires_grad_().sum(),
        "jacobian": lambda a: torch.autograd.functional.jacobian(sum_of_squares, a).sum(),
        "vjp": lambda a: torch.autograd.functional.vjp(sum_of_squares, a)[1].sum(),
        "jvp": lambda a: torch.autograd.functional.jvp(sum_of_squares, a, torch.ones_like(a))[1],
    }
    for name, call in calls.items():
        lab.raises(f"{name} under vmap", lambda: vmap(call)(rows), match="requires_grad_")
        lab.raises(f"{name} under grad", lambda: grad(call)(x), match="requires_grad_")
        lab.raises(f"{name} under vmap of grad", lambda: vmap(grad(call))(rows), match="requires_grad_")
        lab.raises(f"{name} under grad of grad", lambda: grad(grad(call))(x[0]), match="requires_grad_")

    def sum_after_retain_grad(a: torch.Tensor) -> torch.Tensor:
        b = a * 2
        b.retain_grad()
        return b.sum()

    lab.raises("retain_grad under grad", lambda: grad(sum_after_retain_grad)(x), match="retain_grad")
    lab.raises(
        "a forward Jacobian under vmap",
        lambda: vmap(
            lambda a: torch.autograd.functional.jacobian(
                sum_of_squares, a, strategy="forward-mode", vectorize=True
            )
        )(rows),
    )


@behaviour(
    "functorch",
    level="full",
    capabilities=("autograd", "forward_ad"),
    must_detect=("error", "value"),
    page="generated/torch.autograd.graph.saved_tensors_hooks.html",
    basis="parity",
    ground="No page says that transforms refuse saved tensor hooks",
)
def saved_tensor_hooks_and_transforms(lab: Lab) -> None:
    """``grad``, ``vjp``, ``jacrev`` and ``hessian`` raise an error if hooks on saved tensors are active
    around the transform or inside its function. ``jvp`` works while these hooks are active.
    """
    x, t = lab.integers(3), lab.integers(3)

    def sum_of_squares(a: torch.Tensor) -> torch.Tensor:
        return (a * a).sum()

    def sum_of_squares_under_hooks(a: torch.Tensor) -> torch.Tensor:
        with torch.autograd.graph.save_on_cpu():
            return sum_of_squares(a)

    def call_under_hooks(call: Callable[[], Any]) -> Any:
        with torch.autograd.graph.save_on_cpu():
            return call()

    transforms: dict[str, Callable[..., Any]] = {
        "grad": grad,
        "grad_and_value": grad_and_value,
        "jacrev": jacrev,
        "hessian": hessian,
        "vjp": lambda f: lambda a: vjp(f, a),
    }
    for name, transform in transforms.items():
        lab.raises(
            f"{name} under hooks",
            lambda: call_under_hooks(lambda: transform(sum_of_squares)(x)),
            match="saved tensor hooks",
        )
        lab.raises(
            f"hooks under {name}",
            lambda: transform(sum_of_squares_under_hooks)(x),
            match="saved tensor hooks",
        )
    expected = ((x * x).sum().cpu(), (2 * x * t).sum().cpu())
    outside = call_under_hooks(lambda: jvp(sum_of_squares, (x,), (t,)))
    for name, result in {
        "jvp under hooks": outside,
        "hooks under jvp": jvp(sum_of_squares_under_hooks, (x,), (t,)),
    }.items():
        with lab.documented():
            lab.same(name, result)
            lab.holds(
                f"{name}: known", all(torch.equal(a.cpu(), b) for a, b in zip(result, expected, strict=True))
            )
