"""Integer matrices that are easy to solve, and the rounding that solving them allows."""

from __future__ import annotations

import numpy
import torch

from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import Array, from_array, values

DTYPES = ("float32", "float64", "complex64", "complex128")


def dominant(lab: Lab, *shape: int) -> torch.Tensor:
    """Square matrices whose diagonal outweighs their rows: condition numbers below 5."""
    size = shape[-1]
    return from_array(lab, values(lab.integers(*shape, low=-2, high=3)) + 6 * size * numpy.eye(size))


def positive(lab: Lab, *shape: int) -> torch.Tensor:
    """Hermitian positive definite matrices, of condition numbers below 10."""
    array = values(lab.integers(*shape, low=-1, high=2))
    size = shape[-1]
    return from_array(lab, array + array.conj().swapaxes(-1, -2) + 5 * size * numpy.eye(size))


def adjoint(array: Array) -> Array:
    """The conjugate transpose of each matrix."""
    return array.conj().swapaxes(-1, -2)


def steps(size: int) -> float:
    """Roundings for a result computed from a matrix of that size: its cube is the number of operations, of
    which each may round, on numbers no larger than the condition number lets them grow (10).
    """
    return 10.0 * (4 + size) ** 2


def orthonormal(lab: Lab, name: str, q: torch.Tensor) -> None:
    """The columns of ``q`` are of length one and orthogonal."""
    count = q.shape[-1]
    expected = numpy.broadcast_to(numpy.eye(count), (*q.shape[:-2], count, count))
    lab.expect(
        f"{name} against itself",
        from_array(lab, adjoint(values(q)) @ values(q)),
        expected,
        roundings=steps(q.shape[-2]),
    )
