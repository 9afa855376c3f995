"""Sums of eigenvalues, and the rounding error that is allowed for them."""

from __future__ import annotations

import pytest
import torch

from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, ResultId
from conformance.properties.overloads import _invariants
from conformance.samples.operators import Sample

#: The eigenvalues are 5, 5i, -5 and -5i. Their sum and the sum of their squares are zero.
TURNING = 5 * torch.eye(4, dtype=torch.float64).roll(1, 0)


def holds(eigenvalues: torch.Tensor) -> bool:
    recorder = Recorder(ResultId(CaseId("overload-forms", "linalg_eigvals"), "float64"), seed=0)
    parts = [eigenvalues]
    return _invariants.compare_invariants(
        recorder, "linalg_eigvals", Sample(0, TURNING), parts, parts, "the result"
    )


@pytest.mark.parametrize(("off", "expected"), [(1e-13, True), (1e-8, False)])
def test_eigenvalues_that_cancel_are_held_to_their_own_size(off: float, expected: bool) -> None:
    exact = torch.tensor([5, 5j, -5, -5j], dtype=torch.complex128)
    assert holds(exact)
    assert holds(exact + torch.tensor([off, 0, 0, 0])) is expected
