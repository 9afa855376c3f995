"""Results that documentation leaves open pass if they differ from the CPU's, and wrong results fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from conformance.framework.calls import CallOutcome
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import ResultId
from conformance.oracle.reference import Call, reference_for
from conformance.properties.shared import known_composite_errors
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.execution import report_failed_call
from conformance.samples.operators import Sample, dtype_of, reference_samples_of, samples_of
from conformance.subjects.torch_databases import find
from conformance.target.file import load

INTEGERS = {
    "byte": torch.uint8,
    "char": torch.int8,
    "short": torch.int16,
    "int": torch.int32,
    "long": torch.int64,
}


def failures_of_device(
    name: str, dtype: str, samples: list[Sample], answer: Callable[[Sample, Any], Any]
) -> list[str]:
    """Return the failure messages of a device that returns ``answer(sample, reference outputs)``."""
    subject = find("operator", name)
    recorder = Recorder(ResultId.parse(f"extremal/{name}@{dtype}"), seed=0)
    target = load("cpu").target("eager")
    for sample in samples:
        reference = reference_for(Call(subject, dtype_of(dtype), sample))
        if reference.ok:
            compare_outputs(target, recorder, reference, answer(sample, reference.outputs))
    assert recorder.result().comparisons
    return [failure.message for failure in recorder.result().failures]


def with_saturated_conversion(sample: Sample, expected: torch.Tensor) -> torch.Tensor:
    limits = torch.iinfo(expected.dtype)
    whole = sample.input.to(torch.float64).nan_to_num(0.0, float("inf"), float("-inf")).trunc()
    result = expected.clone()
    result[whole >= limits.max] = limits.max
    result[whole <= limits.min] = limits.min
    return result


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("name", INTEGERS)
def test_conversions_may_saturate(name: str, dtype: str) -> None:
    subject = find("operator", name)
    samples = [
        sample
        for sample in reference_samples_of(subject, dtype_of(dtype)).chosen(200)
        if sample.input.numel() <= 5000
    ]
    odd = [
        sample
        for sample in samples
        if not torch.equal(
            with_saturated_conversion(sample, sample.input.to(INTEGERS[name])),
            sample.input.to(INTEGERS[name]),
        )
        or not sample.input.isfinite().all()
    ]
    assert odd, "no sample exceeds the range of the dtype"
    assert not failures_of_device(name, dtype, samples, with_saturated_conversion)
    assert failures_of_device(name, dtype, samples, lambda sample, expected: expected + 1)


@pytest.mark.parametrize("name", ["native_layer_norm", "native_batch_norm"])
def test_statistics_may_have_the_accumulation_dtype(name: str) -> None:
    samples = list(samples_of(find("operator", name), torch.bfloat16).chosen(8))

    def wide(sample: Sample, expected: Any, error: float = 0.0, dtype: torch.dtype = torch.float32) -> Any:
        return (expected[0], *(part.to(dtype) + error for part in expected[1:]))

    assert not failures_of_device(name, "bfloat16", samples, wide)
    assert failures_of_device(name, "bfloat16", samples, lambda sample, expected: wide(sample, expected, 1.0))
    assert failures_of_device(
        name, "bfloat16", samples, lambda sample, expected: wide(sample, expected, 0.0, torch.float64)
    )
    assert failures_of_device(
        name, "bfloat16", samples, lambda sample, expected: (expected[0].float(), *expected[1:])
    )


@pytest.mark.parametrize("own", [True, False])
def test_a_fault_of_torch_s_composite_kernel_is_a_note(monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    monkeypatch.setattr(
        known_composite_errors,
        "composite_key",
        lambda name, key: None if own else torch._C.DispatchKey.CompositeExplicitAutograd,
    )
    x = torch.randn(2, 4, 3, 3).contiguous(memory_format=torch.channels_last)
    composite = torch._C.DispatchKey.CompositeExplicitAutograd
    try:
        torch.ops.aten.native_group_norm.default._op_dk(composite, x, None, None, 2, 4, 9, 2, 1e-5)
    except RuntimeError as error:
        outcome = CallOutcome(error=error)
    else:
        pytest.fail("torch's kernel accepts this input now: remove its entry from known_torch_bugs")
    recorder = Recorder(ResultId.parse("layout/native_group_norm@float32"), seed=0)
    sample = next(iter(samples_of(find("operator", "native_group_norm"), torch.float32).chosen(1)))
    report_failed_call(load("cpu").target("eager"), recorder, sample, outcome)
    result = recorder.result()
    assert bool(result.failures) is own and bool(result.notes) is not own
