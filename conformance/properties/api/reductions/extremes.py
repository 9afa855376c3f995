"""Check maxima and minima, and their indices."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy
import torch

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import FLOATS, INTEGERS, behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import (
    expect_error_for_two_devices,
    tensor_from_array,
    to_widest_numpy_array,
)

_DIMS: tuple[Any, ...] = (0, 1, -1, (0, 2), (0, 1, 2))


def _distinct_values(lab: Lab, *shape: int) -> torch.Tensor:
    """Return distinct whole numbers in random order. For int8, at most 120 numbers are possible."""
    count = math.prod(shape)
    return tensor_from_array(
        lab,
        to_widest_numpy_array(lab.permutation(count)).reshape(shape)
        - (0 if lab.dtype == torch.uint8 else count // 3),
    )


@behaviour(
    "reductions",
    dtypes=(*FLOATS, *INTEGERS),
    level="bringup",
    must_detect=("value", "error"),
    page="generated/torch.max.html",
)
def greatest_and_smallest(lab: Lab) -> None:
    """``max``, ``min``, ``amax``, ``amin``, ``aminmax``, ``argmax`` and ``argmin`` return the extremes, or
    their indices, over all elements and along dimensions. This holds with and without ``keepdim`` and for any
    strides.
    """
    base = _distinct_values(lab, 4, 5, 3)
    array = to_widest_numpy_array(base)
    lab.expect(
        "of all",
        [x.item() for x in (base.max(), base.min(), base.amax(), base.amin(), *base.aminmax())],
        [array.max(), array.min(), array.max(), array.min(), array.min(), array.max()],
    )
    lab.expect(
        "indices over all", (base.argmax().item(), base.argmin().item()), (array.argmax(), array.argmin())
    )
    for dim in (0, 1, 2, -1):
        for keep in (False, True):
            name = f"of dim {dim}{', keepdim' if keep else ''}"
            for function_name in ("max", "min"):
                result = getattr(torch, function_name)(base, dim, keep)
                lab.expect(
                    f"{function_name} {name}",
                    result.values,
                    getattr(array, function_name)(dim, keepdims=keep),
                )
                lab.expect(
                    f"where {function_name} is {name}",
                    result.indices,
                    getattr(array, f"arg{function_name}")(dim, keepdims=keep),
                )
                lab.expect(
                    f"arg{function_name} {name}",
                    getattr(base, f"arg{function_name}")(dim, keep),
                    getattr(array, f"arg{function_name}")(dim, keepdims=keep),
                )
            both = torch.aminmax(base, dim=dim, keepdim=keep)
            lab.expect(
                f"aminmax {name}",
                [both.min.tolist(), both.max.tolist()],
                [array.min(dim, keepdims=keep).tolist(), array.max(dim, keepdims=keep).tolist()],
            )
    for dim in _DIMS:
        lab.expect(f"amax of {dim}", base.amax(dim), array.max(dim))
        lab.expect(f"amin of {dim}", base.amin(dim, True), array.min(dim, keepdims=True))
    turned, gapped = base.permute(2, 0, 1), base[:, ::2, 1:]
    lab.expect("permuted", turned.max(1).indices, array.transpose(2, 0, 1).argmax(1))
    lab.expect("with gaps", gapped.min(2).values, array[:, ::2, 1:].min(2))
    lab.expect("with gaps of all", gapped.argmax().item(), array[:, ::2, 1:].argmax())
    out = (
        torch.empty(0, dtype=lab.dtype, device=lab.device),
        torch.empty(0, dtype=torch.int64, device=lab.device),
    )
    torch.max(base, 1, out=out)
    lab.expect("out", out[0], array.max(1))
    lab.expect("indices out", out[1], array.argmax(1))
    with lab.parity("No page says that a dimension may be named for a tensor without dimensions"):
        lab.same("a number", [base[0, 0, 0].max(0), base[0, 0, 0].argmin(0), base[0, 0, 0].amax(())])
    lab.same("a size of 1", [base[:, :1].max(1), base[:, :1].argmin(1), base[:1].min(0)])
    with lab.parity("No page says that a dimension that does not exist is an error"):
        lab.raises("a dimension that does not exist", lambda: base.max(3), IndexError)
    with lab.parity("No page says that a repeated dimension is an error"):
        lab.raises("amax of the same dimension twice", lambda: base.amax((0, 0)), match="(?i)multiple times")
    lab.raises(
        "max with an indices out= of a wrong dtype",
        lambda: (
            torch.max(base, 1, out=(out[0], out[0].clone()))
            if lab.dtype != torch.int64
            else torch.max(base, 1, out=(out[0], out[0].float()))
        ),
        match="(?i)long|int64|dtype",
    )
    expect_error_for_two_devices(
        lab, "an out elsewhere", lambda: torch.max(base, 1, out=(out[0].cpu(), out[1].cpu()))
    )


@behaviour(
    "reductions",
    dtypes=FLOATS,
    level="core",
    must_detect=("value",),
    page="generated/torch.max.html",
    basis="parity",
    ground="No page says that NaN propagates, or which index it has",
)
def extremes_of_special_values(lab: Lab) -> None:
    """The maximum and minimum of a row that contains NaN are NaN, and their index is the index of the first
    NaN. Infinities are ordinary values.
    """
    rows = lab.put(
        [
            [1.0, math.nan, 3, math.nan],
            [math.inf, -math.inf, 0, 2],
            [-math.inf, -math.inf, -math.inf, -math.inf],
        ],
        dtype=lab.dtype,
    )
    for function_name, expected, where in (
        ("max", [math.nan, math.inf, -math.inf], [1, 0]),
        ("min", [math.nan, -math.inf, -math.inf], [1, 1]),
    ):
        result = getattr(rows, function_name)(1)
        index = getattr(rows, f"arg{function_name}")(1)
        values = getattr(rows, f"a{function_name}")(1)
        with lab.documented():
            lab.expect(f"{function_name} of infinities", result.values[1:], expected[1:])
            lab.expect(f"index of {function_name} of infinities", result.indices[1], where[1])
            lab.expect(f"arg{function_name} of infinities", index[1], where[1])
            lab.expect(f"a{function_name} of infinities", values[1:], expected[1:])
            lab.expect(
                f"a{function_name} of columns", getattr(rows[1:].t(), f"a{function_name}")(0), expected[1:]
            )
        lab.expect(f"{function_name} of NaN", result.values[0], math.nan)
        lab.expect(f"index of {function_name} of NaN", result.indices[0], where[0])
        lab.expect(f"arg{function_name} of NaN", index[0], where[0])
        lab.expect(f"a{function_name} of NaN", values[0], math.nan)
        lab.expect(f"{function_name} of all", getattr(rows, function_name)(), math.nan)
    both = torch.aminmax(rows, dim=1)
    with lab.documented():
        lab.expect(
            "aminmax",
            [both.min[1].item(), both.max[1].item(), both.min[0].isnan().item()],
            [-math.inf, math.inf, True],
        )
    many = torch.zeros(5000, dtype=lab.dtype, device=lab.device)
    many[4321] = math.nan
    lab.expect(
        "one NaN of many",
        (many.max().isnan().item(), many.argmax().item(), many.min().isnan().item()),
        (True, 4321, True),
    )


@behaviour(
    "reductions",
    dtypes=(*FLOATS, *INTEGERS, "bool"),
    level="core",
    must_detect=("value",),
    page="generated/torch.maximum.html",
)
def greater_of_two(lab: Lab) -> None:
    """``maximum``, ``minimum``, ``fmax``, ``fmin``, and ``max`` and ``min`` of two tensors select the larger
    or smaller of two elements. They broadcast.
    """
    first_tensor, second_tensor = (
        lab.integers(4, 3, low=0, high=2 if lab.dtype == torch.bool else 9),
        lab.integers(3, low=0, high=9),
    )
    first, second = to_widest_numpy_array(first_tensor), to_widest_numpy_array(second_tensor)
    for function_name, reference in (("max", numpy.maximum), ("min", numpy.minimum)):
        lab.expect(
            function_name,
            getattr(torch, function_name)(first_tensor, second_tensor),
            reference(first, second),
        )
        lab.expect(
            f"{function_name}imum",
            getattr(torch, f"{function_name}imum")(first_tensor, second_tensor),
            reference(first, second),
        )
        basis = (
            lab.parity("The page names only integers and floats")
            if lab.dtype == torch.bool
            else contextlib.nullcontext()
        )
        with basis:
            lab.expect(
                f"f{function_name}",
                getattr(torch, f"f{function_name}")(first_tensor, second_tensor),
                reference(first, second),
            )
        out = torch.empty(0, dtype=lab.dtype, device=lab.device)
        lab.expect(
            f"{function_name} into out",
            getattr(torch, function_name)(first_tensor, second_tensor, out=out),
            reference(first, second),
        )
        lab.expect(
            f"{function_name} transposed",
            getattr(torch, function_name)(first_tensor.t(), second_tensor.view(3, 1)),
            reference(first.T, second.reshape(3, 1)),
        )
        if lab.dtype.is_floating_point:
            x = lab.put([math.nan, 1.0, math.nan, math.inf, -math.inf], dtype=lab.dtype)
            y = lab.put([1.0, math.nan, math.nan, 2, 2], dtype=lab.dtype)
            numbers = (math.inf, 2.0) if function_name == "max" else (2.0, -math.inf)
            lab.expect(
                f"{function_name}imum of NaN",
                getattr(torch, f"{function_name}imum")(x, y),
                [math.nan, math.nan, math.nan, *numbers],
            )
            lab.expect(
                f"f{function_name} of NaN",
                getattr(torch, f"f{function_name}")(x, y),
                [1.0, 1.0, math.nan, *numbers],
            )


@behaviour(
    "reductions",
    dtypes=("float32", "int64", "bool"),
    level="core",
    must_detect=("error", "shape"),
    page="generated/torch.max.html",
    basis="parity",
    ground="only the page of aminmax mentions empty dimensions; no page says that other functions fail",
)
def extremes_of_nothing(lab: Lab) -> None:
    """Over an empty dimension, reductions without an identity raise an error, and reductions with an identity
    return the identity. If a dimension that is not reduced is empty, the result is empty.
    """
    none = torch.empty(2, 0, 4, dtype=lab.dtype, device=lab.device)
    for function_name in (
        "max",
        "min",
        "amax",
        "amin",
        "argmax",
        "argmin",
        "median",
        "mode",
        "kthvalue",
        "aminmax",
    ):
        if lab.dtype == torch.bool and function_name in ("median", "kthvalue", "argmax", "argmin"):
            continue

        def reduce_dimension(x: torch.Tensor, dim: int) -> Any:
            return x.kthvalue(1, dim) if function_name == "kthvalue" else getattr(x, function_name)(dim=dim)

        basis = (
            lab.documented()
            if function_name == "aminmax"
            else lab.parity("No page says that the call is an error")
        )
        with basis:
            lab.raises(
                f"{function_name} of nothing", lambda: reduce_dimension(none, 1), IndexError, RuntimeError
            )
        with lab.documented():
            lab.same(f"{function_name} of the dimension after an empty dimension", reduce_dimension(none, 2))
            lab.same(f"{function_name} of the dimension before an empty dimension", reduce_dimension(none, 0))
    for function_name in ("max", "min", "argmax", "argmin"):
        if lab.dtype == torch.bool and function_name.startswith("arg"):
            continue
        lab.raises(
            f"{function_name} over all dimensions of an empty tensor",
            lambda: getattr(none, function_name)(),
            IndexError,
            RuntimeError,
        )
    for function_name in ("sum", "prod", "all", "any"):
        results = [
            getattr(none, function_name)(1),
            getattr(none, function_name)(2),
            getattr(none, function_name)(),
        ]
        if function_name in ("sum", "prod") and not lab.dtype.is_floating_point:
            # No page fixes the dtype of a sum or product of integers.
            results = [result.long() for result in results]
        with lab.documented():
            lab.same(f"{function_name} of nothing", results)
    if lab.dtype.is_floating_point:
        with lab.documented():
            lab.expect("mean of nothing", none.mean(), math.nan)
            lab.same(
                "mean, norm, logsumexp, var and std of an empty dimension",
                [none.mean(1), none.norm(2, 1), none.logsumexp(1), none.var(1), none.std(2)],
            )


@behaviour(
    "reductions",
    dtypes=("float32", "int32", "int64"),
    must_detect=("value",),
    page="generated/torch.max.html",
)
def extremes_of_many(lab: Lab) -> None:
    """Extremes and their indices are correct for long rows, for many rows and for many columns."""
    long = tensor_from_array(lab, to_widest_numpy_array(lab.permutation(60000)))
    array = to_widest_numpy_array(long)
    lab.expect("of all", (long.argmax().item(), long.argmin().item()), (array.argmax(), array.argmin()))
    for shape, dim in (((6, 10000), 1), ((10000, 6), 0), ((10000, 6), 1), ((60, 1000), 0)):
        result = long.view(shape).max(dim)
        lab.expect(f"max along {dim} of {shape}", result.values, array.reshape(shape).max(dim))
        lab.expect(f"indices of max along {dim} of {shape}", result.indices, array.reshape(shape).argmax(dim))
        lab.expect(
            f"argmin along {dim} of {shape}", long.view(shape).argmin(dim), array.reshape(shape).argmin(dim)
        )


@behaviour(
    "reductions",
    dtypes=("bool",),
    level="core",
    must_detect=("value",),
    page="generated/torch.max.html",
    ground="The maximum of booleans follows from the definition; the page does not list dtypes",
)
def extremes_of_truth_values(lab: Lab) -> None:
    """``max`` and ``min`` accept booleans, and raise an error for complex numbers."""
    base = lab.put([[True, False, True], [False, False, False]])
    lab.expect("max", base.max(1).values, [True, False])
    lab.expect("min", base.min(1).values, [False, False])
    lab.expect("amax and amin", (base.amax().item(), base.amin().item()), (True, False))
    lab.expect("aminmax", [x.item() for x in torch.aminmax(base[0])], [False, True])
    lab.expect("where", base[0].min(0).indices, 1)
    for function_name in ("max", "min", "argmax", "amax", "aminmax"):
        with lab.parity("No page says that the call is an error"):
            lab.raises(
                f"{function_name} of complex numbers",
                lambda: getattr(lab.put([1j, 2]), function_name)(),
                RuntimeError,
                NotImplementedError,
            )


@behaviour(
    "reductions",
    must_detect=("error",),
    page="generated/torch.sum.html",
    basis="parity",
    ground="No page limits the number of dimensions to 64",
)
def reductions_of_too_many_dimensions(lab: Lab) -> None:
    """A reduction along a dimension of a tensor with more than 64 dimensions raises an error."""
    many = torch.ones([1] * 65, device=lab.device)
    for entry in torch_testing_internals.op_db():
        if torch_testing_internals.is_reduction(entry) and not entry.name.startswith("masked."):
            lab.raises(entry.full_name, lambda: entry.op(many, dim=0), match="64")
