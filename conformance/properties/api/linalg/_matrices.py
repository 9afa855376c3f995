"""Integer matrices that are easy to solve, and the rounding that solving them allows."""

from __future__ import annotations

import numpy
import torch

from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import Array, tensor_from_array, to_wide_array

DTYPES = ("float32", "float64", "complex64", "complex128")


def diagonally_dominant(lab: Lab, *shape: int) -> torch.Tensor:
    """Square matrices whose diagonal outweighs their rows: condition numbers below 5."""
    size = shape[-1]
    return tensor_from_array(
        lab, to_wide_array(lab.integers(*shape, low=-2, high=3)) + 6 * size * numpy.eye(size)
    )


def positive_definite(lab: Lab, *shape: int) -> torch.Tensor:
    """Hermitian positive definite matrices, of condition numbers below 10."""
    array = to_wide_array(lab.integers(*shape, low=-1, high=2))
    size = shape[-1]
    return tensor_from_array(lab, array + array.conj().swapaxes(-1, -2) + 5 * size * numpy.eye(size))


def adjoint(array: Array) -> Array:
    """The conjugate transpose of each matrix."""
    return array.conj().swapaxes(-1, -2)


def matrix_roundings(size: int) -> float:
    """Roundings for a result computed from a matrix of that size: its cube is the number of operations, of
    which each may round, on numbers no larger than the condition number lets them grow (10).
    """
    return 10.0 * (4 + size) ** 2


def check_orthonormal_columns(lab: Lab, name: str, q: torch.Tensor) -> None:
    """The columns of ``q`` are of length one and orthogonal."""
    count = q.shape[-1]
    expected = numpy.broadcast_to(numpy.eye(count), (*q.shape[:-2], count, count))
    lab.expect(
        f"{name} against itself",
        tensor_from_array(lab, adjoint(to_wide_array(q)) @ to_wide_array(q)),
        expected,
        roundings=matrix_roundings(q.shape[-2]),
    )
