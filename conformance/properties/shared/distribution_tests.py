"""Test the values of random operators: their specified distributions, functions that draw many values, and
statistical tests.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.framework.compare import fact
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.subjects.torch_databases import Subject

DRAWN_COUNT = 4096
#: Bound on sqrt(n) times the Kolmogorov-Smirnov distance: a correct sampler exceeds it for one seed in 10**8.
KS_BOUND = 3.1

Sampler = Callable[[torch.device, torch.dtype], torch.Tensor]
Distribution = Callable[[torch.Tensor], torch.Tensor]


def _normal_cumulative_distribution(x: torch.Tensor) -> torch.Tensor:
    values: torch.Tensor = 0.5 * torch.special.erfc(-x / math.sqrt(2))
    return values


#: Random operators as torch defines them. In torch's database, a wrapper seeds the generator before a call.
UNSEEDED_OPERATORS: dict[str, Callable[..., Any]] = {
    "bernoulli": torch.bernoulli,
    "cauchy": torch.Tensor.cauchy_,
    "exponential": torch.Tensor.exponential_,
    "geometric": torch.Tensor.geometric_,
    "log_normal": torch.Tensor.log_normal_,
    "multinomial": torch.multinomial,
    "normal": torch.normal,
    "normal.in_place": torch.Tensor.normal_,
    "normal.number_mean": torch.normal,
    "rand_like": torch.rand_like,
    "randint": torch.randint,
    "randint_like": torch.randint_like,
    "randn": torch.randn,
    "randn_like": torch.randn_like,
    "uniform": torch.Tensor.uniform_,
    "nn.functional.alpha_dropout": torch.nn.functional.alpha_dropout,
    "nn.functional.dropout": torch.nn.functional.dropout,
    "nn.functional.dropout2d": torch.nn.functional.dropout2d,
    "nn.functional.dropout3d": torch.nn.functional.dropout3d,
    "nn.functional.feature_alpha_dropout.with_train": torch.nn.functional.feature_alpha_dropout,
    "nn.functional.fractional_max_pool2d": torch.nn.functional.fractional_max_pool2d,
    "nn.functional.fractional_max_pool3d": torch.nn.functional.fractional_max_pool3d,
}

#: Maps a continuous random operator to a function that draws many values with the operator, and to the
#: distribution function of these values.
CONTINUOUS: dict[str, tuple[Callable[[Any, torch.Tensor], Any], Distribution]] = {
    "uniform": (lambda op, x: op(x, -1.0, 3.0), lambda x: ((x + 1) / 4).clamp(0, 1)),
    "rand_like": (lambda op, x: op(x), lambda x: x.clamp(0, 1)),
    "randn_like": (lambda op, x: op(x), _normal_cumulative_distribution),
    "randn": (lambda op, x: op(*x.shape, dtype=x.dtype, device=x.device), _normal_cumulative_distribution),
    "normal": (
        lambda op, x: op(torch.full_like(x, 1.0), torch.full_like(x, 2.0)),
        lambda x: _normal_cumulative_distribution((x - 1) / 2),
    ),
    "normal.in_place": (
        lambda op, x: op(x, 1.0, 2.0),
        lambda x: _normal_cumulative_distribution((x - 1) / 2),
    ),
    "normal.number_mean": (
        lambda op, x: op(1.0, torch.full_like(x, 2.0)),
        lambda x: _normal_cumulative_distribution((x - 1) / 2),
    ),
    "exponential": (lambda op, x: op(x, 0.5), lambda x: 1 - torch.exp(-0.5 * x.clamp_min(0))),
    "cauchy": (lambda op, x: op(x, 0.5, 2.0), lambda x: torch.atan((x - 0.5) / 2) / math.pi + 0.5),
    "log_normal": (
        lambda op, x: op(x, 0.0, 0.25),
        lambda x: _normal_cumulative_distribution(torch.log(x.clamp_min(1e-300)) / 0.25),
    ),
}

#: Maps a discrete random operator to a function that draws many values with the operator, and to the expected
#: mean, variance, lower bound and upper bound of these values.
DISCRETE: dict[str, tuple[Callable[[Any, torch.Tensor], Any], float, float, float, float]] = {
    "bernoulli": (lambda op, x: op(torch.full_like(x, 0.3)), 0.3, 0.21, 0.0, 1.0),
    "geometric": (lambda op, x: op(x, 0.5), 2.0, 2.0, 1.0, 64.0),
    "randint": (lambda op, x: op(10, x.shape, dtype=x.dtype, device=x.device), 4.5, 8.25, 0.0, 9.0),
    "randint_like": (lambda op, x: op(x, 10), 4.5, 8.25, 0.0, 9.0),
    "multinomial": (
        lambda op, x: op(
            torch.full((4,), 1.0, dtype=x.dtype, device=x.device), DRAWN_COUNT, replacement=True
        ),
        1.5,
        1.25,
        0.0,
        3.0,
    ),
    "nn.functional.dropout": (
        lambda op, x: op(torch.full_like(x, 1.0), p=0.25, training=True),
        1.0,
        1 / 3,
        0.0,
        1.34,
    ),
}


def unseeded_random_operator(subject: Subject) -> Callable[..., Any]:
    """Return the operator without the seeding that torch's database adds.

    A test may set another operator as the attribute ``unseeded`` of ``subject.info``.
    """
    operator: Callable[..., Any] = getattr(subject.info, "unseeded", None) or UNSEEDED_OPERATORS[subject.name]
    return operator


@contextlib.contextmanager
def restoring_generators() -> Iterator[None]:
    """When the context ends, restore the host's generator and seed the device's generator with 0."""
    before = torch.default_generator.get_state()
    try:
        yield
    finally:
        torch.manual_seed(0)  # seeds the device; the next line restores the host's state
        torch.default_generator.set_state(before)


def check_kolmogorov_smirnov(recorder: Recorder, values: torch.Tensor, distribution: Distribution) -> None:
    """Compare the distribution function of values (float64, one dimension) with ``distribution``."""
    ordered = values.sort().values
    count = ordered.numel()
    above = torch.arange(1, count + 1, dtype=torch.float64) / count
    expected = distribution(ordered)
    distance = float(torch.maximum((above - expected).abs(), (above - 1 / count - expected).abs()).max())
    message = (
        f"the values do not follow the specified distribution: their distribution function is off by "
        f"{distance:.4f} for {count} values (allowed {KS_BOUND / math.sqrt(count):.4f})."
    )
    fact(recorder, distance <= KS_BOUND / math.sqrt(count), Kind.VALUE, message)


def check_moments(
    recorder: Recorder, values: torch.Tensor, mean: float, variance: float, low: float, high: float
) -> None:
    """Compare mean, variance and range of values (float64, one dimension) with the expected numbers."""
    average, allowed = float(values.mean()), 6 * math.sqrt(variance / values.numel())
    message = f"the mean of {values.numel()} values is {average:.4f}, expected {mean} ± {allowed:.4f}."
    fact(recorder, abs(average - mean) <= allowed, Kind.VALUE, message)
    inside = bool(((values >= low) & (values <= high)).all())
    fact(recorder, inside, Kind.VALUE, f"values lie outside of [{low}, {high}].")
    spread = float(values.var())
    message = f"the variance of {values.numel()} values is {spread:.4f}, expected about {variance:.4f}."
    fact(recorder, 0.5 * variance <= spread <= 2 * variance, Kind.VALUE, message)
