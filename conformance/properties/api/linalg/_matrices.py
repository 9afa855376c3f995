"""Helpers for behaviours of linear algebra: well-conditioned random matrices, and tolerances for results
computed from them.
"""

from __future__ import annotations

import numpy
import torch

from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import Array, tensor_from_array, to_widest_numpy_array

DTYPES = ("float32", "float64", "complex64", "complex128")


def diagonally_dominant_matrices(lab: Lab, *shape: int) -> torch.Tensor:
    """Return random square matrices of whole numbers whose diagonal is larger than the sum of their rows.
    Their condition numbers are below 5.
    """
    size = shape[-1]
    return tensor_from_array(
        lab, to_widest_numpy_array(lab.integers(*shape, low=-2, high=3)) + 6 * size * numpy.eye(size)
    )


def positive_definite_matrices(lab: Lab, *shape: int) -> torch.Tensor:
    """Return random Hermitian positive definite matrices of whole numbers. Their condition numbers are below
    10.
    """
    array = to_widest_numpy_array(lab.integers(*shape, low=-1, high=2))
    size = shape[-1]
    return tensor_from_array(lab, array + array.conj().swapaxes(-1, -2) + 5 * size * numpy.eye(size))


def adjoint(array: Array) -> Array:
    """Return the conjugate transpose of each matrix."""
    return array.conj().swapaxes(-1, -2)


def allowed_matrix_roundings(size: int) -> float:
    """Return how many roundings a result computed from a square matrix of ``size`` rows may accumulate.

    The computation takes about ``size`` cubed operations, each of which may round. The condition number, at
    most 10, bounds how much the numbers grow.
    """
    return 10.0 * (4 + size) ** 2


def check_orthonormal_columns(lab: Lab, name: str, q: torch.Tensor) -> None:
    """Check that the columns of ``q`` have length one and are orthogonal."""
    count = q.shape[-1]
    expected = numpy.broadcast_to(numpy.eye(count), (*q.shape[:-2], count, count))
    lab.expect(
        f"{name} against itself",
        tensor_from_array(lab, adjoint(to_widest_numpy_array(q)) @ to_widest_numpy_array(q)),
        expected,
        roundings=allowed_matrix_roundings(q.shape[-2]),
    )
