"""The property ``huge_tensors`` passes without a fault and fails with a fault. The tests use
small tensors.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, Result, ResultId, Verdict
from conformance.properties.device import huge_tensors
from conformance.properties.registry import find_property
from conformance.samples import sample_limit
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


class ReturnsUnwrittenResults(TorchFunctionMode):
    """Function mode in which the torch function or method ``name`` returns zeros."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return torch.zeros_like(result) if func.__name__ == self.name else result


def check_huge_tensors(
    monkeypatch: pytest.MonkeyPatch,
    free: int = 1 << 20,
    samples: int | None = None,
    dtypes: frozenset[str] = frozenset({"int8"}),
) -> Result:
    monkeypatch.setattr(huge_tensors, "ELEMENTS", 1024)
    monkeypatch.setattr(huge_tensors, "free_bytes", lambda target: free)
    monkeypatch.setattr(sample_limit, "sample_limit", samples)
    target = Target("fake", None, "cpu", dtypes, {})
    recorder = Recorder(ResultId(CaseId("huge_tensors", "Memory"), "any"), seed=0)
    find_property("device", "huge_tensors").check(target, Subject("device", "Memory", None), recorder)
    return recorder.result()


def test_passes_without_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    result = check_huge_tensors(monkeypatch)
    assert (result.verdict, result.comparisons) == (Verdict.PASS, 16), result.failures


@pytest.mark.parametrize(
    "name",
    [
        *("clone", "contiguous", "cpu", "add", "__eq__", "where", "max", "argmax", "nonzero"),
        *("index_select", "gather", "index_fill_", "flip", "cat"),
    ],
)
def test_fails_with_a_fault(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with ReturnsUnwrittenResults(name):
        result = check_huge_tensors(monkeypatch)
    assert result.verdict is Verdict.FAIL


def test_no_huge_tensor_is_created_unless_requested_declared_and_fitting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for settings in ({"samples": 32}, {"free": 4095}, {"dtypes": frozenset({"float32"})}):
        result = check_huge_tensors(monkeypatch, **settings)
        assert (result.verdict, result.comparisons) == (Verdict.PASS, 0)
        assert any("checked nothing" in note for note in result.notes)
