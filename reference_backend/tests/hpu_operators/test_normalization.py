"""Compare all softmax operators and RMS normalisation with independent formulas in float64."""

from __future__ import annotations

import math

import habana_frameworks.torch  # noqa: F401
import pytest
import torch
from torch.nn import functional

from .reference import assert_close_to_reference, float64_copies_with_grad
from .samples import E4M3, normal, number

hpu = torch.ops.hpu


def test_softmaxes() -> None:
    x, mask = normal(4, 5, 5), normal(4, 1, 5, seed=2)
    value = x.cpu().double()
    assert_close_to_reference(
        hpu.scaled_masked_softmax(x, mask, 0.5), functional.softmax(value * 0.5 + mask.cpu(), -1)
    )
    closed = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected = functional.softmax((value * 0.5).masked_fill(closed, -math.inf), -1)
    assert_close_to_reference(hpu.scaled_triangular_softmax(x, 0.5), expected)
    output, reciprocal, most = hpu.scaled_triangular_softmax_retain(x, 0.5)
    assert_close_to_reference(output, expected)
    assert_close_to_reference(hpu.scaled_triangular_softmax(x, 0.5, reciprocal, most), expected)
    bounds = torch.tensor([[0, 5], [2, 4]])
    output = hpu.scaled_masked_triangular_softmax(x, bounds.to("hpu"), 0.5, 2, True, 0, None).cpu().double()
    for batch in range(4):
        start, end = bounds[batch // 2].tolist()
        for row in range(5):
            columns = list(range(start, min(end, row + 1)))
            expected = torch.zeros(5, dtype=torch.float64)
            if columns:
                expected[columns] = functional.softmax(value[batch, row, columns] * 0.5, -1)
            assert_close_to_reference(output[batch, row], expected)
    ragged = hpu.ragged_softmax(x, 1, False, torch.tensor([2, 0, 5, 1], device="hpu")).cpu().double()
    for batch, count in enumerate((2, 0, 5, 1)):
        expected = torch.zeros(5, 5, dtype=torch.float64)
        expected[:count] = functional.softmax(value[batch, :count], 0)
        assert_close_to_reference(ragged[batch], expected)
    low = x.bfloat16()
    assert_close_to_reference(
        hpu.custom_softmax(low, 0), functional.softmax(low.cpu().double(), -1), 1e-2, 1e-3
    )
    output = hpu.softmax_fp8(low, -1, 0.5, 16.0, 0.25, x)
    assert output.dtype == E4M3
    expected = functional.softmax(low.cpu().double() * 0.125 + value, -1)
    assert_close_to_reference(output, expected * 16, 0.07, 1e-2)
    assert_close_to_reference(
        hpu.softmax_fp8(low, 2, None, None, number(0.25)),
        functional.softmax(low.cpu().double() * 0.25, -1),
        1e-2,
    )


def test_masked_rows_have_gradients_without_nan() -> None:
    x = normal(2, 5, 5).requires_grad_()
    bounds = torch.tensor([[3, 4]], device="hpu")
    hpu.scaled_masked_triangular_softmax(x, bounds, 1.0, 2, True, 0).square().sum().backward()
    assert bool(x.grad.cpu().isfinite().all())


@pytest.mark.parametrize("fast", [False, True])
def test_rms_norm_and_its_gradients(fast: bool) -> None:
    x, gamma, grad = normal(2, 3, 8), normal(8, seed=2), normal(2, 3, 8, seed=3)
    call, back = (
        (hpu.rms_norm_fast, hpu.rms_norm_fast_backward) if fast else (hpu.rms_norm, hpu.rms_norm_backward)
    )
    output, inverse = call(x, gamma, 1e-3)
    a, b = float64_copies_with_grad(x, gamma)
    expected = functional.rms_norm(a, (8,), b, 1e-3)
    assert_close_to_reference(output, expected.detach())
    for gradient, expected_gradient in zip(
        back(grad, x, gamma, inverse, True, 0),
        torch.autograd.grad(expected, (a, b), grad.cpu().double()),
        strict=True,
    ):
        assert_close_to_reference(gradient, expected_gradient)
    with pytest.raises(RuntimeError, match="bwd_mode is 2"):
        back(grad, x, gamma, inverse, True, 2)


def test_triangular_softmax_of_the_next_token() -> None:
    """A single row is the newest token, which attends to the columns ``start`` to ``end`` - 1."""
    x, bounds = normal(4, 1, 6), torch.tensor([[1, 5], [0, 3]])
    expected = torch.zeros(4, 1, 6, dtype=torch.float64)
    for row in range(4):
        start, end = bounds[row // 2].tolist()
        expected[row, 0, start:end] = (x[row, 0, start:end].cpu().double() * 0.5).softmax(0)
    for form in (bounds, bounds.flatten()):
        output = hpu.scaled_masked_triangular_softmax(x, form.to("hpu"), 0.5, 2, True, 0)
        assert_close_to_reference(output, expected)
