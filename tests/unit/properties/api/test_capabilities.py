"""Every behaviour names the capabilities that its program visibly uses, so that a device without these
capabilities may refuse the behaviour.
"""

from __future__ import annotations

import inspect
import re

import pytest

from conformance.behaviours.behaviour import BEHAVIOURS
from conformance.properties.registry import properties

#: Capability -> pattern of source text that needs the capability.
USES = {
    "generator": r"Generator\((?:device=)?lab\.device",
    "autograd": r"\.backward\(|autograd\.grad\(",
    "double_backward": r"create_graph=True",
    "sparse": r"to_sparse\(\)",
    "serialization": r"torch\.save\(",
    "autocast": r"(?<!_)autocast\(",
    "fake_tensors": r"FakeTensorMode",
    "accelerator": r"torch\.accelerator\.|get_device_module",
}


@pytest.mark.parametrize("capability", USES)
def test_a_behaviour_names_the_capability_that_its_program_uses(capability: str) -> None:
    lacking = [
        entry.name
        for entry in properties("api")
        if entry.name in BEHAVIOURS
        and capability not in entry.capabilities
        and re.search(USES[capability], inspect.getsource(inspect.unwrap(BEHAVIOURS[entry.name].program)))
    ]
    assert not lacking
