"""``runner.modes`` selects the modes of a run. By default these are the modes that the installed torch
supports.
"""

from __future__ import annotations

import dataclasses
import types
from typing import Any

import pytest
import torch

from conformance.builds import installed_torch
from conformance.errors import UsageError
from conformance.runner import modes
from conformance.target import file as target_file


def cpu_target_file(**extra_fields: Any) -> Any:
    """Return an object with the fields of target file cpu. ``extra_fields`` replace fields, or add fields
    that this version of the suite does not read.
    """
    file = target_file.load("cpu")
    fields = {field.name: getattr(file, field.name) for field in dataclasses.fields(file)}
    return types.SimpleNamespace(**{**fields, "check_mode": file.check_mode, **extra_fields})


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("2.13.0", ["eager"]),
        ("2.13.0+cpu", ["eager"]),
        ("2.13.0a0+git1234567", ["eager", "lazy"]),
        ("2.13.0+hpu.1", ["eager", "lazy"]),
    ],
)
def test_modes_that_this_build_does_not_support_are_omitted(
    monkeypatch: pytest.MonkeyPatch, version: str, found: list[str]
) -> None:
    monkeypatch.setattr(installed_torch, "version", lambda: version)
    declared = cpu_target_file(modes=("eager", "lazy"), mode_builds={"lazy": "fork-like"})
    assert modes.selected_modes(declared, None) == found
    assert modes.selected_modes(cpu_target_file(modes=("eager", "lazy"), mode_builds={}), None) == [
        "eager",
        "lazy",
    ]


def test_a_target_without_a_mode_for_this_build_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed_torch, "version", lambda: "2.13.0+cpu")
    with pytest.raises(UsageError, match=r"target 'cpu' has no mode that runs on torch 2\.13\.0\+cpu"):
        modes.selected_modes(cpu_target_file(modes=("lazy",), mode_builds={"lazy": "fork-like"}), None)


def test_requested_modes_are_validated() -> None:
    assert modes.selected_modes(cpu_target_file(), "eager") == ["eager"]
    with pytest.raises(UsageError, match="names a mode twice"):
        modes.selected_modes(cpu_target_file(), "eager,eager")
    with pytest.raises(UsageError, match="mode 'slow' does not exist"):
        modes.selected_modes(cpu_target_file(), "slow")


def test_the_installed_version_is_the_version_of_torch() -> None:
    assert installed_torch.version() == torch.__version__
    assert installed_torch.leg_name("2.13.0a0+git1/x", "lazy") == "2.13.0a0+git1_x-lazy"
