"""The sensitivity of a result is the sum of the effects of its arguments. The calls that measure it do not
affect each other.
"""

from __future__ import annotations

from typing import Any

import torch

from conformance.framework.tolerances import rule
from conformance.oracle.sensitivity import sensitivity_of
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import find


def _sensitivity(kind: str, name: str, sample: Sample, expected: torch.Tensor) -> torch.Tensor:
    info: Any = find(kind, name).info
    elementwise = rule("add", torch.float32)
    (result,) = sensitivity_of(info, sample, expected, torch.float32, 0, elementwise)
    assert elementwise.separate and result is not None
    return result


def test_effects_of_two_arguments_do_not_cancel() -> None:
    x = torch.full((1000,), 7.0)
    sample = Sample(0, x, (x, torch.ones(1000)), {"value": -1.0})
    sensitivity = _sensitivity("operator", "addcdiv", sample, torch.zeros(1000, dtype=torch.float64))
    # The summand, the dividend, the divisor and the factor contribute 7 each.
    assert torch.allclose(sensitivity, torch.full((1000,), 28.0, dtype=torch.float64), rtol=1e-3)


def test_a_whole_number_as_input_moves() -> None:
    sample = Sample(0, 50, (-3, 50))
    expected = torch.linspace(50, -3, 50, dtype=torch.float64)
    assert _sensitivity("operator", "linspace", sample, expected)[0] > 40


def test_writes_of_one_call_do_not_reach_the_next() -> None:
    class InPlace:
        op = torch.Tensor.add_

    sample = Sample(0, torch.ones(4), (torch.ones(4),))
    expected, elementwise = torch.full((4,), 2.0, dtype=torch.float64), rule("add", torch.float32)
    (result,) = sensitivity_of(InPlace, sample, expected, torch.float32, 0, elementwise)
    assert result is not None and torch.allclose(result, expected, rtol=1e-3)
