"""``RetainedMemory`` reports memory that every round of repeated calls retains."""

from __future__ import annotations

import pytest

from conformance.device import memory
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, Kind, ResultId
from conformance.properties.overloads._retained_memory import RetainedMemory
from conformance.target import file as target_file

TARGET = target_file.load("cpu").target("eager")


def recorder_after_counts(counts: list[int] | None, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    allocated_counts = iter(counts or ())
    monkeypatch.setattr(
        memory,
        "allocated_bytes_counter",
        lambda target: None if counts is None else allocated_counts.__next__,
    )
    retained = RetainedMemory(TARGET)
    for _ in counts or (0, 0, 0):
        retained.record_allocated_bytes()
    recorder = Recorder(ResultId(CaseId("overload-repeats", "relu"), "float32"), seed=0)
    retained.check(recorder, "25 calls", 0)
    return recorder


def test_memory_that_every_round_keeps_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = recorder_after_counts([0, 100, 180, 300], monkeypatch)
    assert recorder.kinds == {Kind.STATE}
    assert "25 calls leave at least 80 bytes" in recorder.first_failure


@pytest.mark.parametrize("counts", [[0, 100, 100, 200], [50, 50, 50, 50], [100, 0, 100, 0]])
def test_memory_is_not_retained_if_one_round_keeps_nothing(
    counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = recorder_after_counts(counts, monkeypatch)
    assert not recorder.failed and recorder.result().comparisons == 1


def test_a_device_without_memory_statistics_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert recorder_after_counts(None, monkeypatch).result().comparisons == 0
