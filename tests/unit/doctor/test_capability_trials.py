"""``doctor.capability_trials`` tries each capability on the device."""

from __future__ import annotations

import types

import pytest
import torch

from conformance.doctor import capability_trials
from conformance.doctor.registration_checks import MODULE_FUNCTIONS


@pytest.mark.parametrize("capability", ["events", "streams", "generator"])
def test_a_trial_needs_the_module_functions_of_its_capability(
    monkeypatch: pytest.MonkeyPatch, capability: str
) -> None:
    needed = [name for name, needed_by in MODULE_FUNCTIONS.items() if needed_by == capability]
    module = types.SimpleNamespace(__name__="torch.nowhere", **dict.fromkeys(needed[1:]))
    monkeypatch.setattr(torch, "get_device_module", lambda device: module)
    monkeypatch.setitem(capability_trials._TRIALS, capability, lambda device: None)
    assert (
        capability_trials.error_of_capability_trial(capability, "meta")
        == f"torch.nowhere does not have {needed[0]}, which torch calls"
    )
    setattr(module, needed[0], None)
    assert capability_trials.error_of_capability_trial(capability, "meta") == ""
    assert capability_trials.error_of_capability_trial(capability, "cpu") == ""


def test_initial_seed_belongs_to_the_capability_generator() -> None:
    assert MODULE_FUNCTIONS["initial_seed"] == "generator"


def test_every_trial_has_a_position_in_the_order() -> None:
    assert sorted(capability_trials.ORDER) == sorted(capability_trials._TRIALS)
    assert capability_trials.trial_names()[0] == "views"
