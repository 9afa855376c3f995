"""Trials of capabilities."""

from __future__ import annotations

import types

import pytest
import torch

from conformance.doctor import capability_trials
from conformance.doctor.registration_checks import MODULE_FUNCTIONS


@pytest.mark.parametrize("capability", ["events", "streams", "generator"])
def test_a_trial_asks_for_the_functions_that_the_doctor_asks_for(
    monkeypatch: pytest.MonkeyPatch, capability: str
) -> None:
    needed = [name for name, needed_by in MODULE_FUNCTIONS.items() if needed_by == capability]
    module = types.SimpleNamespace(__name__="torch.nowhere", **dict.fromkeys(needed[1:]))
    monkeypatch.setattr(torch, "get_device_module", lambda device: module)
    monkeypatch.setitem(capability_trials._TRIALS, capability, lambda device: None)
    assert (
        capability_trials.attempt(capability, "meta")
        == f"torch.nowhere has no {needed[0]}, which torch calls"
    )
    setattr(module, needed[0], None)
    assert capability_trials.attempt(capability, "meta") == ""
    assert capability_trials.attempt(capability, "cpu") == ""


def test_the_functions_of_a_generator_include_its_seed() -> None:
    assert MODULE_FUNCTIONS["initial_seed"] == "generator"


def test_every_trial_has_its_place_in_a_bring_up() -> None:
    assert sorted(capability_trials.ORDER) == sorted(capability_trials._TRIALS)
    assert capability_trials.trial_names()[0] == "views"
