"""Every operator property goes red for the wrong behaviour that is planted for it, and is green without."""

from __future__ import annotations

import pytest

from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, Result, ResultId, Verdict
from conformance.properties.registry import find, properties
from conformance.subjects import torch_databases
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target
from tests.injected_faults.operators import faults as planted
from tests.injected_faults.operators import faults_fake as planted_fake  # noqa: F401
from tests.injected_faults.operators import faults_in_place as planted_in_place  # noqa: F401
from tests.injected_faults.operators import faults_modes as planted_modes  # noqa: F401  (plants more)
from tests.injected_faults.operators import faults_transforms as planted_transforms  # noqa: F401


def checked(name: str, subject: Subject, dtype: str, target: Target) -> Result:
    entry = find("operator", name)
    assert dtype in entry.applies(target, subject)
    recorder = Recorder(
        ResultId(CaseId(name, subject.name), dtype), seed=0, about_emptiness=entry.about_emptiness
    )
    entry.check(target, subject, recorder)
    return recorder.result()


@pytest.mark.parametrize("fault", planted.FAULTS, ids=lambda fault: fault.name)
def test_red_with_the_fault(fault: planted.Fault) -> None:
    result = checked(fault.property, planted.broken(fault), fault.dtype, planted.target_for(fault))
    assert result.verdict is Verdict.FAIL
    assert fault.kind in {failure.kind for failure in result.failures}, result.failures


@pytest.mark.parametrize(
    "place", sorted({(fault.property, fault.operator, fault.dtype) for fault in planted.FAULTS}), ids="-".join
)
def test_green_without(place: tuple[str, str, str]) -> None:
    name, operator, dtype = place
    result = checked(name, torch_databases.find("operator", operator), dtype, planted.target_for())
    assert result.verdict is Verdict.PASS, result.failures


def test_every_property_has_a_fault() -> None:
    planted_for = {fault.property for fault in planted.FAULTS}
    assert {entry.name for entry in properties("operator")} == planted_for
