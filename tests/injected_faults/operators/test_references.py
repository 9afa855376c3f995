"""A property of a function transform does not pass if no sample has a reference."""

from __future__ import annotations

import pytest

from conformance.framework.calls import CallOutcome
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, Result, ResultId, Verdict
from conformance.properties.operators import _func_transforms as transforms
from conformance.properties.registry import find_property
from conformance.subjects.torch_databases import find as find_subject
from conformance.target import file as target_file

TRANSFORMS = ("vmap", "vjp", "jvp", "vmap-vjp", "vjp-vmap", "vjp-vjp", "vmap-vjp-vjp", "vmap-jvp", "jvp-vmap")


def check_property(name: str, subject: str) -> Result:
    recorder = Recorder(ResultId(CaseId(name, subject), "float64"), seed=5)
    target = target_file.load("cpu").target("eager")
    find_property("operator", name).check(target, find_subject("operator", subject), recorder)
    return recorder.result()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_result_without_a_reference_does_not_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_property(name, "sin").verdict is Verdict.PASS
    monkeypatch.setattr(
        transforms, "cpu_outcome", lambda call: CallOutcome(error=RuntimeError("no reference"))
    )
    assert check_property(name, "sin").verdict is Verdict.VACUOUS


@pytest.mark.parametrize(
    "subject", ["native_layer_norm", "nn.functional.soft_margin_loss", "_batch_norm_with_update"]
)
def test_only_inputs_that_the_database_marks_are_differentiated(subject: str) -> None:
    result = check_property("vjp-vjp", subject)
    assert result.verdict is Verdict.PASS
    assert not any("no reference" in note for note in result.notes), result.notes
