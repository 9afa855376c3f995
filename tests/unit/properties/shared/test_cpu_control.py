"""The CPU control of operator properties turns a failure into a note if the CPU has the same failure. All
other failures remain.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from conformance.device import process_state
from conformance.framework.recorder import Recorder, StopAtFirstFailure
from conformance.model.verdicts import CaseId, Kind, ResultId, Verdict
from conformance.properties.shared.cpu_control import COMPOSITE_FAILS_TOO, CPU_FAILS_TOO, controlled_by_cpu
from conformance.properties.shared.kernel_origin import CompositeKernelsMode
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target

#: A device without loaded kernels, so that an operator which has a composite kernel of torch runs it.
DEVICE = Target("fake", None, "xpu", frozenset({"float32"}), {})
ABS = find("operator", "abs")


@pytest.fixture(autouse=True)
def disable_seeding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the seeding, because the device of these tests has no generator."""
    monkeypatch.setattr(process_state, "seed", lambda value, target: None)


def recorder_of(first_only: bool = False) -> Recorder:
    recorder = Recorder(ResultId(CaseId("value", "abs"), "float32"), seed=0)
    recorder.first_only = first_only
    return recorder


def failing_on(
    *, device: dict[int, str], cpu: dict[int, str], kind: Kind = Kind.EXCEPTION
) -> Callable[[Target, Subject, Recorder], None]:
    """Return a check that fails for some samples on the device and on the CPU. ``device`` and ``cpu``: index
    of a failing sample -> failure message.
    """

    @controlled_by_cpu
    def check(target: Target, subject: Subject, recorder: Recorder) -> None:
        recorder.compared(1)
        for sample, message in (cpu if target.is_cpu else device).items():
            recorder.fail(kind, message, sample=sample)

    return check


def test_a_failure_that_the_cpu_has_too_is_a_note() -> None:
    recorder = recorder_of()
    failing_on(device={3: "is 1.5"}, cpu={3: "is 2.5"})(DEVICE, ABS, recorder)
    result = recorder.result()
    assert result.verdict is Verdict.PASS
    assert result.notes == [f"{CPU_FAILS_TOO}: is 1.5"]
    assert (result.failure_count, result.failed_samples) == (0, [])


@pytest.mark.parametrize("kind", [Kind.VALUE, Kind.METADATA, Kind.DTYPE])
def test_a_small_error_of_the_cpu_excuses_no_large_one(kind: Kind) -> None:
    recorder = recorder_of()
    failing_on(device={3: "is 1e30"}, cpu={3: "is 1.5"}, kind=kind)(DEVICE, ABS, recorder)
    assert recorder.result().verdict is Verdict.FAIL
    recorder = recorder_of()
    failing_on(device={3: "is 1.5"}, cpu={3: "is 1.5"}, kind=kind)(DEVICE, ABS, recorder)
    assert recorder.result().verdict is Verdict.PASS


@pytest.mark.parametrize(
    "cpu", [{}, {4: "is 1.5"}, {3: "has another shape"}], ids=["no failure", "sample", "message"]
)
def test_a_failure_of_the_device_alone_stays(cpu: dict[int, str]) -> None:
    recorder = recorder_of()
    failing_on(device={3: "is 1.5"}, cpu=cpu)(DEVICE, ABS, recorder)
    assert recorder.result().verdict is Verdict.FAIL
    assert recorder.result().failed_samples == [3]


def test_only_the_common_failures_are_excused_of_more_than_are_kept() -> None:
    recorder = recorder_of()
    failing_on(device=dict.fromkeys(range(30), "is 1"), cpu=dict.fromkeys(range(20), "is 2"))(
        DEVICE, ABS, recorder
    )
    result = recorder.result()
    assert (result.verdict, result.failure_count) == (Verdict.FAIL, 10)
    assert result.failed_samples == list(range(20, 30))


def test_the_first_failure_of_the_device_alone_ends_the_check() -> None:
    recorder = recorder_of(True)
    with pytest.raises(StopAtFirstFailure):
        failing_on(device={1: "is 1"}, cpu={})(DEVICE, ABS, recorder)
    recorder = recorder_of(True)
    failing_on(device={1: "is 1"}, cpu={1: "is 1"})(DEVICE, ABS, recorder)
    assert recorder.result().verdict is Verdict.PASS
    recorder = recorder_of(True)
    failing_on(device={1: "is 1", 2: "is 2"}, cpu={1: "is 1"})(DEVICE, ABS, recorder)
    assert recorder.result().failed_samples == [2]


@pytest.mark.parametrize("change", [{"device": "cpu"}, {"mode": "graph"}, {"mode": "compile"}])
def test_the_cpu_itself_graphs_and_compiled_programs_have_no_control(change: dict[str, str]) -> None:
    recorder = recorder_of()
    target = dataclasses.replace(DEVICE, **change)  # type: ignore[arg-type]
    failing_on(device={3: "is 1"}, cpu={3: "is 1"})(target, ABS, recorder)
    assert recorder.result().verdict is Verdict.FAIL


def test_the_control_gets_the_operator_of_torch_and_an_error_of_it_excuses_nothing() -> None:
    seen: list[Subject] = []

    @controlled_by_cpu
    def check(target: Target, subject: Subject, recorder: Recorder) -> None:
        seen.append(subject)
        if target.is_cpu:
            raise RuntimeError("the control breaks")
        recorder.fail(Kind.VALUE, "is 1", sample=0)

    broken = dataclasses.replace(ABS, info=object())
    recorder = recorder_of()
    check(DEVICE, broken, recorder)
    assert recorder.result().verdict is Verdict.FAIL
    assert seen == [broken, ABS, ABS]  # one control with the CPU's kernels, one with composite kernels


CHANNELS_LAST = torch.randn(2, 4, 3, 3).contiguous(memory_format=torch.channels_last)


def group_norm(tensor: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.group_norm(tensor, 2)


def test_composite_kernels_run_in_place_of_those_of_the_cpu() -> None:
    with CompositeKernelsMode("XPU") as composites:
        torch.empty(2)
        assert not composites.has_replaced, "empty has no composite kernel"
        # Torch's composite kernel rejects a channels-last tensor. The CPU's own kernel accepts it.
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            group_norm(CHANNELS_LAST)
        assert composites.has_replaced
    group_norm(CHANNELS_LAST)


def wrong_value(error: float) -> str:
    return f"the result is {error} at [0], expected 0.0 (allowed difference 0.01, found {error}; 1 of 1)."


@pytest.mark.parametrize(
    ("device_message", "verdict"),
    [
        (wrong_value(0.3), Verdict.PASS),
        (wrong_value(3.0), Verdict.FAIL),  # a small error of torch's kernel excuses no large error
        ("the result has shape [2]", Verdict.FAIL),
    ],
)
def test_a_failure_of_torchs_composite_kernel_is_a_note(device_message: str, verdict: Verdict) -> None:
    @controlled_by_cpu
    def check(target: Target, subject: Subject, recorder: Recorder) -> None:
        recorder.compared(1)
        if not target.is_cpu:
            recorder.fail(Kind.VALUE, device_message, sample=1)
            return
        try:
            group_norm(CHANNELS_LAST)
        except RuntimeError:
            # Only the composite kernel raises. Its error differs from the device's error, because the kernels
            # that it calls round differently on the device.
            recorder.fail(Kind.VALUE, wrong_value(0.1), sample=1)

    recorder = recorder_of()
    check(DEVICE, ABS, recorder)
    result = recorder.result()
    assert result.verdict is verdict
    assert result.notes == ([f"{COMPOSITE_FAILS_TOO}: {device_message}"] if verdict is Verdict.PASS else [])
