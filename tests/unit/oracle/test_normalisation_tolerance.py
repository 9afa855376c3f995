"""The tolerance of a normalisation allows roundings of the means. They have large effects if the means are
larger than the deviations.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from conformance.framework.tolerances import rule
from conformance.oracle.normalisation_tolerance import parameter_names, with_rounded_means
from conformance.oracle.overload_tolerance import rule_of_overload
from conformance.oracle.reference import rule_of_operator
from conformance.samples.operators import Sample
from conformance.subjects.overloads import overload_table
from conformance.subjects.torch_databases import find

F = torch.nn.functional
ZERO, ONE = torch.zeros(1), torch.ones(1)


def normal(*shape: int) -> torch.Tensor:
    """Return the same normally distributed numbers in every run."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def kernel_with_factor_and_offset(x: torch.Tensor) -> torch.Tensor:
    """Normalise the columns of ``x`` in its dtype as ``x * factor + offset``, as many kernels do."""
    factor = (x.var(0, correction=0) + 1e-5).rsqrt()
    return x * factor - x.mean(0) * factor


def test_a_correct_kernel_is_within_the_tolerance_for_groups_of_two_close_elements() -> None:
    dtype, batch_norm = torch.float32, find("operator", "nn.functional.batch_norm")
    excesses = {True: 0.0, False: 0.0}
    for step in range(200):
        x = 8.8 + 0.0003 * step + torch.tensor([[0.0], [0.067]])
        exact = F.batch_norm(x.double(), ZERO.double(), ONE.double(), training=True)
        adapted = rule_of_operator(batch_norm, dtype, Sample(0, x, (ZERO, ONE), {"training": True}))
        error = (kernel_with_factor_and_offset(x).double() - exact).abs().max()
        for is_adapted, tolerance_rule in ((True, adapted), (False, rule(batch_norm.name, dtype))):
            allowed = tolerance_rule.tolerance(dtype, elements=2).allowed(exact.abs()).max()
            excesses[is_adapted] = max(excesses[is_adapted], float(error / allowed))
    # Without the change of the scale this kernel would fail.
    assert excesses[True] < 0.5 and excesses[False] > 1


@pytest.mark.parametrize(
    ("name", "input", "args", "kwargs"),
    [
        ("batch_norm", normal(4, 3, 5), (torch.zeros(3), torch.ones(3)), {"training": True}),
        ("layer_norm", normal(4, 6), ((6,),), {}),
        ("group_norm", normal(4, 6, 5), (3,), {}),
        ("instance_norm", normal(4, 6, 5), (), {}),
    ],
)
def test_only_means_that_are_large_compared_with_the_deviations_change_the_scale(
    name: str, input: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    subject = find("operator", f"nn.functional.{name}")
    assert rule_of_operator(subject, torch.float32, Sample(0, input, args, kwargs)).scale == 1
    shifted = rule_of_operator(subject, torch.float32, Sample(0, input + 1000, args, kwargs))
    # A mean of 1000, deviations from 0.2 to 2, and 2 units of 16.
    assert 60 < shifted.scale < 700
    weight = {"weight": torch.full((6 if name != "batch_norm" else 3,), 4.0)}
    weighted = rule_of_operator(subject, torch.float32, Sample(0, input + 1000, args, kwargs | weight))
    assert weighted.scale == pytest.approx(4 * shifted.scale)


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("batch_norm", (torch.full((6,), 1000.0), torch.ones(6)), {}),
        ("instance_norm", (torch.zeros(6), torch.ones(6)), {"use_input_stats": False}),
        ("rms_norm", ((5,),), {}),
        ("local_response_norm", (3,), {}),
        ("layer_norm", ((0,),), {}),
    ],
)
def test_calls_without_means_keep_the_rule(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    x = torch.empty(4, 0) if args == ((0,),) else normal(4, 6, 5) + 1000
    before = rule(f"nn.functional.{name}", torch.float32)
    assert with_rounded_means(before, parameter_names(getattr(F, name)), Sample(0, x, args, kwargs)) == before


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("native_batch_norm", (None, None, None, None, True, 0.1, 1e-5)),
        ("_native_batch_norm_legit.no_stats", (None, None, True, 0.1, 1e-5)),
        ("native_layer_norm", ([5], None, None, 1e-5)),
        ("native_group_norm", (None, None, 4, 6, 5, 3, 1e-5)),
    ],
)
def test_overloads_have_the_same_scale(name: str, args: tuple[Any, ...]) -> None:
    overload = overload_table()[name]
    sample = Sample(0, normal(4, 6, 5) + 1000, args)
    assert rule_of_overload(name, overload, torch.float32, sample).scale > 60
    sample = Sample(0, normal(4, 6, 5), args)
    assert rule_of_overload(name, overload, torch.float32, sample).scale < 2
