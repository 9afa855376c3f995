"""Behaviours of norms of vectors and matrices, and of condition numbers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy
import torch

from conformance.behaviours.behaviour import COMPLEX, FLOATS, behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import Array, tensor_from_array, to_widest_numpy_array
from conformance.properties.api.linalg._matrices import (
    DTYPES,
    allowed_matrix_roundings,
    diagonally_dominant_matrices,
)

_VECTOR_ORDERS = (0, 1, -1, 2, -2, 3, -3, 0.5, 4.5, math.inf, -math.inf)
_MATRIX_ORDERS: tuple[Any, ...] = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


def _norm_by_definition(array: Array, order: float, dim: Any, keep: bool) -> Array:
    """Return the p-norm of order ``order`` along one or several dimensions, computed from its definition."""
    size = numpy.abs(array)
    axes = tuple(range(array.ndim)) if dim is None else dim
    if order == 0:
        return (size != 0).sum(axes, keepdims=keep).astype(float)
    if math.isinf(order):
        return (size.max if order > 0 else size.min)(axes, keepdims=keep)
    with numpy.errstate(divide="ignore"):
        return (size**order).sum(axes, keepdims=keep) ** (1 / order)


@behaviour(
    "linalg",
    dtypes=(*FLOATS, *COMPLEX),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.linalg.vector_norm.html",
    ground="The page lists float, double and complex dtypes only, so float16 and bfloat16 have basis parity",
)
def vector_norms(lab: Lab) -> None:
    """``vector_norm``, ``linalg.norm`` and ``torch.norm`` agree with the definition of the norm for every
    order, over all elements, one dimension or several. ``keepdim=``, ``out=`` and ``dtype=`` are supported.
    """
    if lab.dtype.itemsize == 2:
        with lab.parity("The page lists float, double and complex dtypes only"):
            _check_vector_norms(lab)
    else:
        _check_vector_norms(lab)


def _check_vector_norms(lab: Lab) -> None:
    base = tensor_from_array(lab, to_widest_numpy_array(lab.integers(3, 4, 2)) + 5)
    array = to_widest_numpy_array(base)
    narrow = lab.dtype.itemsize == 2
    for order in _VECTOR_ORDERS:
        if narrow and order in (4.5, 0.5, -3):
            continue
        roundings = 64.0 + 16 * abs(order if math.isfinite(order) else 1)
        for dim in (None, 0, 1, -1, (0, 2), [0, 1, 2]):
            for keep in (False, True):
                expected = _norm_by_definition(
                    array, order, tuple(dim) if isinstance(dim, list) else dim, keep
                )
                name = f"of order {order}, dim={dim}{', keepdim' if keep else ''}"
                lab.expect(
                    f"vector_norm {name}",
                    torch.linalg.vector_norm(base, order, dim, keep),
                    expected,
                    roundings=roundings,
                )
                if isinstance(dim, int):
                    lab.expect(
                        f"norm {name}",
                        torch.linalg.norm(base, order, dim, keep),
                        expected,
                        roundings=roundings,
                    )
                    if order != 0:
                        lab.expect(
                            f"torch.norm {name}",
                            torch.norm(base, order, dim, keep),
                            expected,
                            roundings=roundings,
                        )
                    else:
                        with lab.parity("The page of torch.norm does not define the norm of order 0"):
                            lab.expect(f"torch.norm {name}", torch.norm(base, 0, dim, keep), expected)
        row = base[0, :, 0]
        lab.expect(
            f"{order} of a vector",
            torch.linalg.norm(row, order),
            _norm_by_definition(to_widest_numpy_array(row), order, None, False),
            roundings=roundings,
        )
        lab.expect(
            f"order {order} of a single element",
            torch.linalg.vector_norm(base[:1, :1, :1], order, (0, 1)),
            _norm_by_definition(array[:1, :1, :1], order, (0, 1), False),
            roundings=roundings,
        )
    lab.expect(
        "with gaps",
        torch.linalg.vector_norm(base[..., ::2], 2, 1),
        _norm_by_definition(array[..., ::2], 2, 1, False),
        roundings=64.0,
    )
    real = base.real.dtype if lab.dtype.is_complex else lab.dtype
    lab.expect("dtype", torch.linalg.vector_norm(base).dtype, real)
    wide = torch.complex128 if lab.dtype.is_complex else torch.float64
    result = torch.linalg.vector_norm(base, 3, 1, dtype=wide)
    lab.expect("in another dtype", result, _norm_by_definition(array, 3, 1, False), roundings=64.0)
    lab.expect("its dtype", result.dtype, torch.float64)
    out = torch.empty(0, dtype=real, device=lab.device)
    with lab.parity("No page says that the returned object is the out= tensor itself"):
        lab.holds("vector_norm returns out", torch.linalg.vector_norm(base, 2, 0, out=out) is out)
    lab.expect("out", out, _norm_by_definition(array, 2, 0, False), roundings=64.0)
    ones = torch.ones(600, dtype=lab.dtype, device=lab.device)
    lab.expect(
        "of many ones",
        [torch.linalg.vector_norm(ones, order).item() for order in (0, 1, math.inf, -math.inf)],
        [600.0, 600.0, 1.0, 1.0],
    )
    with lab.parity("No page says that this call is an error"):
        lab.raises("a complex order", lambda: torch.linalg.vector_norm(base, 1j), match="(?i)complex")
        lab.raises(
            "a dimension that does not exist",
            lambda: torch.linalg.vector_norm(base, dim=(3,)),
            IndexError,
            match="(?i)dim",
        )
        lab.raises(
            "the same dimension twice",
            lambda: torch.linalg.vector_norm(base, dim=(0, -3)),
            match="(?i)multiple times",
        )
        lab.raises("a dimension of a float", lambda: torch.linalg.vector_norm(base, dim=(0, 1.0)), TypeError)
    with lab.parity("The page lists dtypes and does not say that other dtypes are an error"):
        lab.raises(
            "integers",
            lambda: torch.linalg.vector_norm(torch.ones(3, dtype=torch.int64, device=lab.device)),
            match="(?i)float",
        )


@behaviour(
    "linalg",
    dtypes=("float32", "float64", "complex64"),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.linalg.vector_norm.html",
    basis="parity",
    ground="The pages do not say which norms reject empty tensors, or how infinities and NaN propagate",
)
def norms_of_nothing_and_the_infinite(lab: Lab) -> None:
    """The norm of zero elements is 0. For an order whose reduction has no identity (infinity and negative
    orders), it is an error. Infinities and NaNs propagate.
    """
    none = torch.empty(0, 4, dtype=lab.dtype, device=lab.device)
    order: Any
    for order in _VECTOR_ORDERS:
        if order < 0 or order == math.inf:
            lab.raises(
                f"{order} of nothing",
                lambda: torch.linalg.vector_norm(none, order),
                RuntimeError,
                IndexError,
            )
            lab.raises(
                f"{order} of no rows", lambda: torch.linalg.norm(none, order, 0), RuntimeError, IndexError
            )
        else:
            with lab.documented():
                lab.expect(f"{order} of nothing", torch.linalg.vector_norm(none, order), 0.0)
                lab.expect(f"{order} of no rows", torch.linalg.norm(none, order, 0), [0.0] * 4)
        with lab.documented():
            lab.same(f"{order} beside nothing", torch.linalg.norm(none, order, 1))
    for order in ("fro", "nuc"):
        with lab.documented():
            lab.expect(f"{order} of nothing", torch.linalg.matrix_norm(none, order), 0.0)
    for pair in itertools.product((math.inf, -math.inf, 0.0, math.nan, 1.0), repeat=2):
        x = lab.put(pair, dtype=lab.dtype)
        for order in (0, 1, 2, 3, math.inf, -1, -2, -math.inf):
            with numpy.errstate(all="ignore"):
                expected = numpy.linalg.norm(numpy.array(pair), order)
            if lab.dtype.is_complex and math.nan in pair:
                continue
            lab.expect(f"{order} of {pair}", torch.linalg.vector_norm(x, order), expected, roundings=8.0)
            lab.expect(f"norm {order} of {pair}", torch.linalg.norm(x, order), expected, roundings=8.0)
            if order in (math.inf, -math.inf):
                lab.expect(f"torch.norm {order} of {pair}", torch.norm(x, order), expected)
        if not lab.dtype.is_complex:
            for order in ("fro", 1, math.inf, -1, -math.inf):
                with numpy.errstate(all="ignore"):
                    expected = numpy.linalg.norm(numpy.array([pair]), order)
                lab.expect(
                    f"order {order} of the matrix {pair}",
                    torch.linalg.norm(x.view(1, 2), order),
                    expected,
                    roundings=8.0,
                )


@behaviour(
    "linalg",
    dtypes=DTYPES,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.linalg.norm.html",
)
def matrix_norms(lab: Lab) -> None:
    """``matrix_norm``, ``linalg.norm``, ``torch.norm`` and ``nuclear_norm`` agree with NumPy for every order
    and pair of dimensions, with and without ``keepdim``. Invalid orders and dimensions raise errors.
    """
    base = lab.integers(3, 4, 3, 2)
    array = to_widest_numpy_array(base)
    for order in _MATRIX_ORDERS:
        for dim in ((0, 1), (1, 0), (-1, -3), (2, 0)):
            for keep in (False, True):
                expected = numpy.linalg.norm(array, order, dim, keep)
                name = f"of order {order}, dim={dim}{', keepdim' if keep else ''}"
                lab.expect(
                    f"matrix_norm {name}",
                    torch.linalg.matrix_norm(base, order, dim, keep),
                    expected,
                    roundings=allowed_matrix_roundings(4),
                )
                lab.expect(
                    f"norm {name}",
                    torch.linalg.norm(base, order, dim, keep),
                    expected,
                    roundings=allowed_matrix_roundings(4),
                )
                if isinstance(order, str):
                    lab.expect(
                        f"torch.norm {name}",
                        torch.norm(base, order, dim, keep),
                        expected,
                        roundings=allowed_matrix_roundings(4),
                    )
        matrix = base[:, :, 0, 0]
        lab.expect(
            f"order {order} of a transposed matrix",
            torch.linalg.norm(matrix.t(), order),
            numpy.linalg.norm(to_widest_numpy_array(matrix).T, order),
            roundings=allowed_matrix_roundings(4),
        )
    lab.expect(
        "by default",
        torch.linalg.matrix_norm(base),
        numpy.linalg.norm(array, axis=(-2, -1)),
        roundings=allowed_matrix_roundings(4),
    )
    lab.expect(
        "of all",
        torch.linalg.norm(base),
        numpy.sqrt((abs(array) ** 2).sum()),
        roundings=allowed_matrix_roundings(6),
    )
    lab.expect(
        "torch.norm with order fro is the vector norm of order 2",
        torch.norm(base, "fro", (0, 1)),
        _norm_by_definition(array, 2, (0, 1), False),
        roundings=allowed_matrix_roundings(4),
    )
    with lab.parity("torch.nuclear_norm is undocumented"):
        lab.expect(
            "nuclear_norm",
            torch.nuclear_norm(base, (1, 0)),
            numpy.linalg.norm(array, "nuc", (1, 0)),
            roundings=allowed_matrix_roundings(4),
        )
    out = torch.empty(0, dtype=base.real.dtype, device=lab.device)
    with lab.parity("torch.nuclear_norm is undocumented"):
        lab.expect(
            "nuclear_norm into out",
            torch.nuclear_norm(base, (0, 1), keepdim=True, out=out),
            numpy.linalg.norm(array, "nuc", (0, 1), True),
            roundings=allowed_matrix_roundings(4),
        )
    vector, matrix = base[0, 0, 0], base[0, :, :, 0]
    with lab.parity("The page gives the expected shape and does not say that other shapes are an error"):
        lab.raises("of a vector", lambda: torch.linalg.matrix_norm(vector), match="(?i)2 dimensions")
    with lab.parity("No page says that this call is an error"):
        lab.raises(
            "of one dimension", lambda: torch.linalg.matrix_norm(matrix, dim=(0,)), match="(?i)2-tuple"
        )
    for order in (0, 3.5):
        lab.raises(f"order {order}", lambda: torch.linalg.norm(matrix, order), match="(?i)not supported")
    with lab.parity("No page says that this call is an error"):
        lab.raises("order fail", lambda: torch.linalg.norm(matrix, "fail"), match="(?i)not supported")
        lab.raises("a complex order", lambda: torch.linalg.matrix_norm(matrix, 1 + 2j), match="(?i)complex")
    for order in ("fro", "nuc", 2):
        with lab.parity("No page says that this call is an error"):
            lab.raises(
                f"order {order} of a repeated dimension",
                lambda: torch.linalg.norm(matrix, order, (0, 0)),
                match="(?i)different|multiple",
            )
            lab.raises(
                f"order {order} of a dimension that does not exist",
                lambda: torch.linalg.norm(matrix, order, (0, 4)),
                IndexError,
            )
    lab.raises("nuc of a vector", lambda: torch.linalg.norm(vector, "nuc"), match="(?i)2 dimensions")
    lab.raises("order 1 of three dimensions", lambda: torch.linalg.norm(base, 1), match="(?i)1D or 2D")
    with lab.parity("No page says that three dimensions are an error"):
        lab.raises(
            "three dimensions", lambda: torch.linalg.norm(base, 1, (0, 1, 2)), match="(?i)length 1 or 2"
        )
    lab.raises(
        "torch.norm with order nuc of a vector",
        lambda: torch.norm(vector, "nuc", (0,)),
        RuntimeError,
        IndexError,
    )
    with lab.parity("No page says that this call is an error"):
        lab.raises(
            "torch.norm with order nuc of a repeated dimension",
            lambda: torch.norm(matrix, "nuc", (0, 0)),
            match="(?i)different",
        )


@behaviour(
    "linalg",
    dtypes=DTYPES,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.linalg.cond.html",
)
def condition_numbers(lab: Lab) -> None:
    """``cond`` is the norm of the matrix times the norm of its inverse. For the orders 2, -2 and None,
    ``cond`` is a quotient of singular values. For a singular matrix and the other orders, it raises an error
    or returns infinity. For an empty matrix it returns 0.
    """
    for shape in ((4, 4), (2, 3, 3), (0, 3, 3)):
        a = diagonally_dominant_matrices(lab, *shape)
        for order in (None, *_MATRIX_ORDERS):
            expected = numpy.linalg.cond(to_widest_numpy_array(a), order) if shape[0] else numpy.zeros(0)
            lab.expect(
                f"{order} of {shape}",
                torch.linalg.cond(a, order),
                expected,
                roundings=allowed_matrix_roundings(4),
            )
    for shape in ((5, 3), (2, 3, 5)):
        a = tensor_from_array(
            lab, to_widest_numpy_array(lab.integers(*shape, low=-1, high=2)) + 5 * numpy.eye(*shape[-2:])
        )
        for order in (None, 2, -2):
            lab.expect(
                f"{order} of {shape}",
                torch.linalg.cond(a, order),
                numpy.linalg.cond(to_widest_numpy_array(a), order),
                roundings=allowed_matrix_roundings(5),
            )
    singular = tensor_from_array(lab, numpy.stack([numpy.eye(3), numpy.diag([1.0, 1, 0]), 2 * numpy.eye(3)]))
    for order in (1, -1, math.inf, -math.inf, "fro", "nuc"):
        # The page says that the call raises RuntimeError. The CPU returns infinity.
        try:
            number = torch.linalg.cond(singular, order)[1].item()
        except RuntimeError:
            number = math.inf
        lab.holds(f"cond of order {order} of a singular matrix is infinite or an error", number == math.inf)
    none = singular[:, :0, :0]
    for order in ("fro", 2):
        with lab.parity("No page gives the condition number of a matrix without elements"):
            lab.expect(f"{order} of nothing", torch.linalg.cond(none, order), [0.0] * 3)
    out = torch.empty(0, dtype=singular.real.dtype, device=lab.device)
    with lab.parity("No page says that the returned object is the out= tensor itself"):
        lab.holds("cond returns out", torch.linalg.cond(singular[:1], 1, out=out) is out)
    with lab.parity("The page gives the expected shape and does not say that other shapes are an error"):
        lab.raises("a vector", lambda: torch.linalg.cond(singular[0, 0]), match="(?i)2 dimensions")
    lab.raises(
        "what is not square",
        lambda: torch.linalg.cond(singular[0, :2], 1),
        match="(?i)square",
        type_is_documented=True,
    )
    for order in ("wrong_norm", 5):
        with lab.parity("The page lists supported orders and does not say that other orders are an error"):
            lab.raises(
                f"order {order}", lambda: torch.linalg.cond(singular, order), match="(?i)invalid norm type"
            )
    with lab.parity("Only for arithmetic operations, a page says that an integer out= refuses floats"):
        lab.raises(
            "into integers",
            lambda: torch.linalg.cond(singular, 2, out=torch.empty(0, dtype=torch.int32, device=lab.device)),
            match="(?i)int",
        )
    lab.warns(
        "into another shape",
        lambda: torch.linalg.cond(
            singular, 2, out=torch.empty(7, dtype=singular.real.dtype, device=lab.device)
        ),
        match="(?i)resized",
    )
