"""The tensors of a call that `overload-layouts` expands."""

import pytest

from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, ResultId
from conformance.oracle.reference import CallForm
from conformance.properties.overloads import layouts
from conformance.properties.overloads._call_forms import ArgumentLayout
from conformance.properties.overloads._references import OverloadReference, overload_reference
from conformance.properties.shared.cpu_control import Conclusion
from conformance.samples.recorded_calls import calls_of
from conformance.subjects.torch_databases import find
from conformance.target.target import Target


def test_what_a_call_writes_is_not_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    """When several writes go to one element, the last one depends on the number of threads."""
    checked: list[tuple[frozenset[int], int]] = []

    def hold(
        target: Target, recorder: Recorder, reference: OverloadReference, form: CallForm, laid: ArgumentLayout
    ) -> Conclusion:
        checked.append((reference.written, laid.tensor_index))
        return Conclusion.PASSED

    monkeypatch.setattr(layouts, "check_call", hold)
    target = Target("fake", None, "cpu", frozenset({"float32"}), {})
    subject = find("overload", "_batch_norm_with_update")
    recorder = Recorder(ResultId(CaseId("overload-layouts", subject.name), "float32"), seed=0)
    calls = calls_of(subject, "float32")
    for index in range(calls.available):
        reference = overload_reference(subject, "float32", calls[index])
        if reference is not None:
            layouts._check_one_row_expanded(target, recorder, reference, layouts.LayoutCoverage())
    assert any(written for written, _ in checked)
    assert all(argument_index not in written for written, argument_index in checked)
