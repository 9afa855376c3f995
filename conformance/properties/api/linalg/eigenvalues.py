"""Behaviours of eigenvalues, singular values and low-rank factors."""

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
    check_orthonormal_columns,
    positive_definite_matrices,
)

_BATCHES: tuple[tuple[int, ...], ...] = ((), (0,), (3,), (2, 2))


@behaviour(
    "linalg",
    dtypes=DTYPES,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.linalg.eigh.html",
)
def hermitian_eigenvalues(lab: Lab) -> None:
    """``eigh`` and ``eigvalsh`` return the eigenvalues of Hermitian matrices in ascending order. ``eigh``
    also returns orthonormal eigenvectors. Both read only the triangle that ``UPLO`` selects, work for batches
    and empty matrices, and write into ``out=``.
    """
    for batch, size in itertools.product(_BATCHES, (0, 1, 4)):
        a = (
            positive_definite_matrices(lab, *batch, size, size)
            if size
            else torch.empty(*batch, 0, 0, dtype=lab.dtype, device=lab.device)
        )
        array = to_widest_numpy_array(a)
        for uplo in ("L", "U"):
            name = f"{batch} of {size} {uplo}"
            expected = numpy.linalg.eigvalsh(array)
            triangle = tensor_from_array(lab, numpy.tril(array) if uplo == "L" else numpy.triu(array))
            for suffix, matrix in (("", a), (" of a triangle", triangle)):
                w, v = torch.linalg.eigh(matrix, uplo)
                lab.expect(
                    f"eigenvalues {name}{suffix}", w, expected, roundings=allowed_matrix_roundings(size)
                )
                lab.expect(
                    f"eigvalsh {name}{suffix}",
                    torch.linalg.eigvalsh(matrix, uplo),
                    expected,
                    roundings=allowed_matrix_roundings(size),
                )
                back = (to_widest_numpy_array(v) * to_widest_numpy_array(w)[..., None, :]) @ adjoint(
                    to_widest_numpy_array(v)
                )
                lab.expect(
                    f"product of the factors, {name}{suffix}",
                    tensor_from_array(lab, back),
                    array,
                    roundings=allowed_matrix_roundings(size),
                )
                check_orthonormal_columns(lab, f"eigenvectors {name}{suffix}", v)
                with lab.parity("The page names L and U as values of UPLO, not lowercase letters"):
                    lab.same(
                        f"small letters {name}{suffix}", torch.linalg.eigvalsh(matrix, uplo.lower()).shape
                    )
        out = (
            torch.empty(0, dtype=a.real.dtype, device=lab.device),
            torch.empty(0, dtype=lab.dtype, device=lab.device),
        )
        result = torch.linalg.eigh(a, out=out)
        with lab.parity("No page says that the returned object is the out= tensor itself"):
            lab.holds(
                f"eigh for batch {batch} and size {size} returns out",
                result[0] is out[0] and result[1] is out[1],
            )
        lab.expect(
            f"out= for batch {batch} and size {size}",
            out[0],
            numpy.linalg.eigvalsh(array),
            roundings=allowed_matrix_roundings(size),
        )
    a = positive_definite_matrices(lab, 3, 3)
    for name, function in (("eigh", torch.linalg.eigh), ("eigvalsh", torch.linalg.eigvalsh)):
        with lab.parity("The page gives the expected shape and does not say that other shapes are an error"):
            lab.raises(f"{name} of a matrix that is not square", lambda: function(a[:2]), match="(?i)square")
            lab.raises(f"{name} of a vector", lambda: function(a[0]), match="(?i)2 dimensions")
        for uplo in ("a", "wrong"):
            with lab.parity("The page names L and U and does not say that other values are an error"):
                lab.raises(f"{name} of UPLO {uplo}", lambda: function(a, UPLO=uplo), match="(?i)'L' or 'U'")
    real = a.real.dtype
    lab.warns(
        "eigvalsh into another shape",
        lambda: torch.linalg.eigvalsh(a, out=torch.empty(7, dtype=real, device=lab.device)),
        match="(?i)resized",
    )
    with lab.parity("Only for arithmetic operations, a page says that an integer out= refuses floats"):
        lab.raises(
            "eigvalsh into integers",
            lambda: torch.linalg.eigvalsh(a, out=torch.empty(3, dtype=torch.int32, device=lab.device)),
            match="(?i)int",
        )
        lab.raises(
            "eigh into integers",
            lambda: torch.linalg.eigh(
                a,
                out=(
                    torch.empty(0, dtype=torch.int32, device=lab.device),
                    torch.empty(0, dtype=lab.dtype, device=lab.device),
                ),
            ),
            match="(?i)int",
        )
    expect_error_for_two_devices(
        lab,
        "eigvalsh elsewhere",
        lambda: torch.linalg.eigvalsh(a, out=torch.empty(0, dtype=real)),
        match="(?i)device",
    )


@behaviour(
    "linalg",
    dtypes=DTYPES,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.linalg.eig.html",
)
def general_eigenvalues(lab: Lab) -> None:
    """``eig`` and ``eigvals`` return the complex eigenvalues in any order. ``eig`` also returns eigenvectors
    of length 1: the matrix times a vector is the vector times its eigenvalue. A matrix that contains NaN or
    infinity, or is not square, raises an error.
    """
    wide = torch.complex128 if lab.dtype in (torch.float64, torch.complex128) else torch.complex64
    for batch, size in itertools.product(_BATCHES, (0, 1, 4)):
        array = numpy.triu(
            to_widest_numpy_array(lab.integers(*batch, size, size, low=-1, high=2)), 1
        ) + numpy.diag(3.0 * numpy.arange(1, size + 1))
        a = tensor_from_array(lab, array)
        w, v = torch.linalg.eig(a)
        name = f"batch {batch}, size {size}"
        lab.same(f"dtypes and shapes for {name}", (w.dtype, v.dtype, w.shape, v.shape))
        for function_name, computed in (("eig", w), ("eigvals", torch.linalg.eigvals(a))):
            expected = numpy.broadcast_to(3.0 * numpy.arange(1, size + 1), (*batch, size))
            lab.expect(
                f"{function_name} of {name}",
                lab.put(torch.from_numpy(numpy.sort(to_widest_numpy_array(computed), -1)), dtype=wide),
                expected,
                roundings=8 * allowed_matrix_roundings(size),
            )
        residue = numpy.abs(
            to_widest_numpy_array(a) @ to_widest_numpy_array(v)
            - to_widest_numpy_array(v) * to_widest_numpy_array(w)[..., None, :]
        ).max(initial=0.0)
        lab.holds(f"the matrix scales each eigenvector by its eigenvalue, {name}", residue < 1e-3)
        lengths = numpy.linalg.norm(to_widest_numpy_array(v), axis=-2)
        lab.holds(f"eigenvectors have length 1, {name}", numpy.allclose(lengths, 1, atol=1e-4))
    turn = tensor_from_array(lab, [[0.0, -1], [1, 0]])
    computed = to_widest_numpy_array(torch.linalg.eigvals(turn))
    lab.holds(
        "a quarter turn has the eigenvalues i and -i",
        numpy.allclose(sorted(computed.imag), [-1, 1], atol=1e-5)
        and numpy.allclose(computed.real, 0, atol=1e-5),
    )
    lab.same("dtype", torch.linalg.eigvals(turn).dtype)
    for name, function in (("eig", torch.linalg.eig), ("eigvals", torch.linalg.eigvals)):
        with lab.parity("The page gives the expected shape and does not say that other shapes are an error"):
            lab.raises(f"{name} of a vector", lambda: function(turn[0]), match="(?i)2 dimensions")
            lab.raises(
                f"{name} of a matrix that is not square", lambda: function(turn[:1]), match="(?i)square"
            )
    for bad in (math.inf, math.nan):
        invalid = tensor_from_array(lab, [[1.0, 0], [0, bad]])
        with lab.parity("No page says that NaN or infinity in the matrix is an error"):
            lab.raises(
                f"eig of {bad}", lambda: torch.linalg.eig(invalid), match="(?i)input tensor should not"
            )
    integers = torch.empty(0, dtype=torch.int32, device=lab.device)
    with lab.parity("Only for arithmetic operations, a page says that an integer out= refuses floats"):
        lab.raises("eigvals into integers", lambda: torch.linalg.eigvals(turn, out=integers), match="(?i)int")
        lab.raises(
            "eig into integers",
            lambda: torch.linalg.eig(turn, out=(integers, integers.clone())),
            match="(?i)int",
        )
    if not lab.dtype.is_complex:
        with lab.parity(
            "Only for arithmetic operations, a page says that a real out= refuses complex values"
        ):
            lab.raises(
                "eigvals into real numbers",
                lambda: torch.linalg.eigvals(turn, out=torch.empty(0, dtype=lab.dtype, device=lab.device)),
                match="(?i)castable",
            )
    lab.warns(
        "eigvals into another shape",
        lambda: torch.linalg.eigvals(turn, out=torch.empty(1, dtype=wide, device=lab.device)),
        match="(?i)resized",
    )


@behaviour(
    "linalg", dtypes=DTYPES, level="core", must_detect=("value",), page="generated/torch.linalg.svd.html"
)
def singular_values(lab: Lab) -> None:
    """``svd``, ``svdvals`` and ``torch.svd`` return singular values in descending order. The factors are
    orthonormal, reduced or full, and their product is the matrix. This holds for batches, any strides and
    empty matrices.
    """
    for batch, (rows, columns) in itertools.product(_BATCHES, ((4, 4), (5, 2), (2, 5), (0, 3), (3, 0))):
        a = lab.integers(*batch, rows, columns)
        count = min(rows, columns)
        expected = numpy.linalg.svd(to_widest_numpy_array(a), compute_uv=False)
        name = f"{batch} of {rows} by {columns}"
        lab.expect(
            f"svdvals of {name}", torch.linalg.svdvals(a), expected, roundings=allowed_matrix_roundings(5)
        )
        lab.expect(
            f"compute_uv=False of {name}",
            torch.svd(a, compute_uv=False).S,
            expected,
            roundings=allowed_matrix_roundings(5),
        )
        for full in (False, True):
            u, s, vh = torch.linalg.svd(a, full_matrices=full)
            lab.expect(f"svd of {name} {full}", s, expected, roundings=allowed_matrix_roundings(5))
            lab.same(f"shapes of {name} {full}", (u.shape, vh.shape))
            back = (
                to_widest_numpy_array(u)[..., :count] * to_widest_numpy_array(s)[..., None, :]
            ) @ to_widest_numpy_array(vh)[..., :count, :]
            lab.expect(
                f"product of the factors, {name}, full_matrices={full}",
                tensor_from_array(lab, back),
                to_widest_numpy_array(a),
                roundings=allowed_matrix_roundings(5),
            )
            check_orthonormal_columns(lab, f"U of {name} {full}", u)
            check_orthonormal_columns(lab, f"V of {name} {full}", vh.mH)
            u, s, v = torch.svd(a, some=not full)
            back = (to_widest_numpy_array(u)[..., :count] * to_widest_numpy_array(s)[..., None, :]) @ adjoint(
                to_widest_numpy_array(v)[..., :count]
            )
            lab.expect(
                f"torch.svd of {name} {full}",
                tensor_from_array(lab, back),
                to_widest_numpy_array(a),
                roundings=allowed_matrix_roundings(5),
            )
    turned = lab.integers(5, 3).t()
    lab.expect(
        "transposed",
        torch.linalg.svdvals(turned),
        numpy.linalg.svd(to_widest_numpy_array(turned), compute_uv=False),
        roundings=allowed_matrix_roundings(5),
    )
    diagonal = tensor_from_array(lab, numpy.diag([3.0, -5, 0, 1]))
    lab.expect(
        "a diagonal", torch.linalg.svdvals(diagonal), [5.0, 3, 1, 0], roundings=allowed_matrix_roundings(4)
    )
    long = lab.integers(3, 2000, low=-1, high=2)
    result = torch.linalg.svd(long, full_matrices=False)
    lab.expect(
        "a long one",
        result.S,
        numpy.linalg.svd(to_widest_numpy_array(long), compute_uv=False),
        roundings=2000.0,
    )
    rough = numpy.ones((40, 40))
    rough[0, 0], rough[-1, -1] = 1e-5, 1e5
    stiff = tensor_from_array(lab, rough)
    lab.expect(
        "of an ill-conditioned matrix",
        torch.linalg.svdvals(stiff)[:2],
        numpy.linalg.svd(to_widest_numpy_array(stiff), compute_uv=False)[:2],
        roundings=400.0,
    )
    lab.expect(
        "eigh of it",
        torch.linalg.eigvalsh(stiff)[-1:],
        numpy.linalg.eigvalsh(to_widest_numpy_array(stiff))[-1:],
        roundings=400.0,
    )


@behaviour(
    "linalg",
    dtypes=("float64", "complex128"),
    must_detect=("value",),
    page="generated/torch.svd_lowrank.html",
)
def low_rank_factors(lab: Lab) -> None:
    """``svd_lowrank`` and ``pca_lowrank`` factorise a matrix of low rank. ``lobpcg`` returns the largest or
    smallest eigenvalues and their eigenvectors.
    """
    for batch, (rows, columns) in itertools.product(((), (3,)), ((17, 4), (6, 12), (8, 8))):
        array = to_widest_numpy_array(lab.integers(*batch, rows, 2)) @ to_widest_numpy_array(
            lab.integers(*batch, 2, columns)
        )
        a = tensor_from_array(lab, array)
        u, s, v = torch.svd_lowrank(a, q=4, niter=3)
        roundings = 100.0 * rows * columns
        lab.expect(
            f"singular values of {batch} {rows} by {columns}",
            s[..., :2],
            numpy.linalg.svd(array, compute_uv=False)[..., :2],
            roundings=roundings,
        )
        back = (to_widest_numpy_array(u) * to_widest_numpy_array(s)[..., None, :]) @ adjoint(
            to_widest_numpy_array(v)
        )
        lab.expect(
            f"product of the factors, batch {batch}, {rows} by {columns}",
            tensor_from_array(lab, back),
            array,
            roundings=roundings,
        )
        lab.same(f"shapes of {batch} {rows} by {columns}", (u.shape, s.shape, v.shape))
        if not lab.dtype.is_complex:
            u, s, v = torch.pca_lowrank(a, q=3)
            centred = array - array.mean(-2, keepdims=True)
            back = (to_widest_numpy_array(u) * to_widest_numpy_array(s)[..., None, :]) @ adjoint(
                to_widest_numpy_array(v)
            )
            lab.expect(
                f"pca of {batch} {rows} by {columns}",
                tensor_from_array(lab, back),
                centred,
                roundings=roundings,
            )
    if not lab.dtype.is_complex:
        matrix = tensor_from_array(lab, numpy.diag(numpy.arange(1.0, 31.0)))
        for method in ("basic", "ortho"):
            for largest in (True, False):
                start = tensor_from_array(
                    lab, numpy.eye(30)[:, [0, 29]] + 0.1 * to_widest_numpy_array(lab.integers(30, 2))
                )
                eigenvalues, vectors = torch.lobpcg(
                    matrix, X=start, niter=200, tol=1e-9, largest=largest, method=method
                )
                expected = [30.0, 29] if largest else [1.0, 2]
                # lobpcg stops when residuals are below tol. The eigenvalues then have errors of about tol
                # squared.
                lab.expect(
                    f"lobpcg by {method} {largest}",
                    eigenvalues,
                    expected,
                    roundings=64.0,
                    dtype=torch.float32,
                )
                residues = numpy.linalg.norm(
                    to_widest_numpy_array(matrix) @ to_widest_numpy_array(vectors)
                    - to_widest_numpy_array(vectors) * to_widest_numpy_array(eigenvalues),
                    axis=0,
                )
                lengths = numpy.linalg.norm(to_widest_numpy_array(vectors), axis=0)
                lab.holds(
                    f"the matrix scales each eigenvector by its eigenvalue, {method}, largest={largest}",
                    (residues < 1e-4 * lengths).all(),
                )


@behaviour(
    "linalg",
    dtypes=("complex128",),
    capabilities=("autograd",),
    must_detect=("error",),
    page="generated/torch.linalg.svd.html",
    ground="The pages say that a dependence on the phase is checked when gradients are computed",
)
def free_phases_have_no_gradient(lab: Lab) -> None:
    """The phase of a complex eigenvector or singular vector is arbitrary. The backward pass of a function
    that depends on this phase raises an error.
    """
    a = lab.put(to_widest_numpy_array(lab.floats(3, 3)), requires_grad=True)
    svd = torch.linalg.svd(a, full_matrices=False)
    lab.raises("svd", lambda: (svd[0] + svd[2]).sum().abs().backward(), match="(?i)ill-defined")
    lab.raises("eig", lambda: torch.linalg.eig(a)[1].sum().abs().backward(), match="(?i)ill-defined")
    lab.raises("eigh", lambda: torch.linalg.eigh(a + a.mH)[1].sum().abs().backward(), match="(?i)ill-defined")
