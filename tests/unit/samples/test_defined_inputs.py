"""``samples.defined_inputs`` replaces inputs for which documentation does not specify the result."""

from __future__ import annotations

import math

import torch
from torch.testing._internal.opinfo.core import SampleInput

from conformance.samples.defined_inputs import inputs_with_documented_results


def test_nan_is_kept_if_its_result_is_documented() -> None:
    sample_inputs = [SampleInput(torch.tensor([math.nan, 2.0]), args=(torch.tensor([1.0, math.nan]),))]
    assert inputs_with_documented_results("maximum", sample_inputs) is sample_inputs
    (changed,) = inputs_with_documented_results("hypot", sample_inputs)
    assert changed.input.tolist() == [1.0, 2.0]
    assert changed.args[0].tolist() == [1.0, 1.0]
    assert sample_inputs[0].input.isnan().any()


def test_requires_grad_is_kept() -> None:
    sample_inputs = [SampleInput(torch.tensor([math.nan], requires_grad=True))]
    (changed,) = inputs_with_documented_results("nn.functional.hardshrink", sample_inputs)
    assert changed.input.requires_grad
    assert changed.input.is_leaf


def test_cpu_only_linalg_drivers_are_omitted() -> None:
    matrix = torch.eye(2)
    sample_inputs = [
        SampleInput(matrix, args=(matrix,), kwargs={"driver": driver}) for driver in ("gels", "gelsd", None)
    ]
    assert [
        sample_input.kwargs["driver"]
        for sample_input in inputs_with_documented_results("linalg.lstsq", sample_inputs)
    ] == [
        "gels",
        None,
    ]
