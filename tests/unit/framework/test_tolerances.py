"""``framework.tolerances`` selects the tolerance rule of an operator and computes the allowed error."""

from __future__ import annotations

import pytest
import torch

from conformance.framework.tolerances import rule


@pytest.mark.parametrize(
    ("operator", "name"), [("__rmatmul__", "matrix"), ("matmul", "matrix"), ("__radd__", "elementwise")]
)
def test_reflected_operators_have_the_tolerance_rule_of_their_operator(operator: str, name: str) -> None:
    assert rule(operator, torch.float32).name == name


def test_the_tolerance_of_a_low_precision_sum_is_below_its_values() -> None:
    summed = rule("sum", torch.bfloat16)
    assert summed.growth == "sqrt"
    for dtype in (torch.bfloat16, torch.float16):
        bounds = [summed.tolerance(dtype, elements=count).relative for count in (64, 4096, 1 << 20)]
        assert bounds[0] < bounds[1] < bounds[2] < 0.5
    wide = [summed.tolerance(torch.float32, elements=count).relative for count in (64, 64 << 10)]
    assert wide[1] == pytest.approx(32 * wide[0])


def test_nothing_is_computed_in_float8() -> None:
    product = rule("torch._scaled_mm", torch.float8_e4m3fn)
    half = product.tolerance(torch.float16, elements=1024).relative
    rounded = product.tolerance(torch.float8_e4m3fn, elements=1024).relative
    assert rounded == pytest.approx(half + torch.finfo(torch.float8_e4m3fn).eps)
    assert product.tolerance(torch.float16, torch.float8_e4m3fn, elements=1024).relative == half
