"""``doctor.capability_trials`` tries each capability on the device."""

from __future__ import annotations

import types
from typing import Any

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
    assert capability_trials.trial_names()[0] == "accelerator"


@pytest.mark.parametrize("capability", sorted(capability_trials._TRIALS))
def test_a_trial_passes_on_the_cpu_or_says_that_it_needs_an_accelerator(capability: str) -> None:
    error = capability_trials.error_of_capability_trial(capability, "cpu")
    assert error in ("", "the CPU is not an accelerator"), error


def replace_method(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, change: Any) -> None:
    original = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *args, **kwargs: change(original(*args, **kwargs)))


@pytest.mark.parametrize(
    ("capability", "owner", "name", "change"),
    [
        ("conj_neg_views", torch.Tensor, "conj", lambda tensor: tensor.conj_physical().conj_physical()),
        ("conj_neg_views", torch, "_neg_view", lambda tensor: tensor.resolve_neg().abs()),
        ("views", torch.Tensor, "t", lambda tensor: tensor.clone()),
        ("strides", torch.Tensor, "t", lambda tensor: tensor.contiguous()),
        ("out_variants", torch, "add", lambda tensor: tensor.zero_()),
        ("inplace", torch.Tensor, "add_", lambda tensor: tensor.zero_()),
        ("double_backward", torch.autograd, "grad", lambda grads: tuple(grad * 2 for grad in grads)),
        ("random", torch, "rand", lambda tensor: tensor.zero_()),
        ("functorch", torch.func, "vmap", lambda mapped: lambda tensor: mapped(tensor) + 1),
        ("serialization", torch, "load", lambda tensor: tensor + 1),
    ],
)
def test_a_trial_notices_a_wrong_value(
    monkeypatch: pytest.MonkeyPatch, capability: str, owner: object, name: str, change: Any
) -> None:
    replace_method(monkeypatch, owner, name, change)
    assert capability_trials.error_of_capability_trial(capability, "cpu") != ""


def test_a_device_module_may_be_an_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_device_module", lambda device: types.SimpleNamespace())
    monkeypatch.setitem(capability_trials._TRIALS, "streams", lambda device: None)
    error = capability_trials.error_of_capability_trial("streams", "meta")
    assert error.startswith("the module of meta does not have ")


def read_missing_attribute_of_the_suite(device: str) -> None:
    capability_trials.NoEffect("").reason  # type: ignore[attr-defined]  # noqa: B018


def use_unknown_name(device: str) -> None:
    unknown_name  # type: ignore[name-defined]  # noqa: B018, F821


@pytest.mark.parametrize("mistake", [read_missing_attribute_of_the_suite, use_unknown_name])
def test_a_mistake_of_the_suite_is_no_answer_of_the_device(
    monkeypatch: pytest.MonkeyPatch, mistake: Any
) -> None:
    monkeypatch.setitem(mistake.__globals__, "__name__", "conformance.doctor.capability_trials")
    monkeypatch.setitem(capability_trials._TRIALS, "views", mistake)
    with pytest.raises(capability_trials.DefectiveTrial, match="the trial of views is broken: "):
        capability_trials.error_of_capability_trial("views", "cpu")


def test_a_name_that_torch_does_not_have_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(capability_trials._TRIALS, "views", lambda device: torch.nowhere)
    assert "nowhere" in capability_trials.error_of_capability_trial("views", "cpu")
