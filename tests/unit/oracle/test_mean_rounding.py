"""The sensitivity of a normalisation includes roundings of the means. These roundings have large effects if
the means are larger than the deviations.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from conformance.framework.tolerances import rule
from conformance.oracle.mean_rounding import sizes_of_scaled_means
from conformance.oracle.reference import Call, reference_for
from conformance.properties.overloads._references import overload_reference
from conformance.samples.operators import Sample
from conformance.subjects.overloads import overload_table
from conformance.subjects.torch_databases import find

F = torch.nn.functional
ZERO, ONE = torch.zeros(1), torch.ones(1)


def normal(*shape: int) -> torch.Tensor:
    """Return the same normally distributed numbers in every run."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def close_pair(step: int) -> torch.Tensor:
    """Return two numbers near 8.8 that differ by 0.067, as a batch of two with one channel."""
    return 8.8 + 0.0003 * step + torch.tensor([[0.0], [0.067]])


def kernel_with_factor_and_offset(x: torch.Tensor) -> torch.Tensor:
    """Normalise the columns of ``x`` in its dtype as ``x * factor + offset``, as many kernels do."""
    factor = (x.var(0, correction=0) + 1e-5).rsqrt()
    return x * factor - x.mean(0) * factor


def excess(result: torch.Tensor, x: torch.Tensor) -> float:
    """Return the largest error of a result of batch_norm, divided by the allowed error."""
    sample = Sample(0, x, (ZERO.to(x.dtype), ONE.to(x.dtype)), {"training": True})
    reference = reference_for(Call(find("operator", "nn.functional.batch_norm"), x.dtype, sample))
    (sensitivity,) = reference.sensitivity
    expected = reference.high_precision
    assert sensitivity is not None
    tolerance = reference.tolerance_rule.tolerance(x.dtype, elements=2)
    allowed = tolerance.allowed(expected.abs() + sensitivity)
    return float(((result.double() - expected).abs() / allowed).max())


def test_a_correct_kernel_is_within_the_tolerance_for_groups_of_two_close_elements() -> None:
    excesses = [excess(kernel_with_factor_and_offset(close_pair(i)), close_pair(i)) for i in range(100)]
    assert 0.1 < max(excesses) < 0.7


def test_a_kernel_that_rounds_the_mean_coarsely_is_rejected() -> None:
    def normalise(x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(0).to(torch.bfloat16).float()
        return (x - mean) * (x.var(0, correction=0) + 1e-5).rsqrt()

    assert min(excess(normalise(close_pair(i)), close_pair(i)) for i in (1, 7, 31)) > 10


def test_means_of_16_bit_inputs_are_not_rounded_to_16_bits() -> None:
    x = torch.tensor([[100.0], [104.0]], dtype=torch.bfloat16)
    exact = F.batch_norm(x.double(), None, None, training=True)
    assert excess(exact.to(torch.bfloat16), x) < 1
    # Half a unit of the mean in bfloat16 is 0.25, and the deviation is 2.
    assert excess((exact + 0.125).to(torch.bfloat16), x) > 1


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("batch_norm", (None, None), {"training": True}),
        ("layer_norm", ((5,),), {}),
        ("group_norm", (3,), {}),
        ("instance_norm", (), {}),
        ("native_batch_norm", (None, None, None, None, True, 0.1, 1e-5), {}),
        ("_native_batch_norm_legit.no_stats", (None, None, True, 0.1, 1e-5), {}),
        ("native_layer_norm", ([5], None, None, 1e-5), {}),
        ("native_group_norm", (None, None, 4, 6, 5, 3, 1e-5), {}),
    ],
)
def test_each_group_has_its_own_mean(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    function = getattr(F, name, None) or overload_table()[name].op
    x = normal(4, 6, 5)
    x[:, 2] += 1000  # the group of channel 2, or of channels 2 and 3
    sizes = sizes_of_scaled_means(function, Sample(0, x, args, kwargs))
    assert sizes is not None and sizes.shape == x.shape
    # A group of two channels, of which one is large, has a large deviation.
    least = 0.9 if "group" in name else 200
    assert float(sizes[:, 2].min()) > least and float(sizes[:, [0, 1, 4, 5]].max()) < 3
    weight = {"weight": torch.full((5 if name == "layer_norm" else 6,), -4.0)}
    if hasattr(F, name):
        weighted = sizes_of_scaled_means(function, Sample(0, x, args, kwargs | weight))
        assert weighted is not None and torch.allclose(weighted, 4 * sizes)


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
def test_calls_without_means_have_no_rounded_means(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    x = torch.empty(4, 0) if args == ((0,),) else normal(4, 6, 5) + 1000
    assert sizes_of_scaled_means(getattr(F, name), Sample(0, x, args, kwargs)) is None
    assert sizes_of_scaled_means(overload_table()["native_layer_norm_backward"].op, Sample(0, x)) is None


def test_an_overload_that_writes_its_statistics_has_rounded_means_too() -> None:
    arguments = (None, None, torch.zeros(1), torch.ones(1), True, 0.1, 1e-5)
    subject = find("overload", "_native_batch_norm_legit")
    reference = overload_reference(subject, "float32", Sample(0, close_pair(1), arguments))
    assert reference is not None
    sensitivity = reference.sensitivity[0]
    k = rule("nn.functional.batch_norm", torch.float32).k
    assert sensitivity is not None and float(sensitivity.min()) > 8.8 / 0.034 * 2 / k
