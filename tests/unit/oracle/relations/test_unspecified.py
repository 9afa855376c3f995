"""Outputs whose values documentation leaves open may differ from the CPU's. Wrong outputs fail."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from conformance.framework.recorder import Recorder
from conformance.model.verdicts import ResultId
from conformance.oracle.reference import Call, reference_for
from conformance.properties.shared.comparison import compare_outputs
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


BATCH_NORM, INSTANCE_NORM = "nn.functional.batch_norm", "nn.functional.instance_norm"
STATISTICS = (torch.zeros(3), torch.ones(3))


@pytest.mark.parametrize(
    ("name", "arguments", "over_batch"),
    [
        (BATCH_NORM, {"args": (None, None), "kwargs": {"training": True}}, True),
        (BATCH_NORM, {"args": STATISTICS}, None),
        ("native_batch_norm", {"args": (None, None, None, None, True, 0.5, 1e-5)}, True),
        ("native_batch_norm", {"args": (None, None, *STATISTICS, False, 0.5, 1e-5)}, None),
        (INSTANCE_NORM, {}, False),
        (INSTANCE_NORM, {"args": (*STATISTICS, None, None, False)}, None),
    ],
)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_close_pairs_normalised_in_16_bits(
    name: str, arguments: dict[str, Any], over_batch: bool | None, dtype: str
) -> None:
    is_wide = dtype == "float32"
    unit = torch.finfo(torch.bfloat16 if is_wide else dtype_of(dtype)).eps
    shapes = ((2, 3, 1), (1, 3, 2), (2, 3, 2), (3, 3, 1))
    for shape, distance in itertools.product(shapes, (unit, 8 * unit, 32 * unit)):
        count = shape[2] * (shape[0] if over_batch else 1)
        numbers = torch.arange(float(shape[0] * shape[2])).reshape(shape[0], 1, shape[2]).expand(shape)
        sample = Sample(0, (1 + numbers * distance).to(dtype_of(dtype)), **to_dtype(arguments, dtype))
        reference = reference_for(Call(find("operator", name), dtype_of(dtype), sample))
        if not reference.ok:
            assert name == INSTANCE_NORM and shape[2] == 1
            continue
        if count > 2 and distance < 32 * unit:
            continue  # with more than two close elements, the tolerance accepts any value
        is_close = over_batch is not None and count == 2 and distance < 16 * unit
        failures = failures_of_device(name, dtype, [sample], lambda _, expected: with_first_negated(expected))
        assert bool(failures) is not (is_close and not is_wide), (shape, distance, failures)


def to_dtype(arguments: dict[str, Any], dtype: str) -> dict[str, Any]:
    args = arguments.get("args", ())
    converted = tuple(a.to(dtype_of(dtype)) if isinstance(a, torch.Tensor) else a for a in args)
    return {**arguments, "args": converted}


def with_first_negated(outputs: Any) -> Any:
    return (-outputs[0], *outputs[1:]) if isinstance(outputs, tuple) else -outputs
