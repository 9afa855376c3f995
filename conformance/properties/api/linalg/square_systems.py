"""Behaviours of square matrices: solutions, inverses, determinants, and LU and Cholesky factors."""

from __future__ import annotations

import itertools

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

_BATCHES: tuple[tuple[int, ...], ...] = ((), (0,), (3,), (2, 2))


def _identities_with_one_singular(
    lab: Lab, size: int, *batch: int, batch_index: tuple[int, ...] = (), diagonal_index: int = -1
) -> torch.Tensor:
    """Return a batch of identity matrices. In the matrix at ``batch_index``, the diagonal element
    ``diagonal_index`` is zero, so that this matrix is singular.
    """
    array = numpy.broadcast_to(numpy.eye(size), (*batch, size, size)).copy()
    spot = (*batch_index, diagonal_index, diagonal_index)
    array[spot] = 0
    return tensor_from_array(lab, array)


@behaviour(
    "linalg", dtypes=DTYPES, level="core", must_detect=("value",), page="generated/torch.linalg.solve.html"
)
def solving_systems(lab: Lab) -> None:
    """``linalg.solve`` and ``solve_ex`` return the solution x of A x = b or, with ``left=False``, of x A = b.
    They accept vectors, matrices, batches that broadcast and any strides, and write into ``out=``.
    """
    for batch, size in itertools.product(_BATCHES, (0, 1, 4)):
        a = (
            diagonally_dominant_matrices(lab, *batch, size, size)
            if size
            else torch.empty(*batch, 0, 0, dtype=lab.dtype, device=lab.device)
        )
        for rhs in ((), (1,), (3,)):
            b = lab.integers(*batch, size, *rhs)
            expected = numpy.linalg.solve(
                to_widest_numpy_array(a),
                to_widest_numpy_array(b)[..., None] if not rhs else to_widest_numpy_array(b),
            )
            expected = expected if rhs else expected[..., 0]
            name = f"batch {batch}, size {size}, right-hand sides {rhs}"
            lab.expect(name, torch.linalg.solve(a, b), expected, roundings=allowed_matrix_roundings(size))
            lab.expect(
                f"turned {name}",
                torch.linalg.solve(a.mT.contiguous().mT, b),
                expected,
                roundings=allowed_matrix_roundings(size),
            )
            if rhs:
                result = torch.linalg.solve(a.mT, b.mT, left=False)
                lab.expect(
                    f"from the right {name}",
                    result,
                    expected.swapaxes(-1, -2),
                    roundings=allowed_matrix_roundings(size),
                )
                out = torch.empty(0, dtype=lab.dtype, device=lab.device)
                lab.holds(f"{name} returns out", torch.linalg.solve(a, b, out=out) is out)
                lab.expect(f"{name} into out", out, expected, roundings=allowed_matrix_roundings(size))
                lab.same(f"info of {name}", torch.linalg.solve_ex(a, b).info)
    for matrix_shape, sides_shape in (
        ((3, 3), (2, 0, 3, 2)),
        ((2, 0, 3, 3), (3, 2)),
        ((2, 1, 3, 3), (3, 4)),
        ((3, 3), (2, 2, 3, 1)),
        ((1, 3, 1, 3, 3), (2, 1, 2, 3, 2)),
    ):
        a, b = diagonally_dominant_matrices(lab, *matrix_shape), lab.integers(*sides_shape)
        expected = numpy.linalg.solve(to_widest_numpy_array(a), to_widest_numpy_array(b))
        one_side = len(sides_shape) == 2
        with (
            lab.documented() if one_side else lab.parity("The page broadcasts only B of shape (n,) or (n, k)")
        ):
            lab.expect(
                f"{matrix_shape} for {sides_shape}",
                torch.linalg.solve(a, b),
                expected,
                roundings=allowed_matrix_roundings(3),
            )


@behaviour(
    "linalg",
    dtypes=DTYPES,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.linalg.inv.html",
)
def inverses(lab: Lab) -> None:
    """``inverse``, ``linalg.inv`` and ``inv_ex`` invert matrices in batches and of any strides. For a
    singular matrix, ``inverse`` and ``inv`` raise a LinAlgError that names the batch element, and ``inv_ex``
    sets ``info`` to a nonzero value.
    """
    for batch, size in itertools.product(_BATCHES, (0, 5)):
        a = (
            diagonally_dominant_matrices(lab, *batch, size, size)
            if size
            else torch.empty(*batch, 0, 0, dtype=lab.dtype, device=lab.device)
        )
        expected = numpy.linalg.inv(to_widest_numpy_array(a))
        for name, function in (
            ("inverse", torch.inverse),
            ("linalg.inv", torch.linalg.inv),
            ("inv_ex", lambda x: torch.linalg.inv_ex(x).inverse),
        ):
            lab.expect(
                f"{name} for batch {batch} and size {size}",
                function(a),
                expected,
                roundings=allowed_matrix_roundings(size),
            )
            lab.expect(
                f"{name} of transposed matrices, batch {batch} and size {size}",
                function(a.mT),
                expected.swapaxes(-1, -2),
                roundings=allowed_matrix_roundings(size),
            )
        out = torch.empty(*batch, size, size, dtype=lab.dtype, device=lab.device).mT.contiguous().mT
        lab.holds(f"inv for batch {batch} and size {size} returns out", torch.linalg.inv(a, out=out) is out)
        lab.expect(
            f"out= for batch {batch} and size {size}", out, expected, roundings=allowed_matrix_roundings(size)
        )
    gapped = torch.zeros(6, 6, dtype=lab.dtype, device=lab.device)
    gapped[::2, ::2] = diagonally_dominant_matrices(lab, 3, 3)
    lab.expect(
        "with gaps",
        torch.linalg.inv(gapped[::2, ::2]),
        numpy.linalg.inv(to_widest_numpy_array(gapped)[::2, ::2]),
        roundings=allowed_matrix_roundings(3),
    )
    bad = _identities_with_one_singular(lab, 3)
    info = torch.linalg.inv_ex(bad).info
    lab.expect("info of a singular matrix", info, 3)
    batch = _identities_with_one_singular(lab, 3, 5, batch_index=(3,), diagonal_index=1)  # type: ignore[assignment]
    lab.expect("info of a batch", torch.linalg.inv_ex(batch).info, [0, 0, 0, 2, 0])
    error = torch.linalg.LinAlgError  # type: ignore[attr-defined]
    for name, function in (
        ("inverse", torch.inverse),
        ("inv", torch.linalg.inv),
        ("inv_ex", lambda x: torch.linalg.inv_ex(x, check_errors=True)),
    ):
        lab.raises(
            f"{name} of a singular matrix",
            lambda: function(bad),
            error,
            match="(?i)singular|zero",
            type_is_documented=True,
        )
        lab.raises(
            f"{name} of a batch with one singular matrix",
            lambda: function(batch),  # type: ignore[arg-type]
            error,
            match="(?i)batch element 3",
            type_is_documented=True,
        )
        with lab.parity("The page states the expected shape, but not that another shape is an error"):
            lab.raises(
                f"{name} of a matrix that is not square", lambda: function(bad[:2]), match="(?i)square"
            )
            lab.raises(f"{name} of a vector", lambda: function(bad[0]), match="(?i)2 dimensions")
    large = _identities_with_one_singular(lab, 64, 4, 2, batch_index=(0, 1), diagonal_index=10)
    lab.raises(
        "a large batch with one singular matrix",
        lambda: torch.inverse(large),
        error,
        match="(?i)batch element 1",
        type_is_documented=True,
    )
    lab.raises(
        "into integers",
        lambda: torch.linalg.inv(
            torch.ones_like(bad), out=bad.to(torch.int32) if not lab.dtype.is_complex else bad.real.int()
        ),
        match="(?i)int|dtype",
    )
    lab.warns(
        "into another shape",
        lambda: torch.linalg.inv(
            diagonally_dominant_matrices(lab, 2, 2), out=torch.empty(1, dtype=lab.dtype, device=lab.device)
        ),
        match="(?i)resized",
    )
    expect_error_for_two_devices(
        lab,
        "into an out elsewhere",
        lambda: torch.linalg.inv(a, out=torch.empty(0, dtype=lab.dtype)),
        match="(?i)device",
    )


@behaviour(
    "linalg",
    dtypes=DTYPES,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.linalg.lu_factor.html",
)
def lu_factorisations(lab: Lab) -> None:
    """``lu_factor``, ``lu_factor_ex``, ``linalg.lu`` and ``torch.lu`` return factors whose product is the
    matrix. ``lu_solve`` solves with the factors from either side and with the adjoint. ``lu_unpack`` omits
    the parts that its options disable.
    """
    for batch, (rows, columns) in itertools.product(
        _BATCHES, ((3, 3), (4, 2), (2, 4), (0, 2), (2, 0), (0, 0))
    ):
        count = min(rows, columns)
        # The large numbers give the matrix full rank; each of these shapes needs an exchange of rows.
        a = tensor_from_array(
            lab,
            to_widest_numpy_array(lab.integers(*batch, rows, columns)) + 20 * numpy.eye(rows, columns)[::-1],
        )
        name = f"batch {batch}, {rows} by {columns}"
        for function_name, function in (
            ("lu_factor", torch.linalg.lu_factor),
            ("lu_factor_ex", torch.linalg.lu_factor_ex),
            ("torch.lu", torch.lu),
        ):
            if function_name == "lu_factor" and rows != 3:
                continue
            result = function(a)
            lab.holds(
                f"{function_name} of {name} returns the correct shapes",
                result[0].shape == a.shape and result[1].shape == (*batch, count),
            )
            lab.holds(
                f"pivots of {function_name} of {name} are int32 numbers from 1",
                result[1].dtype == torch.int32
                and bool(((result[1] >= 1) & (result[1] <= max(rows, 1))).all()),
            )
            p, low, up = torch.lu_unpack(result[0], result[1])
            lab.expect(
                f"product of the factors of {function_name}, {name}",
                p @ low @ up,
                to_widest_numpy_array(a),
                roundings=allowed_matrix_roundings(4),
                matrix=True,
            )
        p, low, up = torch.linalg.lu(a)
        lab.expect(
            f"product of the factors of linalg.lu, {name}",
            p @ low @ up,
            to_widest_numpy_array(a),
            roundings=allowed_matrix_roundings(4),
            matrix=True,
        )
        lab.same(f"shapes of {name}", (p.shape, low.shape, up.shape))
        lab.holds(
            f"L of {name} is lower triangular, and U is upper triangular",
            bool((low.triu(1) == 0).all()) and bool((up.tril(-1) == 0).all()),
        )
        if rows == columns:
            factors, pivots = torch.linalg.lu_factor_ex(a)[:2]
            b = lab.integers(*batch, rows, 2)
            for left, mirrored in itertools.product((True, False), repeat=2):
                x = torch.linalg.lu_solve(factors, pivots, b if left else b.mT, left=left, adjoint=mirrored)
                system = adjoint(to_widest_numpy_array(a)) if mirrored else to_widest_numpy_array(a)
                product = system @ to_widest_numpy_array(x) if left else to_widest_numpy_array(x) @ system
                lab.holds(
                    f"lu_solve solves the system, {name}, left={left}, adjoint={mirrored}",
                    numpy.allclose(product, to_widest_numpy_array(b if left else b.mT), atol=1e-3),
                )
            lab.expect(
                f"torch.lu_solve of {name}",
                torch.lu_solve(b, factors, pivots),
                numpy.linalg.solve(to_widest_numpy_array(a), to_widest_numpy_array(b)),
                roundings=allowed_matrix_roundings(4),
            )
    a = diagonally_dominant_matrices(lab, 2, 3, 3)
    factors, pivots = torch.linalg.lu_factor(a)
    lab.expect(
        "solving a broadcast batch",
        torch.linalg.lu_solve(factors[0], pivots[0], lab.put(to_widest_numpy_array(a) + 0, dtype=lab.dtype)),
        numpy.linalg.solve(to_widest_numpy_array(a)[:1], to_widest_numpy_array(a)),
        roundings=allowed_matrix_roundings(3),
    )
    lab.expect(
        "sizes without data",
        [x.numel() for x in torch.lu_unpack(factors, pivots, unpack_data=False)],
        [18, 0, 0],
    )
    lab.expect(
        "sizes without pivots",
        [x.numel() for x in torch.lu_unpack(factors, pivots, unpack_pivots=False)],
        [0, 18, 18],
    )
    lab.expect(
        "sizes without both", [x.numel() for x in torch.lu_unpack(factors, pivots, False, False)], [0, 0, 0]
    )
    with lab.parity("No page says that pivots of int64 are an error"):
        lab.raises("pivots of int64", lambda: torch.lu_unpack(factors, pivots.long()), match="(?i)int32")
    lab.expect(
        "info of a singular matrix",
        torch.linalg.lu_factor_ex(_identities_with_one_singular(lab, 3, diagonal_index=1)).info,
        2,
    )
    lab.raises(
        "lu_factor of a singular matrix",
        lambda: torch.linalg.lu_factor(_identities_with_one_singular(lab, 3)),
        RuntimeError,
        type_is_documented=True,
    )


@behaviour(
    "linalg",
    dtypes=DTYPES,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.linalg.det.html",
)
def determinants(lab: Lab) -> None:
    """``det``, ``logdet`` and ``slogdet`` of integer matrices are exact. Scaling a row scales the
    determinant, and exchanging two rows changes its sign. For empty matrices, the results are 1, 0 and (1,
    0).
    """
    for shape in ((1, 1), (2, 2), (3, 3), (5, 3, 3), (2, 2, 4, 4)):
        a = diagonally_dominant_matrices(lab, *shape)
        expected = numpy.linalg.det(to_widest_numpy_array(a))
        size = shape[-1]
        for name, function in (
            ("det", torch.det),
            ("linalg.det", torch.linalg.det),
            ("Tensor.det", torch.Tensor.det),
        ):
            lab.expect(f"{name} of {shape}", function(a), expected, roundings=allowed_matrix_roundings(size))
        for name, function in (("slogdet", torch.slogdet), ("linalg.slogdet", torch.linalg.slogdet)):
            sign, log = function(a)
            lab.expect(
                f"sign of {name} of {shape}",
                sign,
                numpy.linalg.slogdet(to_widest_numpy_array(a))[0],
                roundings=allowed_matrix_roundings(size),
            )
            lab.expect(
                f"logarithm of {name} of {shape}",
                log,
                numpy.linalg.slogdet(to_widest_numpy_array(a))[1],
                roundings=allowed_matrix_roundings(size),
            )
        if not lab.dtype.is_complex:
            lab.expect(
                f"logdet of {shape}",
                torch.logdet(a),
                numpy.log(expected),
                roundings=allowed_matrix_roundings(size),
            )
        doubled, swapped = a.clone(), a.clone()
        doubled[..., 0, :] *= -2
        lab.expect(
            f"det after scaling a row, shape {shape}",
            torch.det(doubled),
            -2 * expected,
            roundings=allowed_matrix_roundings(size),
        )
        swapped[..., 0, :], swapped[..., -1, :] = a[..., -1, :], a[..., 0, :]
        lab.expect(
            f"exchanged rows of {shape}",
            torch.det(swapped),
            expected if size == 1 else -expected,
            roundings=allowed_matrix_roundings(size),
        )
        lab.expect(
            f"the transpose of {shape}", torch.det(a.mT), expected, roundings=allowed_matrix_roundings(size)
        )
    ones = torch.ones(2, 3, 3, dtype=lab.dtype, device=lab.device)
    singular = ones.clone()
    singular[:, 1:] = 0  # rows of zeros, so that rounding cannot make the determinant nonzero
    lab.expect("det of a singular matrix", torch.det(singular), [0, 0])
    lab.expect(
        "slogdet of a singular matrix",
        [part.real.tolist() for part in torch.linalg.slogdet(singular)],
        [[0.0, 0.0], [-numpy.inf, -numpy.inf]],
    )
    none = ones[:, :0, :0]
    lab.expect("det of nothing", torch.det(none), [1, 1])
    lab.expect(
        "slogdet of nothing",
        [part.real.tolist() for part in torch.linalg.slogdet(none)],
        [[1.0, 1.0], [0.0, 0.0]],
    )
    if not lab.dtype.is_complex:
        lab.expect("logdet of nothing", torch.logdet(none[0]), 0.0)
        lab.expect(
            "logdet of a negative determinant",
            torch.logdet(tensor_from_array(lab, [[0.0, 1], [1, 0]])),
            numpy.nan,
        )
    for name, function in (("det", torch.linalg.det), ("slogdet", torch.linalg.slogdet)):
        with lab.parity("The page states the expected shape, but not that another shape is an error"):
            lab.raises(
                f"{name} of a matrix that is not square", lambda: function(ones[:, :2]), match="(?i)square"
            )
            lab.raises(f"{name} of a vector", lambda: function(ones[0, 0]), match="(?i)2 dimensions")
    with lab.parity("The page lists the supported dtypes, but does not say that other dtypes are an error"):
        lab.raises(
            "slogdet of halves",
            lambda: torch.linalg.slogdet(torch.ones(2, 2, dtype=torch.bfloat16, device=lab.device)),
            match="(?i)low precision",
        )
    out = (
        torch.empty(1, dtype=lab.dtype, device=lab.device),
        torch.empty(1, dtype=ones.real.dtype, device=lab.device),
    )
    lab.warns(
        "slogdet into another shape",
        lambda: torch.linalg.slogdet(diagonally_dominant_matrices(lab, 2, 3, 3), out=out),
        match="(?i)resized",
    )


@behaviour(
    "linalg",
    dtypes=DTYPES,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.linalg.cholesky.html",
)
def cholesky_factorisations(lab: Lab) -> None:
    """``cholesky`` returns the lower (or upper) factor for batches and any strides. ``cholesky_ex`` returns
    ``info`` instead of raising errors. ``cholesky_solve`` and ``cholesky_inverse`` work with the factor. A
    matrix that is not positive definite raises LinAlgError.
    """
    for batch, size in itertools.product(_BATCHES, (0, 1, 4)):
        a = (
            positive_definite_matrices(lab, *batch, size, size)
            if size
            else torch.empty(*batch, 0, 0, dtype=lab.dtype, device=lab.device)
        )
        expected = numpy.linalg.cholesky(to_widest_numpy_array(a))
        name = f"{batch} of {size}"
        lab.expect(name, torch.linalg.cholesky(a), expected, roundings=allowed_matrix_roundings(size))
        lab.expect(
            f"turned {name}",
            torch.linalg.cholesky(a.mT.contiguous().mT),
            expected,
            roundings=allowed_matrix_roundings(size),
        )
        lab.expect(
            f"upper {name}",
            torch.linalg.cholesky(a, upper=True),
            adjoint(expected),
            roundings=allowed_matrix_roundings(size),
        )
        result = torch.linalg.cholesky_ex(a)
        lab.expect(f"cholesky_ex {name}", result.L, expected, roundings=allowed_matrix_roundings(size))
        lab.expect(f"info {name}", result.info, numpy.zeros(batch))
        for upper in (False, True):
            factor = tensor_from_array(lab, adjoint(expected) if upper else expected)
            b = lab.integers(*batch, size, 2)
            lab.expect(
                f"cholesky_solve {name} {upper}",
                torch.cholesky_solve(b, factor, upper=upper),
                numpy.linalg.solve(to_widest_numpy_array(a), to_widest_numpy_array(b)),
                roundings=allowed_matrix_roundings(size),
            )
            lab.expect(
                f"cholesky_inverse {name} {upper}",
                torch.cholesky_inverse(factor, upper),
                numpy.linalg.inv(to_widest_numpy_array(a)),
                roundings=allowed_matrix_roundings(size),
            )
    for matrix_shape, sides_shape in (
        ((2, 1, 3, 3), (3, 4)),
        ((3, 3), (2, 2, 3, 1)),
        ((1, 2, 3, 3), (2, 1, 3, 2)),
    ):
        a, b = positive_definite_matrices(lab, *matrix_shape), lab.integers(*sides_shape)
        factor = torch.linalg.cholesky(a)
        expected = numpy.linalg.solve(
            to_widest_numpy_array(a),
            numpy.broadcast_to(
                to_widest_numpy_array(b),
                (*numpy.broadcast_shapes(matrix_shape[:-2], sides_shape[:-2]), *sides_shape[-2:]),
            ),
        )
        both = len(matrix_shape) > 2 and len(sides_shape) > 2
        with lab.parity("No page says that batches of both operands broadcast") if both else lab.documented():
            lab.expect(
                f"cholesky_solve of {matrix_shape} and {sides_shape}",
                torch.cholesky_solve(b, factor),
                expected,
                roundings=allowed_matrix_roundings(3),
            )
    bad, batch = (
        _identities_with_one_singular(lab, 3),
        _identities_with_one_singular(lab, 3, 5, batch_index=(3,), diagonal_index=1),  # type: ignore[assignment]
    )
    error = torch.linalg.LinAlgError  # type: ignore[attr-defined]
    lab.expect("info of a matrix that is not positive definite", torch.linalg.cholesky_ex(bad).info, 3)
    lab.expect("info of a batch", torch.linalg.cholesky_ex(batch).info, [0, 0, 0, 2, 0])
    for name, function in (
        ("cholesky", torch.linalg.cholesky),
        ("cholesky_ex", lambda x: torch.linalg.cholesky_ex(x, check_errors=True)),
    ):
        lab.raises(
            f"{name} of a matrix that is not positive definite",
            lambda: function(bad),
            error,
            match="(?i)positive-definite",
            type_is_documented=True,
        )
        lab.raises(
            f"{name} of a batch with one matrix that is not positive definite",
            lambda: function(batch),
            error,
            match=r"\b3\b",
            text_is_documented=name == "cholesky",
            type_is_documented=True,
        )
        with lab.parity("The page states the expected shape, but not that another shape is an error"):
            lab.raises(
                f"{name} of a matrix that is not square", lambda: function(bad[:2]), match="(?i)square"
            )
            lab.raises(f"{name} of a vector", lambda: function(bad[0]), match="(?i)2 dimensions")
    eye = torch.eye(3, dtype=lab.dtype, device=lab.device)
    for name, function in (
        ("cholesky_inverse", torch.cholesky_inverse),
        ("cholesky_solve", lambda x, **o: torch.cholesky_solve(torch.ones_like(bad), x, **o)),
        ("cholesky", torch.linalg.cholesky),
    ):
        small = torch.empty(2, dtype=lab.dtype, device=lab.device)
        lab.warns(f"{name} into another shape", lambda: function(eye, out=small), match="(?i)resized")
        lab.raises(
            f"{name} into integers",
            lambda: function(eye, out=torch.empty(3, 3, dtype=torch.int32, device=lab.device)),
            match="(?i)int",
        )
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises(
            "cholesky_inverse of a vector", lambda: torch.cholesky_inverse(bad[0]), match="(?i)2 dimensions"
        )
        lab.raises(
            "cholesky_inverse of a matrix that is not square",
            lambda: torch.cholesky_inverse(bad[:2]),
            match="(?i)square",
        )
