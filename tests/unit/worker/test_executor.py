"""``worker.executor`` runs one case in this process, and reruns a failure once to determine whether
the failure is intermittent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conformance.errors import UsageError
from conformance.framework.property import Property
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis, Kind, Result, ResultId, Verdict
from conformance.plan.plan import Case
from conformance.properties.registry import find_property
from conformance.subjects.torch_databases import Subject
from conformance.target.file import load
from conformance.target.target import Target
from conformance.worker import executor
from conformance.worker.executor import Executor

Check = Callable[[Recorder, int], None]


def fail_always(recorder: Recorder, turn: int) -> None:
    recorder.fail(Kind.VALUE, f"{turn} of 5 differ", sample=2)


def pass_always(recorder: Recorder, turn: int) -> None:
    recorder.compared(1)


def fail_with_changing_sample(recorder: Recorder, turn: int) -> None:
    recorder.fail(Kind.VALUE, f"{turn} of 5 differ", sample=3)


def raise_refusal(recorder: Recorder, turn: int) -> None:
    recorder.fail(Kind.REFUSED, "no kernel")


@pytest.fixture
def run_with_executor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[Result, int]]]:
    def run_checks(*checks: Check, attempt: int = 1) -> tuple[Result, int]:
        turns = iter(range(len(checks)))
        count = 0

        def check(
            self: Executor, entry: Property, subject: object, result_id: ResultId, watch: object = None
        ) -> Result:
            nonlocal count
            count += 1
            turn = next(turns)
            recorder = Recorder(result_id, seed=0)
            checks[turn](recorder, turn)
            return dataclasses.replace(recorder.result(), attempt=self.attempt)

        monkeypatch.setattr(Executor, "_run_check", check)
        case = Case("operator", "value", "add", ("float32",))
        (result,) = Executor(load("cpu").target("eager"), attempt=attempt, repeats=True).run(case)
        return result, count

    yield run_checks


@pytest.mark.parametrize(
    ("second", "note"),
    [
        (pass_always, "it ends as pass"),
        (fail_with_changing_sample, "it fails differently (samples that did not fail before: 3)"),
        (raise_refusal, "it fails differently (kinds value → refused)"),
    ],
)
def test_a_failure_that_differs_in_the_rerun_is_intermittent(
    run_with_executor: Callable[..., tuple[Result, int]], second: Check, note: str
) -> None:
    result, count = run_with_executor(fail_always, second)
    assert (result.verdict, result.intermittent, count) == (Verdict.FAIL, True, 2)
    assert result.notes == [f"intermittent: rerun at once, {note}"]
    assert [failure.message for failure in result.failures] == ["0 of 5 differ"]
    assert Result.from_json(result.to_json()) == dataclasses.replace(result, seconds=round(result.seconds, 4))


def test_parity_does_not_hide_another_basis_in_the_rerun(
    run_with_executor: Callable[..., tuple[Result, int]],
) -> None:
    def differs(recorder: Recorder, turn: int) -> None:
        recorder.fail(Kind.ERROR_TYPE, "raised another error", basis=Basis.PARITY)

    result, _ = run_with_executor(differs, fail_always)
    assert [failure.basis for failure in result.failures] == [Basis.DOCUMENTED, Basis.PARITY]
    assert (result.intermittent, result.failure_count) == (True, 2)
    result, _ = run_with_executor(fail_always, differs)
    assert [failure.basis for failure in result.failures] == [Basis.DOCUMENTED]


def test_a_failure_that_repeats_is_not_intermittent(
    run_with_executor: Callable[..., tuple[Result, int]],
) -> None:
    result, count = run_with_executor(fail_always, fail_always)
    assert (result.intermittent, result.notes, count) == (False, [], 2)


def test_passes_refusals_and_later_attempts_are_not_rerun(
    run_with_executor: Callable[..., tuple[Result, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        run_with_executor(pass_always)[1]
        == run_with_executor(raise_refusal)[1]
        == run_with_executor(fail_always, attempt=2)[1]
        == 1
    )
    monkeypatch.setattr(executor, "REPEATED_SECONDS", 0)
    assert run_with_executor(fail_always)[1] == 1


def test_a_capability_that_crashes_is_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "cpu.toml"
    file.write_text(
        'schema = 1\nname = "mine"\ndevice = "cpu"\n'
        '[capabilities]\nconj_neg_views = "crashes"\nnon_contiguous = false\n'
    )
    target = load(str(file)).target("eager")
    assert not target.capable("conj_neg_views") and target.crashing == {"conj_neg_views"}
    bits = find_property("operator", "bits")
    assert "conj_neg_views" in bits.capabilities
    (result,) = Executor(target).run(Case("operator", "bits", "add", ("complex64",)))
    assert result.verdict is Verdict.UNSUPPORTED
    assert result.notes == ["not run: the target file declares that conj_neg_views crashes the process"]
    (result,) = Executor(target).run(Case("operator", "value", "add", ("complex64",)))
    assert result.verdict is Verdict.PASS


def test_a_check_of_strides_is_not_run_without_strides(tmp_path: Path) -> None:
    file = tmp_path / "cpu.toml"
    file.write_text('schema = 1\nname = "mine"\ndevice = "cpu"\n[capabilities]\nstrides = false\n')
    target = load(str(file)).target("eager")
    (result,) = Executor(target).run(Case("operator", "layout", "add", ("float32",)))
    assert result.verdict is Verdict.UNSUPPORTED
    assert result.notes == ["not run: capability strides is not declared"]
    (result,) = Executor(target).run(Case("operator", "value", "add", ("float32",)))
    assert result.verdict is Verdict.PASS and result.comparisons > 0


def test_an_unknown_value_of_a_capability_is_a_usage_error(tmp_path: Path) -> None:
    file = tmp_path / "cpu.toml"
    file.write_text('schema = 1\nname = "mine"\ndevice = "cpu"\n[capabilities]\nviews = "no"\n')
    with pytest.raises(UsageError, match="capability views is 'no'; it must be true, false or \"crashes\""):
        load(str(file))


@pytest.mark.parametrize("first_only", [False, True])
def test_a_result_can_end_at_its_first_failure(monkeypatch: pytest.MonkeyPatch, first_only: bool) -> None:
    def check(target: Target, subject: Subject, recorder: Recorder) -> None:
        trial = recorder.scratch()
        fail_always(trial, 1)
        recorder.merge(trial)
        recorder.fail(Kind.STATE, "another")
        raise ValueError

    entry = dataclasses.replace(find_property("operator", "value"), check=check)
    monkeypatch.setattr(executor, "find_property", lambda kind, name: entry)
    first_failure_executor = Executor(load("cpu").target("eager"))
    first_failure_executor.first_only = first_only
    (result,) = first_failure_executor.run(Case("operator", "value", "add", ("float32",)))
    assert result.verdict is (Verdict.FAIL if first_only else Verdict.ERROR)
    assert result.failure_count == (1 if first_only else 3)
