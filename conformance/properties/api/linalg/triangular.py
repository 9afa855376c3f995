"""Behaviours of triangular systems, large systems and large batches."""

from __future__ import annotations

import itertools
from typing import Any

import numpy
import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import tensor_from_array, to_widest_numpy_array
from conformance.properties.api.linalg._matrices import (
    DTYPES,
    allowed_matrix_roundings,
    diagonally_dominant_matrices,
    positive_definite_matrices,
)


@behaviour(
    "linalg",
    dtypes=DTYPES,
    level="core",
    must_detect=("value",),
    page="generated/torch.linalg.solve_triangular.html",
)
def triangular_systems(lab: Lab) -> None:
    """``solve_triangular`` reads only one triangle of the matrix and solves from either side.
    ``triangular_solve`` solves systems with a triangular matrix. With ``unitriangular``, both take ones as
    the diagonal. Operands may be transposed, conjugated, expanded and broadcast.
    """
    full = lab.integers(3, 4, 4, low=-1, high=2)
    array = to_widest_numpy_array(full) + 4 * numpy.eye(4)
    a = tensor_from_array(lab, array)
    b = lab.integers(3, 4, 2)
    for upper, left, unit in itertools.product((True, False), repeat=3):
        part = numpy.triu(array) if upper else numpy.tril(array)
        if unit:
            part = part - numpy.einsum("bii->bi", part)[:, None] * numpy.eye(4) + numpy.eye(4)
        right_side = b if left else b.mT
        expected = (
            numpy.linalg.solve(part, to_widest_numpy_array(b))
            if left
            else numpy.linalg.solve(part.swapaxes(1, 2), to_widest_numpy_array(b)).swapaxes(1, 2)
        )
        roundings = allowed_matrix_roundings(4) * float(numpy.linalg.cond(part).max())
        name = f"{'upper' if upper else 'lower'} {'left' if left else 'right'}{' unit' if unit else ''}"
        options: dict[str, Any] = {"upper": upper, "left": left, "unitriangular": unit}
        lab.expect(
            name, torch.linalg.solve_triangular(a, right_side, **options), expected, roundings=roundings
        )
        lab.expect(
            f"turned {name}",
            torch.linalg.solve_triangular(a.mT.contiguous().mT, right_side.mT.contiguous().mT, **options),
            expected,
            roundings=roundings,
        )
        lab.expect(
            f"one matrix {name}",
            torch.linalg.solve_triangular(
                a[:1].expand(3, 4, 4), right_side[:1].expand(right_side.shape), **options
            )[2],
            expected[0],
            roundings=roundings,
        )
        with lab.parity("No page says that the batches of solve_triangular broadcast"):
            lab.expect(
                f"broadcast {name}",
                torch.linalg.solve_triangular(a[0], right_side[:1], **options),
                expected[:1],
                roundings=roundings,
            )
        out = torch.empty(0, dtype=lab.dtype, device=lab.device)
        lab.holds(
            f"{name} returns out", torch.linalg.solve_triangular(a, right_side, out=out, **options) is out
        )
        lab.expect(f"{name} into out", out, expected, roundings=roundings)
        if lab.dtype.is_complex:
            lab.expect(
                f"conjugate {name}",
                torch.linalg.solve_triangular(a.conj(), right_side.conj(), **options),
                expected.conj(),
                roundings=roundings,
            )
        if left:
            triangle = tensor_from_array(lab, numpy.triu(array) if upper else numpy.tril(array))
            for transpose in (False, True):
                system = part.swapaxes(1, 2) if transpose else part
                lab.expect(
                    f"triangular_solve {name}{' transposed' if transpose else ''}",
                    torch.triangular_solve(b, triangle, upper, transpose, unit)[0],
                    numpy.linalg.solve(system, to_widest_numpy_array(b)),
                    roundings=roundings,
                )
    none = torch.empty(2, 0, 0, dtype=lab.dtype, device=lab.device)
    lab.same(
        "nothing",
        [
            torch.linalg.solve_triangular(none, none[:, :, :0].expand(2, 0, 0), upper=True),
            torch.linalg.solve_triangular(a[:0], b[:0], upper=False),
            torch.linalg.solve_triangular(a, b[..., :0], upper=True),
            torch.triangular_solve(none[0].expand(2, 0, 0), none)[0],
        ],
    )


@behaviour("linalg", must_detect=("value",), page="generated/torch.linalg.solve.html")
def large_systems(lab: Lab) -> None:
    """Systems with large matrices, and with batches of more than 65,536 small matrices, are solved
    correctly.
    """
    size = 64
    large = tensor_from_array(
        lab, to_widest_numpy_array(lab.integers(2, size, size, low=-1, high=2)) + 3 * size * numpy.eye(size)
    )
    hermitian = large + large.mH
    b = lab.integers(2, size, 3)
    roundings = 10.0 * size
    lab.expect(
        "inv", torch.linalg.inv(large), numpy.linalg.inv(to_widest_numpy_array(large)), roundings=roundings
    )
    lab.expect(
        "solve",
        torch.linalg.solve(large, b),
        numpy.linalg.solve(to_widest_numpy_array(large), to_widest_numpy_array(b)),
        roundings=roundings,
    )
    lab.expect(
        "cholesky",
        torch.linalg.cholesky(hermitian),
        numpy.linalg.cholesky(to_widest_numpy_array(hermitian)),
        roundings=roundings,
    )
    factor = torch.linalg.cholesky(hermitian)
    lab.expect(
        "cholesky_solve",
        torch.cholesky_solve(b, factor),
        numpy.linalg.solve(to_widest_numpy_array(hermitian), to_widest_numpy_array(b)),
        roundings=roundings,
    )
    lab.expect(
        "lu_solve",
        torch.lu_solve(b, *torch.linalg.lu_factor(large)),
        numpy.linalg.solve(to_widest_numpy_array(large), to_widest_numpy_array(b)),
        roundings=roundings,
    )
    lower = numpy.tril(to_widest_numpy_array(large))
    lab.expect(
        "solve_triangular",
        torch.linalg.solve_triangular(large, b, upper=False),
        numpy.linalg.solve(lower, to_widest_numpy_array(b)),
        roundings=roundings,
    )
    many = diagonally_dominant_matrices(lab, 66000, 2, 2)
    right = lab.integers(66000, 2, 1)
    lab.expect(
        "solve of many",
        torch.linalg.solve(many, right),
        numpy.linalg.solve(to_widest_numpy_array(many), to_widest_numpy_array(right)),
        roundings=allowed_matrix_roundings(2),
    )
    lab.expect(
        "inv of many",
        torch.linalg.inv(many),
        numpy.linalg.inv(to_widest_numpy_array(many)),
        roundings=allowed_matrix_roundings(2),
    )
    pairs = positive_definite_matrices(lab, 66000, 2, 2)
    lab.expect(
        "cholesky of many",
        torch.linalg.cholesky(pairs),
        numpy.linalg.cholesky(to_widest_numpy_array(pairs)),
        roundings=allowed_matrix_roundings(2),
    )
    lab.expect(
        "triangular of many",
        torch.linalg.solve_triangular(many, right, upper=True),
        numpy.linalg.solve(numpy.triu(to_widest_numpy_array(many)), to_widest_numpy_array(right)),
        roundings=allowed_matrix_roundings(2),
    )
    lab.expect(
        "lu_solve of many",
        torch.lu_solve(right, *torch.linalg.lu_factor(many)),
        numpy.linalg.solve(to_widest_numpy_array(many), to_widest_numpy_array(right)),
        roundings=allowed_matrix_roundings(2),
    )
