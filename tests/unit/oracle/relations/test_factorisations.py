"""Relations of factorisations accept every correct result and reject wrong factors."""

from __future__ import annotations

import pytest
import torch

from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, ResultId
from conformance.properties.overloads._references import overload_reference
from conformance.properties.shared.comparison import OVERLOADS, compare_outputs
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import find
from conformance.target import file as target_file
from conformance.target.target import Target

#: The eigenvalues are 5, 5i, -5 and -5i.
TURNING = 5 * torch.eye(4, dtype=torch.float64).roll(1, 0)
SYMMETRIC = torch.tensor([[2.0, -1.0], [-1.0, 3.0]], dtype=torch.float64)


@pytest.fixture(scope="module")
def cpu_target() -> Target:
    return target_file.load("cpu").target("eager")


def result_agrees(cpu_target: Target, overload: str, sample: Sample, result: object) -> bool:
    reference = overload_reference(find("overload", overload), "float64", sample)
    assert reference is not None
    recorder = Recorder(ResultId(CaseId("overload-forms", overload), "float64"), seed=0)
    return compare_outputs(cpu_target, recorder, reference, result, policy=OVERLOADS)


@pytest.mark.parametrize(("off", "expected"), [(1e-13, True), (1e-8, False)])
def test_eigenvalues_are_compared_relative_to_the_size_of_the_matrix(
    cpu_target: Target, off: float, expected: bool
) -> None:
    exact = torch.tensor([5j, -5, -5j, 5], dtype=torch.complex128)  # in another order than the CPU's
    assert result_agrees(cpu_target, "linalg_eigvals", Sample(0, TURNING), exact)
    assert result_agrees(cpu_target, "linalg_eigvals", Sample(0, TURNING), exact + off) is expected


def test_signs_of_vectors_are_unspecified_and_a_wrong_factor_is_detected(cpu_target: Target) -> None:
    values, vectors = torch.linalg.eigh(SYMMETRIC)
    assert result_agrees(cpu_target, "_linalg_eigh", Sample(0, SYMMETRIC), (values, -vectors))
    assert not result_agrees(cpu_target, "_linalg_eigh", Sample(0, SYMMETRIC), (values, vectors.flip(0)))
    u, s, vh = torch.linalg.svd(SYMMETRIC)
    assert result_agrees(cpu_target, "_linalg_svd", Sample(0, SYMMETRIC), (-u, s, -vh))
    assert not result_agrees(cpu_target, "_linalg_svd", Sample(0, SYMMETRIC), (-u, s, vh))


def test_factors_that_are_not_computed_are_not_compared(cpu_target: Target) -> None:
    empty = torch.empty(0, dtype=torch.float64)
    values = torch.linalg.eigvalsh(SYMMETRIC)
    assert result_agrees(cpu_target, "_linalg_eigh", Sample(0, SYMMETRIC, ("L", False)), (values, empty))
    assert not result_agrees(
        cpu_target, "_linalg_eigh", Sample(0, SYMMETRIC, ("L", False)), (values + 1e-6, empty)
    )


def test_ldl_factors_must_solve_the_system(cpu_target: Target) -> None:
    factors, pivots, info = torch.linalg.ldl_factor_ex(SYMMETRIC)
    sample = Sample(0, SYMMETRIC)
    assert result_agrees(cpu_target, "linalg_ldl_factor_ex", sample, (factors, pivots, info))
    assert not result_agrees(cpu_target, "linalg_ldl_factor_ex", sample, (factors * (1 + 1e-6), pivots, info))
