"""Promises of matrix factorisations: signs, phases and the order of equal eigenvalues are free.

Each takes the operator's results on the target, copied to the CPU, those of the oracle, and the sample, and
computes its claims in float64 or complex128.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from conformance.oracle.relations.relation import Claim
from conformance.samples.operators import Sample


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor in float64 or complex128, in which products are as good as exact."""
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def norm(tensor: torch.Tensor) -> float:
    """Return the largest Frobenius norm of a batch of matrices; 0 for a tensor without elements."""
    if tensor.numel() == 0:
        return 0.0
    return (
        float(torch.linalg.matrix_norm(wide(tensor)).max())
        if tensor.dim() >= 2
        else float(tensor.abs().max())
    )


def _unit(name: str, vectors: torch.Tensor) -> Claim:
    gram = vectors.mH @ vectors
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype).expand(gram.shape)
    return Claim(f"{name}^H {name}", gram, eye, scale=float(max(1, gram.shape[-1])))


def svd(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim] | None:
    """U diag(S) Vh gives the matrix back, U and V are unitary, S is as expected."""
    matrix = wide(sample.input)
    u, s, vh = (wide(part) for part in actual)
    if (
        sample.kwargs.get("some") is not None
        or "compute_uv" in sample.kwargs
        or _is_torch_svd(vh, matrix, expected)
    ):
        vh = vh.mH
    if sample.kwargs.get("compute_uv") is False:
        return [Claim("S", s, expected[1], scale=norm(matrix))]
    k = s.shape[-1]
    back = (u[..., :k] * s.unsqueeze(-2).to(u.dtype)) @ vh[..., :k, :]
    scale = norm(matrix)
    return [
        Claim("S", s, expected[1], scale=scale),
        Claim("U diag(S) V^H", back, matrix, scale=scale),
        _unit("U", u),
        _unit("V", vh.mH),
    ]


def _is_torch_svd(last: torch.Tensor, matrix: torch.Tensor, expected: Any) -> bool:
    # torch.svd names its fields U, S, V; torch.linalg.svd U, S, Vh.
    return hasattr(expected, "V")


def svd_lowrank(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim] | None:
    """The entry's operator factorises ``a @ b.mT`` of low rank, which its U S V^H gives back."""
    matrix = wide(sample.input) @ wide(sample.args[0]).mT
    if sample.kwargs.get("M") is not None:  # of full rank, so that nothing gives the matrix back
        return [_unit("U", wide(actual[0])), _unit("V", wide(actual[2]))]
    return _low_rank(actual, expected, matrix)


def pca_lowrank(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim] | None:
    """As svd_lowrank, of the matrix with the means of its columns taken off unless ``center`` is false."""
    matrix = wide(sample.input) @ wide(sample.args[0]).mT
    if sample.kwargs.get("center", True):
        matrix = matrix - matrix.mean(dim=-2, keepdim=True)
    return _low_rank(actual, expected, matrix)


def _low_rank(actual: Any, expected: Any, matrix: torch.Tensor) -> Iterable[Claim]:
    u, s, v = (wide(part) for part in actual)
    scale = norm(matrix)
    return [
        Claim("S", s, expected[1], scale=scale),
        Claim("U diag(S) V^H", (u * s.unsqueeze(-2).to(u.dtype)) @ v.mH, matrix, scale=scale),
        _unit("U", u),
        _unit("V", v),
    ]


def eigh(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim] | None:
    """A V = V diag(L), V unitary, L ascending; A is read from the triangle that ``UPLO`` names."""
    if isinstance(actual, torch.Tensor):
        return None
    given = wide(sample.input)
    words = [arg for arg in sample.args if isinstance(arg, str)]
    upper = str(sample.kwargs.get("UPLO", words[0] if words else "L")).upper() == "U"
    half = given.triu(1) if upper else given.tril(-1)
    diagonal = torch.diag_embed(given.diagonal(dim1=-2, dim2=-1).real.to(given.dtype))
    matrix = half + half.mH + diagonal
    values, vectors = wide(actual[0]), wide(actual[1])
    scale = norm(matrix)
    return [
        Claim("the eigenvalues", values, expected[0], scale=scale),
        Claim("A V", matrix @ vectors, vectors * values.unsqueeze(-2).to(vectors.dtype), scale=scale),
        _unit("V", vectors),
    ]


def eig(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim] | None:
    """A V = V diag(L), columns of length one, L as expected in any order."""
    matrix = wide(sample.input).to(torch.complex128)
    values, vectors = wide(actual[0]), wide(actual[1])
    scale = norm(matrix)
    lengths = torch.linalg.vector_norm(vectors, dim=-2)
    return [
        _matched(values, wide(expected[0]), scale),
        Claim("A V", matrix @ vectors, vectors * values.unsqueeze(-2), scale=scale),
        Claim("the length of the eigenvectors", lengths, torch.ones_like(lengths), scale=1.0),
    ]


def eigvals(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim] | None:
    """L as expected in any order."""
    return [_matched(wide(actual), wide(expected), norm(wide(sample.input)))]


def _matched(values: torch.Tensor, expected: torch.Tensor, scale: float) -> Claim:
    """Return the claim with the expected eigenvalues in the order of the actual ones, nearest first."""
    if values.shape != expected.shape or values.numel() == 0:
        return Claim("the eigenvalues", values, expected, scale=scale)
    rows, expected_rows = values.reshape(-1, values.shape[-1]), expected.reshape(-1, values.shape[-1])
    ordered = torch.empty_like(expected_rows)
    for row in range(rows.shape[0]):
        left = list(range(expected_rows.shape[1]))
        for column in range(rows.shape[1]):
            distances = (expected_rows[row, left] - rows[row, column]).abs()
            ordered[row, column] = expected_rows[
                row, left.pop(int(torch.nan_to_num(distances, nan=1e300).argmin()))
            ]
    return Claim("the eigenvalues", values, ordered.reshape(values.shape), scale=scale)


def qr(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim] | None:
    """Q R gives the matrix back, Q is unitary, R upper triangular; in mode "r" R^H R = A^H A."""
    matrix = wide(sample.input)
    q, r = wide(actual[0]), wide(actual[1])
    scale = norm(matrix)
    claims = [Claim("the part of R below the diagonal", r.tril(-1), torch.zeros_like(r), exact=True)]
    if q.numel() == 0 and matrix.numel() != 0:
        claims.append(Claim("R^H R", r.mH @ r, matrix.mH @ matrix, scale=scale * scale))
        return claims
    return [*claims, Claim("Q R", q @ r, matrix, scale=scale), _unit("Q", q)]


def geqrf(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim] | None:
    """The reflectors and R multiply back to the matrix."""
    matrix = wide(sample.input)
    a, tau = wide(actual[0]), wide(actual[1])
    if matrix.shape[-2] < matrix.shape[-1]:
        k = matrix.shape[-2]
        q = torch.linalg.householder_product(a[..., :, :k].contiguous(), tau)
    else:
        q = torch.linalg.householder_product(a, tau)
    r = a.triu()[..., : q.shape[-1], :]
    return [Claim("Q R", q @ r, matrix, scale=norm(matrix)), _unit("Q", q)]


def lu(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim] | None:
    """P L U gives the matrix back, L is unit lower and U upper triangular, P permutes rows."""
    matrix = wide(sample.input)
    p, lower, upper = (wide(part) for part in actual)
    scale = norm(matrix)
    diagonal = lower.diagonal(dim1=-2, dim2=-1)
    claims = [
        Claim("L above the diagonal", lower.triu(1), torch.zeros_like(lower), exact=True),
        Claim("the diagonal of L", diagonal, torch.ones_like(diagonal), exact=True),
        Claim("U below the diagonal", upper.tril(-1), torch.zeros_like(upper), exact=True),
    ]
    if p.numel() == 0 and matrix.numel() != 0:
        return [*claims, Claim("L U", lower @ upper, matrix, scale=scale)]
    return [*claims, Claim("P L U", p.to(lower.dtype) @ lower @ upper, matrix, scale=scale)]


def lu_factor(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim] | None:
    """The packed factors unpack to P L U equal to the matrix."""
    matrix = wide(sample.input)
    packed, pivots = wide(actual[0]), actual[1]
    if pivots.dtype != torch.int32 or (pivots.numel() and not bool((pivots >= 1).all())):
        return None
    p, lower, upper = torch.lu_unpack(packed, pivots)
    return [Claim("P L U", p @ lower @ upper, matrix, scale=norm(matrix))]
