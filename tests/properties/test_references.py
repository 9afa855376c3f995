"""What becomes of a result whose samples have nothing to be held against."""

from __future__ import annotations

import pytest
import torch

from conformance import target_file
from conformance.invocation import Outcome
from conformance.model import CaseId, Result, ResultId, Verdict
from conformance.properties.operators import _transforms as transforms
from conformance.property import find
from conformance.recorder import Recorder
from conformance.subjects import find as find_subject
from conformance.tolerances import rule

TRANSFORMS = ("vmap", "vjp", "jvp", "vmap-vjp", "vjp-vmap", "vjp-vjp", "vmap-vjp-vjp", "vmap-jvp", "jvp-vmap")


def checked(name: str, subject: str) -> Result:
    recorder = Recorder(ResultId(CaseId(name, subject), "float64"), seed=5)
    target = target_file.load("cpu").target("eager")
    find("operator", name).check(target, find_subject("operator", subject), recorder)
    return recorder.result()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_nothing_to_compare_with_is_no_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked(name, "sin").verdict is Verdict.PASS
    monkeypatch.setattr(transforms, "host", lambda call: Outcome(error=RuntimeError("no reference")))
    assert checked(name, "sin").verdict is Verdict.VACUOUS


@pytest.mark.parametrize(
    "subject", ["native_layer_norm", "nn.functional.soft_margin_loss", "_batch_norm_with_update"]
)
def test_what_is_differentiated_is_what_the_database_marks(subject: str) -> None:
    result = checked("vjp-vjp", subject)
    assert result.verdict is Verdict.PASS
    assert not any("no reference" in note for note in result.notes), result.notes


@pytest.mark.parametrize(
    ("operator", "name"), [("__rmatmul__", "matrix"), ("matmul", "matrix"), ("__radd__", "elementwise")]
)
def test_reflected_operators_have_the_tolerance_of_what_they_compute(operator: str, name: str) -> None:
    assert rule(operator, torch.float32).name == name
