"""Each property of modules is green on the CPU, and red with a planted fault."""

from __future__ import annotations

import pytest

from conformance.properties import registry
from tests.injected_faults.modules.faults import MODULES
from tests.support.module_and_optimizer_faults import Planted, is_found


@pytest.mark.parametrize("kind", ["module"])
def test_every_property_has_a_planted_fault(kind: str) -> None:
    assert {entry.name for entry in registry.properties(kind)} == {planted.property for planted in MODULES}


@pytest.mark.parametrize("planted", MODULES, ids=lambda planted: planted.name)
def test_a_planted_fault_is_found(planted: Planted) -> None:
    is_found(planted)
