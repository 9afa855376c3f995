"""Tensors of a call that `overload-layouts` expands."""

import pytest

from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, ResultId
from conformance.properties.overloads import layouts
from conformance.properties.overloads._call_forms import ArgumentLayout
from conformance.properties.overloads._references import OverloadReference, overload_reference
from conformance.samples.recorded_calls import calls_of
from conformance.subjects.torch_databases import find
from conformance.target.target import Target


def test_what_a_call_writes_is_not_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many writes to one element any may be the last: with two threads another than with one."""
    asked: list[tuple[frozenset[int], int]] = []

    def hold(
        target: Target, recorder: Recorder, found: OverloadReference, form: str, laid: ArgumentLayout
    ) -> bool:
        asked.append((found.written, laid.place))
        return True

    monkeypatch.setattr(layouts, "check_call", hold)
    target = Target("fake", None, "cpu", frozenset({"float32"}), {})
    subject = find("overload", "_batch_norm_with_update")
    recorder = Recorder(ResultId(CaseId("overload-layouts", subject.name), "float32"), seed=0)
    calls = calls_of(subject, "float32")
    for index in range(calls.available):
        found = overload_reference(subject, "float32", calls[index])
        if found is not None:
            layouts._with_one_row_expanded(target, recorder, found, layouts.LayoutCoverage())
    assert any(written for written, _ in asked)
    assert all(place not in written for written, place in asked)
