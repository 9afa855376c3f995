"""Behaviours of least squares, ``tensorsolve`` and ``tensorinv``, and LDL factors."""

from __future__ import annotations

import itertools
import math

import numpy
import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import (
    expect_error_for_two_devices,
    tensor_from_array,
    to_widest_numpy_array,
)
from conformance.properties.api.linalg._matrices import (
    DTYPES,
    adjoint,
    allowed_matrix_roundings,
    diagonally_dominant_matrices,
    positive_definite_matrices,
)


@behaviour(
    "linalg",
    dtypes=DTYPES,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.linalg.lstsq.html",
)
def least_squares(lab: Lab) -> None:
    """``lstsq`` returns the least-squares solution of square and overdetermined systems of full rank. It
    accepts batches that broadcast and empty matrices.
    """
    for batch, (rows, columns), width in itertools.product(((), (3,), (2, 2)), ((4, 4), (6, 3)), (1, 3)):
        array = to_widest_numpy_array(lab.integers(*batch, rows, columns, low=-1, high=2)) + 6 * numpy.eye(
            rows, columns
        )
        a, b = tensor_from_array(lab, array), lab.integers(*batch, rows, width)
        expected = numpy.linalg.solve(adjoint(array) @ array, adjoint(array) @ to_widest_numpy_array(b))
        lab.expect(
            f"batch {batch}, {rows} by {columns}, {width} right-hand sides",
            torch.linalg.lstsq(a, b).solution,
            expected,
            roundings=allowed_matrix_roundings(6),
        )
        with lab.parity("The page names the drivers for CPU and CUDA inputs only"):
            lab.expect(
                f"driver gels, batch {batch}, {rows} by {columns}, {width} right-hand sides",
                torch.linalg.lstsq(a, b, driver="gels").solution,
                expected,
                roundings=allowed_matrix_roundings(6),
            )
    a, b = diagonally_dominant_matrices(lab, 1, 3, 3), lab.integers(2, 3, 2)
    lab.expect(
        "one matrix for a batch of right-hand sides",
        torch.linalg.lstsq(a, b).solution,
        numpy.linalg.solve(to_widest_numpy_array(a), to_widest_numpy_array(b)),
        roundings=allowed_matrix_roundings(3),
    )
    a, b = diagonally_dominant_matrices(lab, 2, 1, 3, 3), lab.integers(1, 2, 3, 1)
    with lab.parity("The page shows that matrices broadcast, not that right-hand sides broadcast"):
        lab.expect(
            "batches that broadcast with each other",
            torch.linalg.lstsq(a, b).solution,
            numpy.linalg.solve(to_widest_numpy_array(a), to_widest_numpy_array(b)),
            roundings=allowed_matrix_roundings(3),
        )
    a, b = diagonally_dominant_matrices(lab, 3, 3), lab.integers(3, 2)
    lab.same(
        "nothing",
        [
            torch.linalg.lstsq(a.expand(0, 3, 3), b.expand(0, 3, 2)).solution,
            torch.linalg.lstsq(a[:0, :0], b[:0]).solution,
            torch.linalg.lstsq(a[:, :0], b).solution.shape,
        ],
    )
    other_dtype = torch.float64 if lab.dtype != torch.float64 else torch.float32
    with lab.parity("The page gives the expected shape and does not say that other shapes are an error"):
        lab.raises("a vector", lambda: torch.linalg.lstsq(a[0], b), match="(?i)2 dimensions")
        lab.raises("for a number", lambda: torch.linalg.lstsq(a, b[0, 0]), match="(?i)1 dimension")
        lab.raises("for other rows", lambda: torch.linalg.lstsq(a, b[:2]), match="(?i)should match")
    with lab.parity("No page says that operands of two dtypes are an error"):
        lab.raises(
            "for another dtype", lambda: torch.linalg.lstsq(a, b.to(other_dtype)), match="(?i)same dtype"
        )
    with lab.parity("The page names the drivers for CPU and CUDA inputs only"):
        lab.raises(
            "lstsq with an invalid driver",
            lambda: torch.linalg.lstsq(a, b, driver="fictitious"),
            match="(?i)driver",
        )
    expect_error_for_two_devices(
        lab, "of two devices", lambda: torch.linalg.lstsq(a, b.cpu()), match="(?i)device"
    )


@behaviour(
    "linalg",
    dtypes=DTYPES,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.linalg.tensorinv.html",
)
def systems_of_tensors(lab: Lab) -> None:
    """``tensorsolve`` and ``tensorinv`` solve and invert tensors that are square matrices after a reshape.
    Other shapes and singular matrices raise errors.
    """
    for shape, split in (((2, 3, 6), 2), ((6, 2, 3), 1), ((2, 2, 2, 2), 2), ((4, 6, 8, 3), 2)):
        rows = math.prod(shape[:split])
        a = diagonally_dominant_matrices(lab, rows, rows).reshape(shape)
        b = lab.integers(*shape[:split])
        expected = numpy.linalg.solve(
            to_widest_numpy_array(a).reshape(rows, rows), to_widest_numpy_array(b).ravel()
        ).reshape(shape[split:])
        lab.expect(
            f"tensorsolve of {shape}",
            torch.linalg.tensorsolve(a, b),
            expected,
            roundings=allowed_matrix_roundings(min(rows, 8)),
        )
        inverse = numpy.linalg.inv(to_widest_numpy_array(a).reshape(rows, rows)).reshape(
            *shape[split:], *shape[:split]
        )
        lab.expect(
            f"tensorinv of {shape}",
            torch.linalg.tensorinv(a, split),
            inverse,
            roundings=allowed_matrix_roundings(min(rows, 8)),
        )
        out = torch.empty(0, dtype=lab.dtype, device=lab.device)
        lab.expect(
            f"tensorinv of {shape} into out",
            torch.linalg.tensorinv(a, split, out=out),
            inverse,
            roundings=allowed_matrix_roundings(min(rows, 8)),
        )
    a = diagonally_dominant_matrices(lab, 6, 6).reshape(2, 6, 3)
    moved = numpy.moveaxis(to_widest_numpy_array(a), 1, -1)
    lab.expect(
        "tensorsolve of moved dimensions",
        torch.linalg.tensorsolve(
            a, lab.put(moved.reshape(6, 6) @ numpy.ones(6), dtype=lab.dtype).reshape(2, 3), dims=(1,)
        ),
        numpy.ones(6),
        roundings=allowed_matrix_roundings(6),
    )
    none = torch.empty(0, 0, 1, 2, 3, 0, dtype=lab.dtype, device=lab.device)
    lab.same("tensorinv of nothing", [torch.linalg.tensorinv(none, ind) for ind in (1, 2, 3)])
    lab.same(
        "tensorsolve of nothing",
        torch.linalg.tensorsolve(none, torch.empty(0, 0, dtype=lab.dtype, device=lab.device)),
    )
    for ind in (0, -1):
        with lab.parity("The page does not say that ind must be positive"):
            lab.raises(
                f"tensorinv of {ind}", lambda: torch.linalg.tensorinv(a, ind), match="(?i)positive integer"
            )
    lab.raises(
        "tensorinv of no square",
        lambda: torch.linalg.tensorinv(a, 1),
        match="(?i)requirement",
        type_is_documented=True,
    )
    lab.raises(
        "tensorsolve of no square",
        lambda: torch.linalg.tensorsolve(a, lab.integers(2, 2)),
        match="(?i)requirement|shape|size",
        type_is_documented=True,
    )
    lab.raises(
        "tensorinv of zeros",
        lambda: torch.linalg.tensorinv(torch.zeros(4, 2, 2, dtype=lab.dtype, device=lab.device), 1),
        torch.linalg.LinAlgError,  # type: ignore[attr-defined]
        match="(?i)diagonal|singular",
    )
    small = torch.empty(7, dtype=lab.dtype, device=lab.device)
    square = diagonally_dominant_matrices(lab, 4, 4).reshape(4, 2, 2)
    lab.warns(
        "tensorinv into another shape",
        lambda: torch.linalg.tensorinv(square, 1, out=small),
        match="(?i)resized",
    )
    with lab.parity("Only for arithmetic operations, a page says that an integer out= refuses floats"):
        lab.raises(
            "tensorinv into integers",
            lambda: torch.linalg.tensorinv(square, 1, out=small.real.int()),
            match="(?i)int",
        )
    lab.warns(
        "tensorsolve into another shape",
        lambda: torch.linalg.tensorsolve(
            square, lab.integers(4), out=torch.empty(7, dtype=lab.dtype, device=lab.device)
        ),
        match="(?i)resized",
    )
    with lab.parity("Only for arithmetic operations, a page says that an integer out= refuses floats"):
        lab.raises(
            "tensorsolve into integers",
            lambda: torch.linalg.tensorsolve(square, lab.integers(4), out=small.real.int()),
            match="(?i)int",
        )


@behaviour("linalg", dtypes=DTYPES, must_detect=("value",), page="generated/torch.linalg.ldl_factor_ex.html")
def symmetric_factors(lab: Lab) -> None:
    """``ldl_factor_ex`` returns a unit triangular factor, lower or upper, and a diagonal whose product is the
    matrix, if it does not pivot. ``ldl_solve`` solves systems with these factors, for symmetric and for
    Hermitian matrices.
    """
    for batch in ((), (3,), (2, 2)):
        for hermitian in (False, True):
            array = to_widest_numpy_array(positive_definite_matrices(lab, *batch, 4, 4))
            array = array if hermitian else array + array.swapaxes(-1, -2)
            a, b = tensor_from_array(lab, array), lab.integers(*batch, 4, 2)
            factors, pivots, info = torch.linalg.ldl_factor_ex(a, hermitian=hermitian)
            name = f"{batch}{' Hermitian' if hermitian else ''}"
            lab.expect(f"info of {name}", info, numpy.zeros(batch))
            pivoted = bool((to_widest_numpy_array(pivots) != numpy.arange(1, 5)).any())
            diagonal = numpy.einsum("...ii->...i", to_widest_numpy_array(factors))[..., None, :]
            products = []
            for triangle in (
                numpy.tril(to_widest_numpy_array(factors), -1),
                numpy.triu(to_widest_numpy_array(factors), 1),
            ):
                factor = triangle + numpy.eye(4)
                transpose = adjoint(factor) if hermitian else factor.swapaxes(-1, -2)
                products.append((factor * diagonal) @ transpose)
            lab.holds(
                f"the factors of {name} multiply to the matrix, unless LDL pivots",
                pivoted or any(numpy.allclose(product, array, atol=1e-3) for product in products),
            )
            result = torch.linalg.ldl_solve(factors, pivots, b, hermitian=hermitian)
            lab.expect(
                f"solution of {name}",
                result,
                numpy.linalg.solve(array, to_widest_numpy_array(b)),
                roundings=allowed_matrix_roundings(4),
            )
