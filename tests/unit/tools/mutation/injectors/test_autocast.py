"""The mutation points of autocast are the operators whose inputs torch casts on the device."""

from __future__ import annotations

import pytest
import torch

from conformance.target import file as target_file
from tools.mutation import points
from tools.mutation.injectors.autocast import castable_overloads


def test_operators_that_torch_promotes_without_a_cast_are_not_mutation_points() -> None:
    names = castable_overloads("CPU", {"lower": ["mm", "addcmul"], "promote": ["cat", "stack", "addcmul"]})
    assert "aten::mm" in names
    assert "aten::cat" not in names
    assert "aten::stack" not in names


def test_torch_promotes_operators_that_the_reference_device_lists_only_for_promotion() -> None:
    lists = target_file.load("hpu-reference").target("eager").autocast
    other_lists = {name for cast_policy, names in lists.items() if cast_policy != "promote" for name in names}
    low, high = torch.ones(3, dtype=torch.bfloat16), torch.ones(3)
    for name in set(lists["promote"]) - other_lists:
        call = getattr(torch, name)
        two = [low, high]
        result = (
            call(two) if name in ("cat", "stack") else call(low, high, *([low] if name == "addcmul" else []))
        )
        assert result.dtype == torch.float32, name


def test_an_overload_without_a_device_kernel_is_not_a_mutation_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "mutation_points", lambda key: ["aten::mm", "aten::mm.dtype"])
    assert castable_overloads("CPU", {}) == ["aten::mm"]
