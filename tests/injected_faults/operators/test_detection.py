"""Every operator property fails with its injected faults and passes without them."""

from __future__ import annotations

import pytest

from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, Result, ResultId, Verdict
from conformance.properties.registry import find_property, properties
from conformance.subjects import torch_databases
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target
from tests.injected_faults.operators import (
    faults,
    faults_fake,  # noqa: F401  (importing it adds its faults to FAULTS)
    faults_in_place,  # noqa: F401
    faults_modes,  # noqa: F401
    faults_transforms,  # noqa: F401
)


def check_property(name: str, subject: Subject, dtype: str, target: Target) -> Result:
    entry = find_property("operator", name)
    assert dtype in entry.applies(target, subject)
    recorder = Recorder(
        ResultId(CaseId(name, subject.name), dtype), seed=0, about_emptiness=entry.about_emptiness
    )
    entry.check(target, subject, recorder)
    return recorder.result()


@pytest.mark.parametrize("fault", faults.FAULTS, ids=lambda fault: fault.name)
def test_fails_with_the_fault(fault: faults.Fault) -> None:
    result = check_property(
        fault.property, faults.subject_with_fault(fault), fault.dtype, faults.target_with_fault(fault)
    )
    assert result.verdict is Verdict.FAIL
    assert fault.kind in {failure.kind for failure in result.failures}, result.failures


@pytest.mark.parametrize(
    "case", sorted({(fault.property, fault.operator, fault.dtype) for fault in faults.FAULTS}), ids="-".join
)
def test_passes_without_the_fault(case: tuple[str, str, str]) -> None:
    name, operator, dtype = case
    result = check_property(
        name, torch_databases.find("operator", operator), dtype, faults.target_with_fault()
    )
    assert result.verdict is Verdict.PASS, result.failures


def test_every_property_has_a_fault() -> None:
    faulted_properties = {fault.property for fault in faults.FAULTS}
    assert {entry.name for entry in properties("operator")} == faulted_properties
