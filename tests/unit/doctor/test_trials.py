"""Trials of capabilities."""

from __future__ import annotations

import types

import pytest
import torch

from conformance.doctor import trials
from conformance.doctor.facts import MODULE_FUNCTIONS


@pytest.mark.parametrize("word", ["events", "streams", "generator"])
def test_a_trial_asks_for_the_functions_that_the_doctor_asks_for(
    monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    needed = [name for name, needed_by in MODULE_FUNCTIONS.items() if needed_by == word]
    module = types.SimpleNamespace(__name__="torch.nowhere", **dict.fromkeys(needed[1:]))
    monkeypatch.setattr(torch, "get_device_module", lambda device: module)
    monkeypatch.setitem(trials._TRIALS, word, lambda device: None)
    assert trials.attempt(word, "meta") == f"torch.nowhere has no {needed[0]}, which torch calls"
    setattr(module, needed[0], None)
    assert trials.attempt(word, "meta") == ""
    assert trials.attempt(word, "cpu") == ""


def test_the_functions_of_a_generator_include_its_seed() -> None:
    assert MODULE_FUNCTIONS["initial_seed"] == "generator"


def test_every_trial_has_its_place_in_a_bring_up() -> None:
    assert sorted(trials.ORDER) == sorted(trials._TRIALS)
    assert trials.words()[0] == "views"
