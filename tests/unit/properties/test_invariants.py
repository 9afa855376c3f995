"""The relations of eigenvalues allow a rounding error relative to the eigenvalues, even if their
sum cancels.
"""

from __future__ import annotations

import pytest
import torch

from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, ResultId
from conformance.properties.overloads import _invariants
from conformance.samples.operators import Sample

#: A matrix whose eigenvalues 5, 5i, -5 and -5i have the sum zero. The sum of their squares is zero too.
TURNING = 5 * torch.eye(4, dtype=torch.float64).roll(1, 0)


def relations_hold(eigenvalues: torch.Tensor) -> bool:
    recorder = Recorder(ResultId(CaseId("overload-forms", "linalg_eigvals"), "float64"), seed=0)
    parts = [eigenvalues]
    return _invariants.compare_invariants(
        recorder, "linalg_eigvals", Sample(0, TURNING), parts, parts, "the result"
    )


@pytest.mark.parametrize(("off", "expected"), [(1e-13, True), (1e-8, False)])
def test_the_tolerance_of_cancelling_eigenvalues_is_relative_to_their_size(
    off: float, expected: bool
) -> None:
    exact = torch.tensor([5, 5j, -5, -5j], dtype=torch.complex128)
    assert relations_hold(exact)
    assert relations_hold(exact + torch.tensor([off, 0, 0, 0])) is expected
