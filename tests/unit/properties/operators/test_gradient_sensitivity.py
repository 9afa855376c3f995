"""The sensitivity of second derivatives is measured by perturbing the inputs. Some second derivatives change
by thousands of units if an input changes by one unit.
"""

from __future__ import annotations

import pytest
import torch

from conformance.properties.operators import _gradient_sensitivity, _gradients
from conformance.samples.copies import to_host
from conformance.samples.operators import samples_of
from conformance.subjects.torch_databases import find

STEP = 2.0**-53


@pytest.mark.parametrize(("name", "sample", "least", "most"), [
    ("linalg.householder_product", 2, 1e4, 1e9),
    ("sin", 0, 0.01, 100.0),
])  # fmt: skip
def test_second_derivatives_move_with_their_inputs(name: str, sample: int, least: float, most: float) -> None:
    info = find("operator", name).info
    chosen = samples_of(find("operator", name), torch.float64, requires_grad=True)[sample]
    base = _gradients.second_derivatives(info, info.op, to_host(chosen))

    def derivative_with_perturbed_inputs(seed: int) -> _gradients.Derivative:
        moved_sample = to_host(chosen)
        _gradient_sensitivity.perturb_inputs(moved_sample, STEP, seed)
        return _gradients.second_derivatives(info, info.op, moved_sample)

    spreads = _gradient_sensitivity.gradient_sensitivities(base, derivative_with_perturbed_inputs, STEP)
    ratios = [
        float(spread.max()) / _gradients.largest_magnitude(gradient)
        for spread, gradient in zip(spreads, base.gradients, strict=True)
        if spread is not None and gradient is not None
    ]
    assert least < max(ratios) < most


def test_the_original_sample_is_not_perturbed() -> None:
    chosen = samples_of(find("operator", "sin"), torch.float64, requires_grad=True)[0]
    moved_sample = to_host(chosen)
    _gradient_sensitivity.perturb_inputs(moved_sample, STEP, 5)
    assert not torch.equal(moved_sample.input, chosen.input)


def test_a_gradient_that_jumps_has_no_sensitivity() -> None:
    base = _gradients.Derivative(
        [], [], [], [torch.tensor([1.0, 0.5]).double(), torch.tensor([2.0]).double()]
    )
    jumped = _gradients.Derivative(
        [], [], [], [torch.tensor([1.0, 1.5]), torch.tensor([2.0 + 2.0**-40], dtype=torch.float64)]
    )
    spreads = _gradient_sensitivity.gradient_sensitivities(base, lambda seed: jumped, STEP)
    first, second = _gradient_sensitivity.without_jumps(spreads, base)
    assert first is None and second is not None
