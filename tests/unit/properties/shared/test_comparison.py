"""Outputs are compared correctly even if the CPU's outputs exceed the tolerance. Messages contain the names
of call forms.
"""

from __future__ import annotations

import dataclasses

import pytest
import torch

from conformance.device import process_state
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, ResultId, Verdict
from conformance.oracle.reference import Call, CallForm, HighPrecision, Reference
from conformance.properties.shared.comparison import LARGE, VALUES, ComparisonPolicy, compare_outputs
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target

DEVICE = Target("fake", None, "hpu", frozenset({"float32"}), {})
EXACT = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
NO_DEVICE = dataclasses.replace(VALUES, device=False)


def reference_with_cpu_error(error: list[float]) -> Reference:
    """Return a reference whose outputs differ from the high-precision values by ``error``."""
    call = Call(find("operator", "exp"), torch.float32, Sample(0, torch.zeros(4)))
    outputs = (EXACT + torch.tensor(error, dtype=torch.float64)).float()
    return Reference(
        call, outputs, compute_high_precision=lambda: HighPrecision(EXACT, [torch.zeros(4)], True)
    )


def verdict_of(
    error: list[float],
    device_error: list[float],
    target: Target = DEVICE,
    policy: ComparisonPolicy = NO_DEVICE,
) -> Verdict:
    recorder = Recorder(ResultId(CaseId("value", "exp"), "float32"), seed=0)
    actual = (EXACT + torch.tensor(device_error, dtype=torch.float64)).float()
    compare_outputs(target, recorder, reference_with_cpu_error(error), actual, policy=policy)
    return recorder.result().verdict


@pytest.mark.parametrize(
    ("cpu", "device", "verdict"),
    [
        ([0, 0, 0, 0], [0, 0, 0, 0], Verdict.PASS),
        ([0, 0, 0, 0], [0, 1e-2, 0, 0], Verdict.FAIL),
        ([1e-2, 0, 0, 0], [0, 1e-2, 0, 0], Verdict.PASS),
        ([1e-2, 0, 0, 0], [0, 1, 0, 0], Verdict.FAIL),
        ([1e-2, 0, 0, 0], [1e30, 1e30, 1e30, 1e30], Verdict.FAIL),
        ([float("nan"), 0, 0, 0], [5, 0, 0, 0], Verdict.PASS),
        ([float("nan"), 0, 0, 0], [5, 1, 0, 0], Verdict.FAIL),
    ],
)
def test_a_device_may_be_as_far_off_as_the_cpu(
    cpu: list[float], device: list[float], verdict: Verdict
) -> None:
    assert verdict_of(cpu, device) is verdict


@pytest.mark.parametrize(("device_error", "verdict"), [(1e30, Verdict.FAIL), (1e-2, Verdict.PASS)])
def test_the_control_of_a_property_does_not_excuse_a_device_that_is_further_off(
    device_error: float, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_state, "seed", lambda value, target: None)
    reference = reference_with_cpu_error([1e-2, 0, 0, 0])

    @controlled_by_cpu
    def check(target: Target, subject: Subject, recorder: Recorder) -> None:
        off = torch.tensor([device_error, 0, 0, 0], dtype=torch.float64)
        actual = reference.outputs if target.is_cpu else (EXACT + off).float()
        compare_outputs(target, recorder, reference, actual, policy=NO_DEVICE)

    recorder = Recorder(ResultId(CaseId("value", "exp"), "float32"), seed=0)
    check(DEVICE, reference.subject, recorder)
    assert recorder.result().verdict is verdict


def test_the_cpu_itself_graphs_and_compiled_programs_are_within_the_tolerance() -> None:
    off = [1e-2, 0.0, 0.0, 0.0]
    for change in ({"device": "cpu"}, {"mode": "graph"}, {"mode": "compile"}):
        target = dataclasses.replace(DEVICE, **change)  # type: ignore[arg-type]
        assert verdict_of(off, off, target) is Verdict.FAIL
    large = dataclasses.replace(LARGE, device=False)
    assert verdict_of(off, off, dataclasses.replace(DEVICE, device="cpu"), large) is Verdict.PASS


def test_a_form_has_its_name_in_messages() -> None:
    assert [f"the {form}" for form in CallForm] == ["the function", "the in-place form", "the form with out="]
