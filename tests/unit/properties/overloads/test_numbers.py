"""A device may refuse a CPU tensor without dimensions as an operand. If it accepts the operand, the result
must be correct.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis, CaseId, Kind, Result, ResultId
from conformance.properties.overloads import numbers
from conformance.subjects.torch_databases import find
from conformance.target import file as target_file
from conformance.target.target import Target


def _result_of_check(change: Callable[[Any, Any], Any], monkeypatch: pytest.MonkeyPatch) -> Result:
    """Check ``add.Tensor`` on a device that runs ``change(x, y)`` if the second operand has no dimensions.
    Return the result.
    """
    monkeypatch.setattr(Target, "is_cpu", False)
    subject = find("overload", "add.Tensor")

    def changed_op(x: Any, y: Any, **options: Any) -> Any:
        if isinstance(y, torch.Tensor) and y.dim() == 0 and x.dim():
            return change(x, y)
        return subject.info.op(x, y, **options)

    changed = dataclasses.replace(subject, info=dataclasses.replace(subject.info, op=changed_op))
    recorder = Recorder(ResultId(CaseId("overload-numbers", "add.Tensor"), "float32"), seed=0)
    numbers.check(target_file.load("cpu").target("eager"), changed, recorder)
    return recorder.result()


def test_a_refusal_has_basis_parity(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(x: Any, y: Any) -> Any:
        raise RuntimeError("Expected all tensors to be on the same device")

    failures = _result_of_check(refuse, monkeypatch).failures
    assert failures and {failure.basis for failure in failures} == {Basis.PARITY}


def test_a_wrong_value_has_basis_consistency(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = _result_of_check(lambda x, y: x + y, monkeypatch).failures
    assert {(failure.kind, failure.basis) for failure in failures} == {(Kind.VALUE, Basis.CONSISTENCY)}
    assert all("CPU tensor without dimensions" in failure.message for failure in failures)
