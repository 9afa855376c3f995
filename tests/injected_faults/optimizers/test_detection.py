"""Each property of optimizers passes on the CPU and fails with an injected fault."""

from __future__ import annotations

import pytest

from conformance.properties import registry
from tests.injected_faults.optimizers.faults import OPTIMIZERS
from tests.support.module_and_optimizer_faults import InjectedFault, assert_fault_is_detected


@pytest.mark.parametrize("kind", ["optimizer"])
def test_every_property_has_an_injected_fault(kind: str) -> None:
    assert {entry.name for entry in registry.properties(kind)} == {fault.property for fault in OPTIMIZERS}


@pytest.mark.parametrize("injected_fault", OPTIMIZERS, ids=lambda injected_fault: injected_fault.name)
def test_an_injected_fault_is_detected(injected_fault: InjectedFault) -> None:
    assert_fault_is_detected(injected_fault)
