"""Relations of matrix factorisations: signs, phases and the order of equal eigenvalues are unspecified.

Each function takes the target's results (copied to the CPU), the reference outputs and the sample. It returns
equations in float64 or complex128.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from conformance.oracle.relations.relation import Equation
from conformance.samples.operators import Sample


def to_high_precision(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor in float64 or complex128, in which the rounding errors of products are negligible."""
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def largest_norm(tensor: torch.Tensor) -> float:
    """Return the largest Frobenius norm of a batch of matrices; 0 for a tensor without elements."""
    if tensor.numel() == 0:
        return 0.0
    return (
        float(torch.linalg.matrix_norm(to_high_precision(tensor)).max())
        if tensor.dim() >= 2
        else float(tensor.abs().max())
    )


def _unitary_equation(name: str, vectors: torch.Tensor) -> Equation:
    gram = vectors.mH @ vectors
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype).expand(gram.shape)
    return Equation(f"{name}^H {name}", gram, eye, scale=float(max(1, gram.shape[-1])))


def svd(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation] | None:
    """Return the equations: U diag(S) Vh is the matrix, U and V are unitary, S equals the reference."""
    u, s, vh = actual
    if (
        sample.kwargs.get("some") is not None
        or "compute_uv" in sample.kwargs
        or hasattr(expected, "V")  # torch.svd returns U, S, V; torch.linalg.svd returns U, S, Vh
    ):
        vh = vh.mH
    if sample.kwargs.get("compute_uv") is False:
        return [
            Equation(
                "S", to_high_precision(s), expected[1], scale=largest_norm(to_high_precision(sample.input))
            )
        ]
    return svd_with_adjoint((u, s, vh), expected, sample)


def svd_with_adjoint(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation] | None:
    """Return the equations of :func:`svd` for an overload that returns U, S and the adjoint of V.

    U and V are empty if the call does not compute them.
    """
    matrix = to_high_precision(sample.input)
    u, s, vh = (to_high_precision(part) for part in actual)
    scale = largest_norm(matrix)
    equations = [Equation("S", s, expected[1], scale=scale)]
    if matrix.numel() and not (u.numel() and vh.numel()):
        return equations
    k = s.shape[-1]
    back = (u[..., :k] * s.unsqueeze(-2).to(u.dtype)) @ vh[..., :k, :]
    return [
        *equations,
        Equation("U diag(S) V^H", back, matrix, scale=scale),
        _unitary_equation("U", u),
        _unitary_equation("V", vh.mH),
    ]


def svd_lowrank(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation] | None:
    """Return the equations for the matrix ``a @ b.mT`` of low rank: U S V^H is the matrix, U and V are
    unitary.
    """
    matrix = to_high_precision(sample.input) @ to_high_precision(sample.args[0]).mT
    if (
        sample.kwargs.get("M") is not None
    ):  # the input minus M has full rank, so the product of the factors is not compared
        return [
            _unitary_equation("U", to_high_precision(actual[0])),
            _unitary_equation("V", to_high_precision(actual[2])),
        ]
    return _low_rank_equations(actual, expected, matrix)


def pca_lowrank(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation] | None:
    """Return the equations of svd_lowrank for the matrix minus its column means, or for the matrix if
    ``center`` is false.
    """
    matrix = to_high_precision(sample.input) @ to_high_precision(sample.args[0]).mT
    if sample.kwargs.get("center", True):
        matrix = matrix - matrix.mean(dim=-2, keepdim=True)
    return _low_rank_equations(actual, expected, matrix)


def _low_rank_equations(actual: Any, expected: Any, matrix: torch.Tensor) -> Iterable[Equation]:
    u, s, v = (to_high_precision(part) for part in actual)
    scale = largest_norm(matrix)
    return [
        Equation("S", s, expected[1], scale=scale),
        Equation("U diag(S) V^H", (u * s.unsqueeze(-2).to(u.dtype)) @ v.mH, matrix, scale=scale),
        _unitary_equation("U", u),
        _unitary_equation("V", v),
    ]


def eigh(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation] | None:
    """Return the equations: A V = V diag(L), V is unitary, L equals the reference. ``UPLO`` selects the
    triangle of A that is read.
    """
    if isinstance(actual, torch.Tensor):
        return None
    input_matrix = to_high_precision(sample.input)
    string_arguments = [arg for arg in sample.args if isinstance(arg, str)]
    upper = str(sample.kwargs.get("UPLO", string_arguments[0] if string_arguments else "L")).upper() == "U"
    half = input_matrix.triu(1) if upper else input_matrix.tril(-1)
    diagonal = torch.diag_embed(input_matrix.diagonal(dim1=-2, dim2=-1).real.to(input_matrix.dtype))
    matrix = half + half.mH + diagonal
    values, vectors = to_high_precision(actual[0]), to_high_precision(actual[1])
    scale = largest_norm(matrix)
    equations = [Equation("the eigenvalues", values, expected[0], scale=scale)]
    if matrix.numel() and not vectors.numel():
        return equations  # an overload of the dispatcher was called without vectors
    return [
        *equations,
        Equation("A V", matrix @ vectors, vectors * values.unsqueeze(-2).to(vectors.dtype), scale=scale),
        _unitary_equation("V", vectors),
    ]


def eig(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation] | None:
    """Return the equations: A V = V diag(L), the columns of V have length one, L equals the reference in any
    order.
    """
    matrix = to_high_precision(sample.input).to(torch.complex128)
    values, vectors = to_high_precision(actual[0]), to_high_precision(actual[1])
    scale = largest_norm(matrix)
    lengths = torch.linalg.vector_norm(vectors, dim=-2)
    return [
        _eigenvalue_equation(values, to_high_precision(expected[0]), scale),
        Equation("A V", matrix @ vectors, vectors * values.unsqueeze(-2), scale=scale),
        Equation("the length of the eigenvectors", lengths, torch.ones_like(lengths), scale=1.0),
    ]


def eigvals(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation] | None:
    """Return the equation: L equals the reference in any order."""
    return [
        _eigenvalue_equation(
            to_high_precision(actual),
            to_high_precision(expected),
            largest_norm(to_high_precision(sample.input)),
        )
    ]


def _eigenvalue_equation(values: torch.Tensor, expected: torch.Tensor, scale: float) -> Equation:
    """Return the equation of eigenvalues, with each expected eigenvalue paired with the nearest
    actual eigenvalue.
    """
    if values.shape != expected.shape or values.numel() == 0:
        return Equation("the eigenvalues", values, expected, scale=scale)
    rows, expected_rows = values.reshape(-1, values.shape[-1]), expected.reshape(-1, values.shape[-1])
    ordered = torch.empty_like(expected_rows)
    for row in range(rows.shape[0]):
        unmatched = list(range(expected_rows.shape[1]))
        for column in range(rows.shape[1]):
            distances = (expected_rows[row, unmatched] - rows[row, column]).abs()
            ordered[row, column] = expected_rows[
                row, unmatched.pop(int(torch.nan_to_num(distances, nan=1e300).argmin()))
            ]
    return Equation("the eigenvalues", values, ordered.reshape(values.shape), scale=scale)


def qr(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation] | None:
    """Return the equations: Q R is the matrix, Q is unitary, R is upper triangular; in mode "r", R^H R = A^H
    A.
    """
    matrix = to_high_precision(sample.input)
    q, r = to_high_precision(actual[0]), to_high_precision(actual[1])
    scale = largest_norm(matrix)
    equations = [Equation("the part of R below the diagonal", r.tril(-1), torch.zeros_like(r), exact=True)]
    if q.numel() == 0 and matrix.numel() != 0:
        equations.append(Equation("R^H R", r.mH @ r, matrix.mH @ matrix, scale=scale * scale))
        return equations
    return [*equations, Equation("Q R", q @ r, matrix, scale=scale), _unitary_equation("Q", q)]


def geqrf(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation] | None:
    """Return the equations: the product of the reflectors and R is the matrix, Q is unitary."""
    matrix = to_high_precision(sample.input)
    a, tau = to_high_precision(actual[0]), to_high_precision(actual[1])
    if matrix.shape[-2] < matrix.shape[-1]:
        k = matrix.shape[-2]
        q = torch.linalg.householder_product(a[..., :, :k].contiguous(), tau)
    else:
        q = torch.linalg.householder_product(a, tau)
    r = a.triu()[..., : q.shape[-1], :]
    return [Equation("Q R", q @ r, matrix, scale=largest_norm(matrix)), _unitary_equation("Q", q)]


def lu(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation] | None:
    """Return the equations: P L U is the matrix, L is unit lower triangular, U is upper triangular."""
    matrix = to_high_precision(sample.input)
    p, lower, upper = (to_high_precision(part) for part in actual)
    scale = largest_norm(matrix)
    diagonal = lower.diagonal(dim1=-2, dim2=-1)
    equations = [
        Equation("L above the diagonal", lower.triu(1), torch.zeros_like(lower), exact=True),
        Equation("the diagonal of L", diagonal, torch.ones_like(diagonal), exact=True),
        Equation("U below the diagonal", upper.tril(-1), torch.zeros_like(upper), exact=True),
    ]
    if p.numel() == 0 and matrix.numel() != 0:
        return [*equations, Equation("L U", lower @ upper, matrix, scale=scale)]
    return [*equations, Equation("P L U", p.to(lower.dtype) @ lower @ upper, matrix, scale=scale)]


def lu_factor(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation] | None:
    """Return the equation P L U = input. P, L and U are unpacked from the packed factors and the pivots."""
    matrix = to_high_precision(sample.input)
    packed, pivots = to_high_precision(actual[0]), actual[1]
    if pivots.dtype != torch.int32 or (pivots.numel() and not bool((pivots >= 1).all())):
        return None
    p, lower, upper = torch.lu_unpack(packed, pivots)
    return [Equation("P L U", p @ lower @ upper, matrix, scale=largest_norm(matrix))]


def ldl_factor(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation] | None:
    """Return the equations: the solution for the unit matrix is the inverse, ``info`` equals the reference.

    ``hermitian`` selects whether the lower triangle defines a Hermitian or a symmetric matrix.
    """
    hermitian = bool(sample.kwargs.get("hermitian", False))
    lower = to_high_precision(sample.input).tril(-1)
    diagonal = to_high_precision(sample.input).diagonal(dim1=-2, dim2=-1)
    diagonal = diagonal.real.to(lower.dtype) if hermitian else diagonal
    matrix = lower + (lower.mH if hermitian else lower.mT) + torch.diag_embed(diagonal)
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype).expand(matrix.shape).contiguous()
    inverse = torch.linalg.ldl_solve(to_high_precision(actual[0]), actual[1], identity, hermitian=hermitian)
    scale = largest_norm(matrix) * largest_norm(inverse)
    return [
        Equation("A times its inverse", matrix @ inverse, identity, scale=scale),
        Equation("info", actual[2], expected[2], exact=True),
    ]
