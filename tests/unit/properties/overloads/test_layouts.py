"""The property ``overload-layouts`` expands only arguments that the call does not write."""

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


def test_written_arguments_are_not_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a call writes an expanded argument, several writes go to one element. Which write is the last
    depends on the number of threads, so the result has no reference.
    """
    checked: list[tuple[frozenset[int], int]] = []

    def record_checked_layout(
        target: Target, recorder: Recorder, reference: OverloadReference, form: CallForm, laid: ArgumentLayout
    ) -> Conclusion:
        checked.append((reference.written, laid.tensor_index))
        return Conclusion.PASSED

    monkeypatch.setattr(layouts, "check_call", record_checked_layout)
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
