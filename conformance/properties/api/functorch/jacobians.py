"""Behaviours of Jacobians and Hessians of ``torch.func``: the structure of their results, and agreement with
``torch.autograd.functional``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.func import hessian, jacfwd, jacrev, vmap

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.framework.trees import leaves

BOTH: tuple[tuple[str, Callable[..., Any]], ...] = (("jacrev", jacrev), ("jacfwd", jacfwd))


@behaviour(
    "functorch",
    level="full",
    capabilities=("autograd", "forward_ad"),
    page="generated/torch.func.jacrev.html",
    ground=(
        "The page of torch.autograd.functional.jacobian, which the migration table names as the equivalent, "
        "gives the order of nested results"
    ),
)
def jacobian_forms(lab: Lab) -> None:
    """A Jacobian has the structure of the outputs. Each part has the structure of the arguments that
    ``argnums`` selects. By default, ``argnums`` selects the first argument. The part for an unused argument
    is zero. Arguments that ``argnums`` does not select may be numbers.
    """
    x, y = lab.integers(3), lab.integers(3)
    identity = torch.eye(3)

    def two_linear_outputs(a: torch.Tensor, b: torch.Tensor) -> Any:
        return 2 * a + 3 * b, 4 * a + 5 * b

    def linear_outputs_of_tree(p: Any, b: torch.Tensor, c: torch.Tensor) -> Any:
        return p[0] + p[1] * 2, {"rest": b * 3 + c * 4}

    for transform_name, jacobian in BOTH:
        result = jacobian(two_linear_outputs, argnums=(0, 1))(x, y)
        lab.same(f"{transform_name} of two outputs by two arguments", result)
        for number, factor in enumerate((2, 3, 4, 5)):
            lab.expect(f"{transform_name}: part {number}", result[number // 2][number % 2], factor * identity)
        lab.expect(
            f"{transform_name} with default argnums",
            jacobian(lambda a, b: a * 2 + b * 3)(x, y),
            2 * identity,
        )
        lab.same(f"{transform_name} by a number", jacobian(torch.multiply, argnums=0)(x, y))
        lab.same(f"{transform_name} with one argnum in a tuple", jacobian(torch.multiply, argnums=(0,))(x, y))
        for numbers in (0, (0,), (0, 1), (2, 1)):
            lab.same(
                f"{transform_name} of trees by {numbers}",
                jacobian(linear_outputs_of_tree, argnums=numbers)((x[0], y[0]), x[1], y[1]),
            )
        with lab.parity("No page says that negative argnums count from the end"):
            lab.same(
                f"{transform_name} of trees by (2, -2)",
                jacobian(linear_outputs_of_tree, argnums=(2, -2))((x[0], y[0]), x[1], y[1]),
            )
        tree = jacobian(lambda d: {"c": d["a"] * d["a"], "d": d["b"] * 3})({"a": x, "b": y})
        lab.same(f"{transform_name} of a dict", tree)
        lab.expect(f"{transform_name}: zero across", tree["c"]["b"], torch.zeros(3, 3))
        matrix = lab.integers(2, 3)
        used, unused = jacobian(lambda a, b: a, argnums=(0, 1))(matrix, matrix)
        lab.expect(f"{transform_name} of the argument itself", used, torch.eye(6).view(2, 3, 2, 3))
        lab.expect(f"{transform_name} of an unused argument", unused, torch.zeros(2, 3, 2, 3))
        lab.expect(f"{transform_name} beside a number", jacobian(lambda a, k: a * k)(x, 3), 3 * identity)
        result_with_auxiliary = jacobian(lambda a: (a * 1, {"p": a * 2, "q": [a + 1]}), has_aux=True)(x)
        lab.same(f"{transform_name} beside a tree", result_with_auxiliary)


@behaviour(
    "functorch",
    level="full",
    capabilities=("autograd", "forward_ad"),
    must_detect=("error",),
    page="generated/torch.func.jacrev.html",
    basis="parity",
    ground="No page says that these functions, argnums or auxiliary results are an error",
)
def jacobians_refuse(lab: Lab) -> None:
    """``jacrev`` and ``jacfwd`` raise errors for functions without an output and for auxiliary results that
    are not tensors, and if ``argnums`` is empty, out of range, repeated or not an integer.
    """
    x = lab.integers(3)
    for transform_name, jacobian in BOTH:
        lab.raises(
            f"{transform_name}: no output", lambda: jacobian(lambda a: ())(x), RuntimeError, match="xpected"
        )
        for name, numbers in {
            "empty": (),
            "too high": 2,
            "too low": -2,
            "repeated": (0, 0),
            "a fraction": 0.0,
        }.items():
            lab.raises(
                f"{transform_name}: {name}",
                lambda: jacobian(torch.square, argnums=numbers)(x),
                match="argnum",
            )
        lab.raises(
            f"{transform_name}: an argnum that is not an integer",
            lambda: jacobian(torch.mul, argnums=(1, 0.0))(x, x),
            match="int",
        )
        for name, auxiliary in {"a number": 1, "a fraction": 1.5, "a word": "b"}.items():
            lab.raises(
                f"{transform_name}: {name} as the auxiliary result",
                lambda: jacobian(lambda a: (a, auxiliary), has_aux=True)(x),
            )
            lab.raises(
                f"{transform_name}: {name} in a list of auxiliary results",
                lambda: jacobian(lambda a: (a, [a, auxiliary]), has_aux=True)(x),
            )


@behaviour(
    "functorch",
    dtypes=("complex64",),
    level="full",
    capabilities=("autograd", "forward_ad"),
    must_detect=("error", "message"),
    page="generated/torch.func.jacrev.html",
    basis="parity",
    ground="No page says that complex inputs or outputs are refused",
)
def jacobians_refuse_complex(lab: Lab) -> None:
    """``jacrev`` and ``jacfwd`` raise errors for complex inputs and complex outputs."""
    z, x = lab.integers(2), lab.integers(2, dtype=torch.float32)
    for transform_name, jacobian in BOTH:
        lab.raises(
            f"{transform_name} of a complex input", lambda: jacobian(torch.conj)(z), match="inputs.*real"
        )
        lab.raises(
            f"{transform_name} of a complex output",
            lambda: jacobian(lambda a: a * 0.5j)(x),
            match="outputs.*real",
        )


@behaviour(
    "functorch",
    level="full",
    capabilities=("autograd", "forward_ad"),
    page="generated/torch.func.jacrev.html",
    ground="both functions compute the Jacobian, which is defined mathematically",
)
def jacobians_by_the_engine(lab: Lab) -> None:
    """``jacrev`` and ``jacfwd`` return the results of ``torch.autograd.functional.jacobian``, for one and
    several inputs and outputs, which may be dimensionless. The inputs may be on another device than an
    output.
    """
    vector, second_vector, scalar = lab.integers(3), lab.integers(3), lab.integers()
    matrix, right = lab.integers(2, 3), lab.integers(3, 2)
    index = lab.put([1, 1, 0])

    def scaled_product(a: torch.Tensor, b: torch.Tensor, k: float = 3.0) -> torch.Tensor:
        return a * b * k

    functions: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
        "a square": (lambda a: 3 * a * a, (matrix,)),
        "two inputs": (lambda a, b: (a * a * a) @ (b * b), (matrix, right)),
        "three outputs": (lambda a, b: ((a * a) @ b, b @ (a.sum(1) * 2), b.sum()), (matrix, right)),
        "outputs that depend on one input": (lambda a, b: (a * 1, b * 1, a * 2, b * 2), (vector, scalar)),
        "outputs of no dimension": (lambda a, b: (a.sum(), b.sum(), a * b), (vector, second_vector)),
        "an input of no dimension": (lambda a: torch.stack([a, a, a * a]), (scalar,)),
        "both of no dimension": (lambda a, b: (b.sum(), a * b), (scalar, vector[:1])),
        "a default": (scaled_product, (vector, second_vector)),
        "take": (lambda a: torch.take(a, index), (vector,)),
    }
    for name, (function, inputs) in functions.items():
        expected_jacobian = torch.autograd.functional.jacobian(function, inputs)
        for transform_name, jacobian in BOTH:
            result = jacobian(lambda p, f=function: f(*p))(inputs)
            lab.same(f"{name}, {transform_name}", result)
            pairs = zip(leaves(result), leaves(expected_jacobian), strict=True)
            lab.holds(f"{name}, {transform_name}: the engine's", all(torch.equal(a, b) for a, b in pairs))
    here, there = torch.tensor([1.0, 2, 3]), torch.tensor([4.0, 5, 6])

    def product_on_both_devices(a: torch.Tensor, b: torch.Tensor) -> Any:
        return a * b, (a * b).to(lab.device)

    for transform_name, jacobian in BOTH:
        result = [
            part.cpu() for part in leaves(jacobian(product_on_both_devices, argnums=(0, 1))(here, there))
        ]
        lab.same(f"from the host, {transform_name}", result, host=True)
        for part, expected in zip(result, (there, here, there, here), strict=True):
            lab.holds(
                f"from the host, {transform_name}: equals the known Jacobian",
                torch.equal(part, torch.diag(expected)),
            )


@behaviour(
    "functorch",
    level="full",
    capabilities=("double_backward", "forward_ad"),
    page="generated/torch.func.jacrev.html",
)
def jacobians_of_jacobians(lab: Lab) -> None:
    """Nested Jacobians have the same values in chunks, under ``vmap``, and in forward or reverse mode. Nested
    Jacobians of a linear map are zero. ``hessian`` equals ``torch.autograd.functional.hessian``, also for
    unused inputs.
    """
    rows = lab.integers(5, 2)

    def four_nested_outputs(a: torch.Tensor) -> Any:
        return (a * a * a, a * 2), (a + 2, (a * a).sum())

    whole = vmap(jacrev(jacrev(four_nested_outputs)))(rows)
    for size in (1, 3, 10):
        part = vmap(jacrev(jacrev(four_nested_outputs, chunk_size=size), chunk_size=size))(rows)
        lab.same(f"in chunks of {size}", part)
        pairs = zip(leaves(part), leaves(whole), strict=True)
        lab.holds(f"in chunks of {size}: agrees with one chunk", all(torch.equal(a, b) for a, b in pairs))
    matrix = lab.integers(4, 3)
    lab.expect("of a linear map", jacrev(jacrev(lambda a: matrix @ a))(lab.integers(3)), torch.zeros(4, 3, 3))

    def squares_of_first_input(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a * a).sum()

    def constant_function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.ones((), device=a.device)

    for name, function in {
        "one unused input": squares_of_first_input,
        "only unused inputs": constant_function,
    }.items():
        inputs = (lab.integers(2), lab.integers(3))
        result = hessian(lambda p, f=function: f(*p))(inputs)
        expected = torch.autograd.functional.hessian(function, inputs)
        lab.same(name, result)
        pairs = zip(leaves(result), leaves(expected), strict=True)
        lab.holds(f"{name}: the engine's", all(torch.equal(a, b) for a, b in pairs))
    points, linear = lab.integers(3, 4, 2), lab.integers(3, 2, 2)

    def sum_of_squared_residuals(m: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        residuals = b - (m @ a.T).T
        return (residuals * residuals).sum()

    forward = vmap(hessian(sum_of_squared_residuals))(linear, points, points)
    lab.same("forward over reverse", forward)
    lab.holds(
        "as reverse over reverse",
        torch.equal(forward, vmap(jacrev(jacrev(sum_of_squared_residuals)))(linear, points, points)),
    )
