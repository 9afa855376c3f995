"""Digests of reference values ignore the last bits. The tolerance of ``torch.remainder`` covers the errors
that its documentation allows.
"""

from __future__ import annotations

import pytest
import torch

from conformance.framework.compare import excess_over_tolerance
from conformance.framework.tolerances import rule
from conformance.oracle import reference as oracle
from conformance.oracle.reference import Call, _round_coarsely
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import find as find_subject


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_digest_ignores_the_last_bits_and_detects_changes(dtype: torch.dtype) -> None:
    value = torch.linspace(-3, 2, 7, dtype=dtype)
    same = value * (1 + torch.finfo(dtype).eps)
    assert torch.equal(_round_coarsely(value), _round_coarsely(same))
    for changed in (value * torch.linspace(1, 1.1, 7, dtype=dtype), value.flip(0), value.clone().fill_(1.0)):
        assert not torch.equal(_round_coarsely(value), _round_coarsely(changed))
    for special in (float("nan"), float("inf"), -float("inf")):
        changed_value = value.clone()
        changed_value[3] = special
        assert not torch.equal(_round_coarsely(value), _round_coarsely(changed_value))


def test_a_digest_of_integers_is_exact() -> None:
    value = torch.arange(5)
    assert torch.equal(_round_coarsely(value), value)


def allowed_remainder_errors(dividend: list[float], divisor: list[float], dtype: torch.dtype) -> torch.Tensor:
    """Return the allowed error of each element of ``torch.remainder(dividend, divisor)``, divided by the
    dtype's machine epsilon.
    """
    subject = find_subject("operator", "remainder")
    sample = Sample(0, torch.tensor(dividend, dtype=dtype), (torch.tensor(divisor, dtype=dtype),), {})
    expected = oracle.reference_for(Call(subject, dtype, sample))
    (spread,) = expected.sensitivity
    assert spread is not None
    allowed = rule("remainder", dtype).tolerance(dtype).allowed(expected.high_precision.abs() + spread)
    return allowed / torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_tolerance_of_a_remainder_is_relative_to_its_dividend(dtype: torch.dtype) -> None:
    bounds = allowed_remainder_errors([7.5, -7.5, 0.3, 100.0], [2.0, 2.0, 0.5, 3.0], dtype)
    sizes = torch.tensor([7.5, 7.5, 0.3, 100.0], dtype=torch.float64)
    assert bool((bounds >= sizes).all()) and bool((bounds <= 7 * sizes).all()), bounds
    # 6 is a multiple of 2, so its remainder may be 0 or 2 after rounding. The tolerance of the other elements
    # must not change.
    with_jump = allowed_remainder_errors([7.5, -7.5, 0.3, 100.0, 6.0], [2.0, 2.0, 0.5, 3.0, 2.0], dtype)
    assert torch.equal(with_jump[:4], bounds)
    assert with_jump[4] * torch.finfo(dtype).eps >= 2.0


def test_the_documented_formula_of_remainder_is_within_its_bounds() -> None:
    generator = torch.Generator().manual_seed(3)
    a = torch.rand(20_000, generator=generator) * 200 - 100
    b = torch.rand(20_000, generator=generator) * 9 + 0.1
    allowed = allowed_remainder_errors(a.tolist(), b.tolist(), torch.float32) * torch.finfo(torch.float32).eps
    exact = torch.remainder(a.double(), b.double())
    assert bool(((a - (a / b).floor() * b - exact).abs() <= allowed).all())


@pytest.mark.parametrize("name", ["sum", "softmax.with_dtype"])
def test_a_requested_dtype_is_that_of_the_computation(name: str) -> None:
    """A kernel that computes in float32 and converts the result to float64 is outside the tolerance."""
    values = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    sample = Sample(0, values, (1,), {"dtype": torch.float64})
    reference = oracle.reference_for(Call(find_subject("operator", name), torch.float32, sample))
    assert reference.coarsest_dtype is torch.float64
    late = reference.subject.info.op(values, 1).double()
    excess = excess_over_tolerance(
        late,
        reference.high_precision,
        tolerance=reference.tolerance_rule.tolerance(
            torch.float64, reference.coarsest_dtype, elements=reference.elements
        ),
        sensitivity=reference.sensitivity[0],
    )
    assert excess.factor > 1000
