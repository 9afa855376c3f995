"""Behaviours of ``grad``, ``vjp``, ``jvp``, Jacobians and Hessians of ``torch.func``."""

from __future__ import annotations

from typing import Any

import torch
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
    vmap,
)

from conformance.behaviours.behaviour import WIDE_FLOATS, behaviour
from conformance.behaviours.lab import Lab


def cube(a: torch.Tensor) -> torch.Tensor:
    """Return the cube of whole numbers exactly, which ``a**3`` need not do."""
    return a * a * a


@behaviour(
    "functorch",
    dtypes=WIDE_FLOATS,
    level="training",
    capabilities=("autograd",),
    page="generated/torch.func.grad.html",
)
def grad_differentiates(lab: Lab) -> None:
    """``grad`` returns the derivative of a function with a scalar result. ``grad`` can be nested: ``grad`` of
    ``grad``, and ``grad`` inside a differentiated function.
    """
    x = lab.integers(4)
    lab.expect("a square", grad(lambda a: (a * a).sum())(x), 2 * x.cpu())
    lab.expect("twice", grad(lambda a: grad(lambda b: cube(b).sum())(a).sum())(x), 6 * x.cpu())
    lab.expect("thrice", grad(grad(grad(cube)))(x[0]), torch.full((), 6.0, dtype=lab.dtype))
    lab.same("a product with a captured tensor", grad(lambda a: (a * x).sum())(x))
    lab.same("unused", grad(lambda a: torch.ones((), device=a.device, dtype=a.dtype) + 0 * a.sum())(x))
    lab.same(
        "a nested grad that uses the outer input",
        grad(lambda a: grad(lambda b: (a * b * b).sum())(x).sum())(x),
    )
    lab.same("detached inside", grad(lambda a: (a * a.detach()).sum())(x))
    lab.holds("the input does not require grad afterwards", not x.requires_grad)
    value, extra = grad(lambda a: ((a * a).sum(), {"doubled": a * 2}), has_aux=True)(x)
    lab.same("with something beside", (value, extra))
    gradient, value = grad_and_value(lambda a: (a * a).sum())(x)
    lab.same("gradient and value", (gradient, value))


@behaviour("functorch", level="full", capabilities=("autograd",), page="generated/torch.func.grad.html")
def grad_argnums(lab: Lab) -> None:
    """``argnums`` selects one or several arguments to differentiate, counted from either end. A selected
    argument may be a tree.
    """
    x, y, z = lab.integers(3), lab.integers(3), lab.integers(3)

    def scalar_of_three(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return (a * a * b + b * c * 3).sum()

    for numbers in (0, 1, 2, (0,), (0, 2), (1, 2, 0)):
        lab.same(f"argnums {numbers}", grad(scalar_of_three, argnums=numbers)(x, y, z))
    for numbers in (-1, -2, (-1, 0)):
        with lab.parity("No page says that negative argnums count from the end"):
            lab.same(f"argnums {numbers}", grad(scalar_of_three, argnums=numbers)(x, y, z))
    tree = {"p": x, "q": (y, z)}
    lab.same("a tree", grad(lambda t: scalar_of_three(t["p"], *t["q"]))(tree))
    lab.same("Jacobians", jacrev(lambda a, b: a * b, argnums=(0, 1))(x, y))
    lab.same("forward Jacobians", jacfwd(lambda a, b: a * b, argnums=(1, 0))(x, y))
    with lab.parity("No page says that these argnums are an error"):
        lab.raises(
            "out of range", lambda: grad(scalar_of_three, argnums=3)(x, y, z), RuntimeError, match="argnum"
        )
        lab.raises(
            "too low", lambda: grad(scalar_of_three, argnums=-4)(x, y, z), RuntimeError, match="argnum"
        )
        lab.raises(
            "twice", lambda: grad(scalar_of_three, argnums=(0, 0))(x, y, z), RuntimeError, match="argnum"
        )
        lab.raises("none", lambda: grad(scalar_of_three, argnums=())(x, y, z), RuntimeError, match="argnum")
        lab.raises(
            "a word",
            lambda: grad(scalar_of_three, argnums="0")(x, y, z),  # type: ignore[arg-type]
            RuntimeError,
            match="argnum",
        )


@behaviour(
    "functorch",
    level="full",
    capabilities=("autograd",),
    must_detect=("error",),
    page="generated/torch.func.grad.html",
    ground=(
        "The page says what the function must return; autograd.html limits gradients to floating and "
        "complex dtypes"
    ),
)
def grad_refuses(lab: Lab) -> None:
    """``grad`` raises an error for functions whose result is not a scalar tensor, for inputs that are not
    floating tensors, and for writes into captured tensors.
    """
    x = lab.integers(3)
    lab.raises("a vector", lambda: grad(lambda a: a * 2)(x), RuntimeError, match="scalar")
    lab.raises("a tuple", lambda: grad(lambda a: (a.sum(), a.sum()))(x), RuntimeError)
    lab.raises("a number", lambda: grad(lambda a: 3.0)(x), RuntimeError)
    with lab.parity("No page says that this call is an error"):
        lab.raises("no tensor", lambda: grad(lambda a: a)(3.0), RuntimeError, ValueError)
    with lab.parity("The page describes a pair, and does not say that other structures are an error"):
        lab.raises("has_aux without a pair", lambda: grad(lambda a: a.sum(), has_aux=True)(x), RuntimeError)
    lab.raises("whole numbers", lambda: grad(lambda a: a.sum())(x.to(torch.int64)), RuntimeError)
    outside = lab.integers(3, requires_grad=True)

    def write_into_captured_tensor(a: torch.Tensor) -> torch.Tensor:
        outside.detach().mul_(a)
        return a.sum()

    with lab.parity("No page says that a write to a captured tensor is an error"):
        lab.raises(
            "a write into a captured tensor", lambda: grad(write_into_captured_tensor)(x), RuntimeError
        )


@behaviour(
    "functorch",
    dtypes=WIDE_FLOATS,
    level="training",
    capabilities=("autograd",),
    page="generated/torch.func.vjp.html",
)
def vjp_pulls_back(lab: Lab) -> None:
    """``vjp`` returns the result and a function that maps cotangents, structured like the outputs, to
    gradients of all inputs.
    """
    x, y = lab.integers(3), lab.integers(3)
    value, pull = vjp(lambda a: a * a, x)  # type: ignore[misc]
    lab.same("the result", value)
    lab.same("the gradient", pull(y))
    lab.same("again", pull(x))
    _, pull = vjp(lambda a, b: (a * b, a.sum()), x, y)  # type: ignore[misc]
    lab.same("two outputs", pull((y, torch.ones((), dtype=lab.dtype, device=lab.device))))
    _, pull = vjp(lambda t: {"s": t["x"] * 2, "l": [t["x"] * t["x"]]}, {"x": x})  # type: ignore[misc]
    lab.same("trees", pull({"s": y, "l": [y]}))
    value, pull, auxiliary = vjp(lambda a: (a * a, a + 1), x, has_aux=True)  # type: ignore[misc]
    lab.same("with something beside", (value, pull(y), auxiliary))
    _, pull = vjp(lambda a: torch.ones(3, dtype=a.dtype, device=a.device), x)  # type: ignore[misc]
    lab.same("a constant", pull(y))
    _, pull = vjp(lambda a: a * a, x)  # type: ignore[misc]
    lab.same("mapped", vmap(pull)(torch.eye(3, dtype=lab.dtype, device=lab.device)))
    with lab.parity(
        "The page shows cotangents structured like the outputs, and does not say that others are an error"
    ):
        lab.raises("another form", lambda: pull((y, y)), RuntimeError, match="(?i)cotangents|outputs|tree")


@behaviour(
    "functorch",
    dtypes=WIDE_FLOATS,
    level="full",
    capabilities=("forward_ad",),
    page="generated/torch.func.jvp.html",
)
def jvp_pushes_forward(lab: Lab) -> None:
    """``jvp`` returns the result and its derivative along tangents that are structured like the inputs."""
    x, t = lab.integers(3), lab.integers(3)
    lab.same("a product", jvp(lambda a: a * a, (x,), (t,)))
    lab.same("two inputs", jvp(lambda a, b: a * b, (x, t), (t, x)))
    lab.same("two outputs", jvp(lambda a: (a.sum(), a * 3), (x,), (t,)))
    lab.same("a tree", jvp(lambda d: d["p"] * d["q"][0], ({"p": x, "q": [x]},), ({"p": t, "q": [t]},)))
    lab.same("beside", jvp(lambda a: (a * a, a.sum()), (x,), (t,), has_aux=True))
    lab.same("a constant", jvp(lambda a: torch.ones(2, device=a.device), (x,), (t,)))
    lab.same("nested", jvp(lambda a: jvp(cube, (a,), (t,))[1], (x,), (t,)))
    lab.same("inside of grad", grad(lambda a: jvp(lambda b: cube(b).sum(), (a,), (t,))[1])(x))
    lab.same("of grad", jvp(grad(lambda a: cube(a).sum()), (x,), (t,)))  # type: ignore[misc]
    lab.same("mapped", vmap(lambda v: jvp(lambda a: a * a, (x,), (v,))[1])(torch.stack([t, x])))
    lab.raises("a list of tangents", lambda: jvp(torch.sin, (x,), [t]), RuntimeError)
    lab.raises("other forms", lambda: jvp(torch.sin, (x,), (t, t)), RuntimeError)
    lab.raises("other shapes", lambda: jvp(torch.sin, (x,), (t[:2],)), RuntimeError)
    lab.raises("no inputs", lambda: jvp(lambda: x, (), ()), RuntimeError)
    lab.raises("numbers", lambda: jvp(torch.sin, (3.0,), (1.0,)), RuntimeError)


@behaviour(
    "functorch",
    dtypes=WIDE_FLOATS,
    level="full",
    capabilities=("autograd", "forward_ad"),
    page="generated/torch.func.jacrev.html",
)
def jacobians(lab: Lab) -> None:
    """``jacrev`` and ``jacfwd`` return the same Jacobian, with the output dimensions first. Inputs and
    outputs may be trees. ``jacrev`` can compute the Jacobian in chunks.
    """
    x, y = lab.integers(3), lab.integers(2)
    matrix = lab.integers(4, 3)
    for transform_name, jacobian in (("jacrev", jacrev), ("jacfwd", jacfwd)):
        lab.expect(f"{transform_name} of a linear map", jacobian(lambda a: matrix @ a)(x), matrix.cpu())
        lab.same(f"{transform_name} of a square", jacobian(lambda a: a * a)(x))
        lab.same(f"{transform_name} of a scalar", jacobian(lambda a: (a * a).sum())(x))
        lab.same(f"{transform_name} of two outputs", jacobian(lambda a: (a * 2, {"s": a.sum()}))(x))
        lab.same(f"{transform_name} of a tree", jacobian(lambda t: t["x"].sum() * t["y"])({"x": x, "y": y}))
        lab.same(f"{transform_name} of both", jacobian(torch.outer, argnums=(0, 1))(x, y))
        lab.same(f"{transform_name} twice", jacobian(jacobian(cube))(x))
        lab.same(f"{transform_name} of no dimension", jacobian(lambda a: a * a)(x[0]))
        lab.same(f"{transform_name} of nothing used", jacobian(lambda a: torch.ones(2, device=a.device))(x))
        lab.same(f"{transform_name} beside", jacobian(lambda a: (a * a, a), has_aux=True)(x))
        lab.same(f"{transform_name} mapped", vmap(jacobian(lambda a: a * a))(torch.stack([x, x + 1])))
        with lab.parity("The page says that the function returns tensors, not that a number is an error"):
            lab.raises(f"{transform_name} of a number", lambda: jacobian(lambda a: 1.0)(x), RuntimeError)
    for size in (1, 2, 3, 10):
        lab.same(f"in chunks of {size}", jacrev(lambda a: a * a, chunk_size=size)(x))
    with lab.parity("No page says that this call is an error"):
        lab.raises("no chunk", lambda: jacrev(lambda a: a * a, chunk_size=0)(x), ValueError, match="chunk")
    lab.same("across", jacfwd(jacrev(lambda a: cube(a).sum()))(x))
    lab.same("jacrev of jacfwd", jacrev(jacfwd(lambda a: cube(a).sum()))(x))


@behaviour(
    "functorch",
    dtypes=WIDE_FLOATS,
    level="full",
    capabilities=("double_backward", "forward_ad"),
    page="generated/torch.func.hessian.html",
)
def hessians(lab: Lab) -> None:
    """``hessian`` returns the second derivatives of functions with scalar, vector and tree results."""
    x, y = lab.integers(3), lab.integers(2)
    matrix = lab.integers(3, 3)
    symmetric = (matrix + matrix.T).cpu()
    lab.expect("of a quadratic form", hessian(lambda a: a @ matrix @ a)(x), symmetric)
    lab.same("of a vector function", hessian(cube)(x))
    lab.same("of two inputs", hessian(lambda a, b: (a.sum() * b * b).sum(), argnums=(0, 1))(x, y))
    lab.same("of a tree", hessian(lambda t: cube(t["x"]).sum())({"x": x}))
    lab.same("mapped", vmap(hessian(lambda a: cube(a).sum()))(torch.stack([x, x + 1])))


@behaviour(
    "functorch", level="full", capabilities=("forward_ad",), page="generated/torch.func.linearize.html"
)
def linearize_keeps_the_point(lab: Lab) -> None:
    """``linearize`` returns the result and a function that applies the Jacobian at the given inputs to any
    number of tangents.
    """
    x, t = lab.integers(3), lab.integers(3)
    value, push = linearize(lambda a: a * a, x)
    lab.same("the result", value)
    lab.same("one tangent", push(t))
    lab.same("another one", push(t * 2))
    lab.same("mapped", vmap(push)(torch.eye(3, device=lab.device)))
    value, push = linearize(lambda p: {"s": p[0] * p[1]}, (x, t))
    lab.same("a tree", (value, push((t, x))))
    with lab.parity("No page says that this call is an error"):
        lab.raises("another form", lambda: push((t,)), RuntimeError)
        lab.raises("another shape", lambda: push((t[:2], x)), RuntimeError)


@behaviour(
    "functorch",
    level="full",
    capabilities=("autograd", "double_backward"),
    page="generated/torch.func.grad.html",
    ground=(
        "The page of functional_call says that results are tracked outside of grad unless inputs are detached"
    ),
)
def transforms_and_the_engine(lab: Lab) -> None:
    """The autograd engine can differentiate the result of a transform. Grad modes and ``torch.autograd.grad``
    work inside a transform.
    """
    x = lab.integers(3, requires_grad=True)
    gradient = grad(lambda a: cube(a).sum())(x)
    lab.holds("the gradient at an input that requires grad has a graph", gradient.requires_grad)
    (second,) = torch.autograd.grad(gradient.sum(), x)
    lab.same("the engine's gradient of this gradient", second)
    detached = x.detach()

    def sum_with_constant_square(a: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            part = a * a
        return (a + part).sum()

    lab.same("no_grad inside", grad(sum_with_constant_square)(detached))
    with torch.no_grad():
        lab.same("no_grad outside", grad(lambda a: (a * a).sum())(detached))
    inner = grad(lambda a: torch.autograd.grad((a * a * a).sum(), a, create_graph=True)[0].sum())
    with lab.parity(
        "The UX limitations page allows a transform to refuse torch.autograd.grad inside its function"
    ):
        lab.same("the engine inside", inner(detached))
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.shape) or t, lambda t: t):  # type: ignore[func-returns-value]
        torch.autograd.grad((x * x).sum(), x)
    lab.holds("saved tensor hooks are called outside", bool(saved))
    mapped = vmap(grad(lambda a: cube(a).sum()))(detached.view(3, 1))
    lab.expect("a gradient for each element", mapped, (3 * detached * detached).view(3, 1).cpu())


@behaviour(
    "functorch",
    level="full",
    capabilities=("autograd",),
    must_detect=("value", "alias"),
    page="func.ux_limitations.html",
    ground="The page allows in-place operations; the values are derivatives by definition",
)
def transforms_and_writes(lab: Lab) -> None:
    """``grad``, ``vjp`` and ``jvp`` differentiate through in-place writes and views."""
    x, t = lab.integers(4), lab.integers(4)

    def clone_after_writes(a: torch.Tensor) -> torch.Tensor:
        b = a.clone()
        b.mul_(a)
        b[0] = 7
        b[1:].add_(a[1:])
        return b

    lab.same("grad", grad(lambda a: clone_after_writes(a).sum())(x))
    lab.same("vjp", vjp(clone_after_writes, x)[1](t))
    lab.same("jvp", jvp(clone_after_writes, (x,), (t,)))
    lab.same("jacfwd", jacfwd(clone_after_writes)(x))
    lab.same("jacrev", jacrev(clone_after_writes)(x))
    lab.same("mapped", vmap(grad(lambda a: clone_after_writes(a).sum()))(torch.stack([x, t])))

    def square_after_writes_through_views(a: torch.Tensor) -> torch.Tensor:
        base = torch.zeros(2, 4, device=a.device, dtype=a.dtype)
        base[0].copy_(a)
        base.view(-1)[4:].add_(a * 2)
        return base * base

    lab.same("a view", grad(lambda a: square_after_writes_through_views(a).sum())(x))
    lab.same("a view forward", jvp(square_after_writes_through_views, (x,), (t,)))
    lab.same("the input itself", x)


@behaviour(
    "functorch", level="full", capabilities=("autograd",), page="generated/torch.func.functional_call.html"
)
def per_sample_gradients(lab: Lab) -> None:
    """``functional_call`` under ``vmap`` of ``grad`` returns the separate gradient of each sample."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    model = lab.to(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(lab.integers(*parameter.shape, low=-1, high=2))
    inputs, targets = lab.integers(5, 3), lab.integers(5, 1)
    parameters = {name: value.detach() for name, value in model.named_parameters()}

    def loss_of_sample(p: dict[str, torch.Tensor], sample: torch.Tensor, target: torch.Tensor) -> Any:
        difference = functional_call(model, p, (sample,)) - target
        return (difference * difference).sum()

    each = vmap(grad(loss_of_sample), in_dims=(None, 0, 0))(parameters, inputs, targets)
    lab.same("each", each)
    whole = grad(lambda p: vmap(loss_of_sample, in_dims=(None, 0, 0))(p, inputs, targets).sum())(parameters)
    for name, value in whole.items():
        lab.holds(
            f"per-sample gradients add up to the gradient of {name}", torch.equal(each[name].sum(0), value)
        )
    lab.same(
        "a partial dict",
        functional_call(model, {"0.bias": torch.zeros(4, device=lab.device)}, (inputs,)).detach(),
    )
    lab.raises(
        "a name that does not exist",
        lambda: functional_call(model, {"no.such": inputs}, (inputs,), strict=True),
        RuntimeError,
    )
