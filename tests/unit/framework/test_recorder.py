"""``framework.recorder`` collects the failures, notes and comparisons of a result and determines
its verdict.
"""

from __future__ import annotations

from conformance.framework.recorder import CHECKED_NOTHING, MAX_FAILURES_KEPT, Recorder
from conformance.model.verdicts import Basis, CaseId, Kind, ResultId, Verdict


def test_a_recorder_that_compared_nothing_is_vacuous() -> None:
    result_id = ResultId.parse("value/add@float32")
    empty = Recorder(result_id, seed=0)
    empty.compared(0)
    assert empty.result().verdict is Verdict.VACUOUS
    about_emptiness = Recorder(result_id, seed=0, about_emptiness=True)
    about_emptiness.compared(0)
    assert about_emptiness.result().verdict is Verdict.PASS


def test_a_recorder_keeps_a_failure_of_each_kind() -> None:
    recorder = Recorder(ResultId.parse("value/add@float32"), seed=0)
    for _ in range(3 * MAX_FAILURES_KEPT):
        recorder.fail(Kind.VALUE, "differs")
    recorder.fail(Kind.METADATA, "strides")
    result = recorder.result()
    assert result.failure_count == 3 * MAX_FAILURES_KEPT + 1
    assert [failure.kind for failure in result.failures] == [Kind.VALUE] * MAX_FAILURES_KEPT + [Kind.METADATA]


def test_a_recorder_keeps_each_new_message_and_all_failed_samples() -> None:
    recorder = Recorder(ResultId.parse("value/add@float32"), seed=0)
    for sample in reversed(range(3 * MAX_FAILURES_KEPT)):
        recorder.fail(Kind.VALUE, f"{sample} differs", sample=sample)
    recorder.fail(Kind.VALUE, "it has another shape", sample=2)
    recorder.fail(Kind.VALUE, "no sample shows this")
    result = recorder.result()
    assert [failure.message for failure in result.failures[MAX_FAILURES_KEPT:]] == [
        "it has another shape",
        "no sample shows this",
    ]
    assert result.failed_samples == list(range(3 * MAX_FAILURES_KEPT))


def test_scratch_observations_count_only_if_they_are_merged() -> None:
    recorder = Recorder(ResultId.parse("value/add@float32"), seed=0)
    recorder.compared(1)
    trial = recorder.scratch()
    trial.compared(2)
    for sample in range(2 * MAX_FAILURES_KEPT):
        trial.fail(Kind.VALUE, "differs", sample=sample)
    trial.note("seen")
    assert trial.first_failure == "differs"
    assert not recorder.failed
    recorder.merge(trial)
    result = recorder.result()
    assert (result.comparisons, result.failure_count) == (3, 2 * MAX_FAILURES_KEPT)
    assert result.failed_samples == list(range(2 * MAX_FAILURES_KEPT))
    assert result.notes == ["seen"]


def test_a_scratch_recorder_omits_the_same_dtypes_as_its_result() -> None:
    recorder = Recorder(ResultId.parse("value/add@float32"), seed=0)
    recorder.lacking = ("views",)
    trial = recorder.scratch()
    assert trial.lacking == ("views",)
    trial.unsupported("no views")
    recorder.merge(trial)
    assert recorder.result().verdict is Verdict.UNSUPPORTED


def test_a_result_with_nothing_to_check_passes_with_a_note() -> None:
    result_id = ResultId.parse("overload-options/sin@float32")
    idle = Recorder(result_id, seed=0)
    idle.allow_nothing_compared("the calls have no options")
    result = idle.result()
    assert result.verdict is Verdict.PASS
    assert result.notes == [f"{CHECKED_NOTHING}the calls have no options"]
    busy = Recorder(result_id, seed=0)
    busy.allow_nothing_compared("the calls have no options")
    busy.compared(1)
    assert not busy.result().notes
    failed = Recorder(result_id, seed=0)
    failed.allow_nothing_compared("the calls have no options")
    failed.fail(Kind.VALUE, "differs")
    assert failed.result().verdict is Verdict.FAIL
    elsewhere = Recorder(result_id, seed=0)
    elsewhere.allow_nothing_compared("the calls have no options")
    elsewhere.vacuous("nothing ran from a lazy graph")
    assert elsewhere.result().verdict is Verdict.VACUOUS


def test_failures_of_selected_kinds() -> None:
    recorder = Recorder(ResultId(CaseId("value", "add"), "float32"), seed=0)
    recorder.compared(3)
    recorder.fail(Kind.VALUE, "one")
    recorder.fail(Kind.STATE, "two", sample=4)
    assert recorder.kinds == {Kind.VALUE, Kind.STATE}
    state_only = recorder.only({Kind.STATE}).result()
    assert [failure.message for failure in state_only.failures] == ["two"]
    assert (state_only.comparisons, state_only.failed_samples) == (0, [4])


def test_excused_deviations_of_a_merged_recorder_are_all_gone() -> None:
    recorder, control = (Recorder(ResultId(CaseId("value", "add"), "float32"), seed=0) for _ in range(2))
    scratch = recorder.scratch()
    for sample in range(9):
        scratch.fail(Kind.EXCEPTION, f"is {sample}", sample=sample)
        control.fail(Kind.EXCEPTION, "is 100", sample=sample)
    recorder.merge(scratch)
    recorder.excuse_failures_shared_with(control, "excused")
    assert (recorder.failed, recorder.failure_count) == (False, 0)
    assert recorder.result().verdict is Verdict.PASS


def test_a_failure_whose_message_was_not_kept_gets_it_back() -> None:
    recorder, control = (Recorder(ResultId(CaseId("value", "add"), "float32"), seed=0) for _ in range(2))
    for sample in range(8):
        recorder.fail(Kind.EXCEPTION, f"is {sample}", sample=sample)
    for sample in range(5):
        control.fail(Kind.EXCEPTION, "is 9", sample=sample)
    recorder.excuse_failures_shared_with(control, "excused")
    result = recorder.result()
    assert [failure.message for failure in result.failures] == ["is 5", "is 6", "is 7"]
    assert (result.failure_count, result.failed_samples) == (3, [5, 6, 7])


def test_deviations_without_a_sample_are_excused_by_as_many() -> None:
    recorder, control = (Recorder(ResultId(CaseId("value", "add"), "float32"), seed=0) for _ in range(2))
    for text in ("is 1", "is 2"):
        recorder.fail(Kind.STATE, text)
    control.fail(Kind.STATE, "is 3")
    recorder.excuse_failures_shared_with(control, "excused")
    assert recorder.failure_count == 2
    control.fail(Kind.STATE, "is 4")
    recorder.excuse_failures_shared_with(control, "excused")
    assert recorder.failure_count == 0


def test_the_first_deviation_of_each_basis_is_kept() -> None:
    recorder = Recorder(ResultId.parse("value/add@float32"), seed=0)
    with recorder.with_basis(Basis.PARITY):
        for sample in range(30):
            recorder.fail(Kind.VALUE, "far off", sample=sample)
    recorder.fail(Kind.VALUE, "far off", sample=30)
    scratch = recorder.scratch()
    scratch.fail(Kind.VALUE, "far off", basis=Basis.CONSISTENCY)
    recorder.merge(scratch)
    assert {failure.basis for failure in recorder.result().failures} == set(Basis)
    assert recorder.failure_count == 32


def test_a_deviation_is_excused_only_by_one_of_its_basis() -> None:
    recorder, control = (Recorder(ResultId.parse("value/add@float32"), seed=0) for _ in range(2))
    recorder.fail(Kind.STATE, "is 1", basis=Basis.DOCUMENTED)
    control.fail(Kind.STATE, "is 1", basis=Basis.PARITY)
    recorder.excuse_failures_shared_with(control, "excused")
    assert recorder.failure_count == 1
