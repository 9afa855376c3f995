"""Each property of optimizers is green on the CPU, and red with a planted fault."""

from __future__ import annotations

import pytest

from conformance.properties import registry
from tests.injected_faults.optimizers.faults import OPTIMIZERS
from tests.support.module_and_optimizer_faults import Planted, is_found


@pytest.mark.parametrize("kind", ["optimizer"])
def test_every_property_has_a_planted_fault(kind: str) -> None:
    assert {entry.name for entry in registry.properties(kind)} == {planted.property for planted in OPTIMIZERS}


@pytest.mark.parametrize("planted", OPTIMIZERS, ids=lambda planted: planted.name)
def test_a_planted_fault_is_found(planted: Planted) -> None:
    is_found(planted)
