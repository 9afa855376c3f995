"""Inputs whose results documentation leaves free."""

from __future__ import annotations

import math

import torch
from torch.testing._internal.opinfo.core import SampleInput

from conformance.samples.defined_inputs import documented


def test_nan_stays_where_its_result_is_documented() -> None:
    made = [SampleInput(torch.tensor([math.nan, 2.0]), args=(torch.tensor([1.0, math.nan]),))]
    assert documented("maximum", made) is made
    (changed,) = documented("hypot", made)
    assert changed.input.tolist() == [1.0, 2.0]
    assert changed.args[0].tolist() == [1.0, 1.0]
    assert made[0].input.isnan().any()


def test_gradients_stay_asked_for() -> None:
    made = [SampleInput(torch.tensor([math.nan], requires_grad=True))]
    (changed,) = documented("nn.functional.hardshrink", made)
    assert changed.input.requires_grad
    assert changed.input.is_leaf


def test_drivers_of_the_cpu_alone_are_left_out() -> None:
    matrix = torch.eye(2)
    made = [
        SampleInput(matrix, args=(matrix,), kwargs={"driver": driver}) for driver in ("gels", "gelsd", None)
    ]
    assert [one.kwargs["driver"] for one in documented("linalg.lstsq", made)] == ["gels", None]
