"""Behaviours of single random samplers: ranges, generators, permutations and distribution functions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import distributions as D
from torch.autograd import forward_ad

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.random.values import (
    SAMPLE_COUNT,
    SIGMAS,
    check_cumulative_distribution,
    normal_cumulative_distribution,
)


def cumulative_distribution_of(
    log_density: Callable[[torch.Tensor], torch.Tensor], point_at: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the cumulative distribution function of a density, computed by numerical integration.

    ``point_at`` maps the open interval (0, 1) to the support of the density.
    """
    share = torch.linspace(0, 1, 40_001, dtype=torch.float64)[1:-1]
    points = point_at(share)
    density = log_density(points).exp()
    mass = torch.cumulative_trapezoid(density, points)
    mass = torch.cat((torch.zeros(1, dtype=torch.float64), mass)) / mass[-1]

    def interpolated_probability(x: torch.Tensor) -> torch.Tensor:
        upper = torch.searchsorted(points, x.contiguous()).clamp(1, len(points) - 1)
        low, high = points[upper - 1], points[upper]
        fraction = ((x - low) / (high - low)).clamp(0, 1)
        return mass[upper - 1] + fraction * (mass[upper] - mass[upper - 1])

    return interpolated_probability


@behaviour("distributions", must_detect=())
def samples_of_heavy_tails(lab: Lab) -> None:
    """Samples of StudentT, FisherSnedecor and LogisticNormal follow the cumulative distribution functions of
    their densities.
    """

    def float64_on_device(number: float) -> torch.Tensor:
        return lab.put(number, dtype=torch.float64)

    for freedom, location, scale in ((3.0, 0.0, 1.0), (8.0, -1.0, 2.5)):
        drawn = D.StudentT(
            float64_on_device(freedom), float64_on_device(location), float64_on_device(scale)
        ).sample((SAMPLE_COUNT,))
        host = D.StudentT(torch.tensor(freedom, dtype=torch.float64))
        function = cumulative_distribution_of(host.log_prob, lambda share: torch.tan((share - 0.5) * math.pi))
        check_cumulative_distribution(lab, f"StudentT({freedom})", (drawn - location) / scale, function)
    for first, second in ((3.0, 6.0), (8.0, 4.0)):
        drawn = D.FisherSnedecor(float64_on_device(first), float64_on_device(second)).sample((SAMPLE_COUNT,))
        degrees = [torch.tensor(number, dtype=torch.float64) for number in (first, second)]
        function = cumulative_distribution_of(
            D.FisherSnedecor(degrees[0], degrees[1]).log_prob, lambda share: share / (1 - share)
        )
        check_cumulative_distribution(lab, f"FisherSnedecor({first}, {second})", drawn, function)
    logistic = D.LogisticNormal(
        lab.put([0.5, -1.0], dtype=torch.float64), lab.put([1.0, 2.0], dtype=torch.float64)
    )
    lengths = logistic.base_dist.base_dist.event_shape
    back = D.StickBreakingTransform().inv(logistic.sample((SAMPLE_COUNT,)))
    with lab.parity("No page describes the attribute base_dist of LogisticNormal"):
        lab.same("base of logistic normal", lengths)
    for number, (mean, scale) in enumerate(((0.5, 1.0), (-1.0, 2.0))):
        check_cumulative_distribution(
            lab, f"LogisticNormal {number}", back[:, number], normal_cumulative_distribution(mean, scale)
        )


@behaviour("distributions", dtypes=("float32", "float64"), must_detect=())
def counts_of_binomial(lab: Lab) -> None:
    """Binomial samples are whole numbers from zero to the number of trials. Their mean is close to the mean
    of the distribution.
    """
    for trials, chance in itertools.product((1.0, 20.0), (0.0, 0.01, 0.25, 0.5, 0.9, 1.0)):
        name = f"{trials:g} trials of {chance}"
        drawn = D.Binomial(
            lab.put(trials, dtype=lab.dtype), lab.put(chance, dtype=lab.dtype), validate_args=False
        ).sample((SAMPLE_COUNT,))
        lab.same(f"dtype and shape, {name}", [drawn.dtype, drawn.shape])
        whole = drawn.double()
        inside = (whole >= 0) & (whole <= trials) & (whole == whole.round())
        lab.holds(f"counts, {name}", bool(inside.all()))
        allowed = SIGMAS * math.sqrt(trials * chance * (1 - chance) / SAMPLE_COUNT) + 1e-6
        lab.holds(f"mean, {name}", abs(float(whole.mean()) - trials * chance) <= allowed)
    # Torch uses a different sampler for many trials with a small probability. The samples of this sampler
    # must not be negative either.
    rare = torch.binomial(
        torch.full((SAMPLE_COUNT,), 1000.0, device=lab.device, dtype=lab.dtype),
        torch.full((SAMPLE_COUNT,), 0.00125, device=lab.device, dtype=lab.dtype),
    )
    with lab.parity("No page describes torch.binomial"):
        lab.holds("samples of rare events are not negative", bool((rare >= 0).all()))


@behaviour(
    "distributions",
    capabilities=("generator",),
    must_detect=(),
    page="generated/torch.poisson.html",
    basis="consistency",
    ground=(
        "The same seed must give the same draws, and the default generator must be unchanged after the call"
    ),
)
def samplers_with_generators(lab: Lab) -> None:
    """Gamma, Poisson and binomial samplers draw from the generator that they receive. The default generator
    is not changed.
    """
    rate, chance = torch.full((50,), 2.5, device=lab.device), torch.full((50,), 0.4, device=lab.device)
    samplers: dict[str, Callable[[torch.Generator | None], torch.Tensor]] = {
        "poisson": lambda generator: torch.poisson(rate, generator=generator),
        "gamma": lambda generator: torch._standard_gamma(rate, generator=generator),
        "binomial": lambda generator: torch.binomial(rate.round() + 8, chance, generator=generator),
    }
    for name, sample in samplers.items():
        generator = torch.Generator(lab.device)
        if name != "poisson":
            with lab.parity("No page describes torch._standard_gamma and torch.binomial"):
                lab.same(f"shape of {name}", sample(generator).shape)
        torch.manual_seed(5)
        undisturbed = sample(None)
        torch.manual_seed(5)
        first = sample(generator.manual_seed(7))
        default = sample(None)
        lab.holds(f"{name} repeats for a seed", torch.equal(sample(generator.manual_seed(7)), first))
        with lab.parity("No page says that two successive draws differ"):
            lab.holds(f"{name} goes on", not torch.equal(sample(generator), first))
        lab.holds(f"{name} does not change the default generator", torch.equal(default, undisturbed))


@behaviour(
    "distributions",
    must_detect=(),
    page="generated/torch.multinomial.html",
    ground=("an example draws all categories of nonzero weight, though a note requires fewer draws"),
)
def orders_without_repetition(lab: Lab) -> None:
    """``multinomial`` without replacement returns a permutation if it draws all categories. If the categories
    are equally likely, so are the permutations.
    """
    weights = torch.ones(26, device=lab.device)
    orders = torch.stack([torch.multinomial(weights, 26) for _ in range(200)])
    lab.holds(
        "each category once", bool((orders.sort(-1).values == torch.arange(26, device=lab.device)).all())
    )
    lab.holds("no order twice", len({tuple(order) for order in orders.tolist()}) == 200)
    few = torch.multinomial(torch.ones(SAMPLE_COUNT, 3, device=lab.device), 3)
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        share = float((few == lab.put(order)).all(-1).double().mean())
        lab.holds(
            f"{order} occurs in a sixth of the samples",
            abs(share - 1 / 6) <= SIGMAS * 0.5 / math.sqrt(SAMPLE_COUNT),
        )


@behaviour(
    "distributions",
    capabilities=("forward_ad",),
    must_detect=("value",),
    page="generated/torch.poisson.html",
    basis="parity",
    ground="No page says which tangent a Poisson sample has",
)
def tangents_of_poisson(lab: Lab) -> None:
    """The tangent of a ``torch.poisson`` sample is zero, because a count does not depend smoothly on
    the rate.
    """
    rate, tangent = lab.floats(6, low=1.0, high=5.0), lab.floats(6)
    with forward_ad.dual_level():
        drawn = torch.poisson(forward_ad.make_dual(rate, tangent))
        drawn_tangent = forward_ad.unpack_dual(drawn).tangent
    lab.expect("tangent", torch.zeros_like(rate) if drawn_tangent is None else drawn_tangent, [0.0] * 6)


@behaviour(
    "distributions",
    must_detect=("value",),
    ground="The page names the distribution and its parameters; the formulas follow from its definition",
)
def generalized_pareto(lab: Lab) -> None:
    """GeneralizedPareto has the density, cumulative distribution function, inverse and moments of its
    definition. Its samples follow this distribution function.
    """
    kind: Any = getattr(D, "GeneralizedPareto", None)
    if kind is None:
        lab.holds("this release of torch has no GeneralizedPareto", True)
        return
    for concentration in (0.0, 0.25, -0.5):
        dist = kind(
            lab.put(1.0),
            lab.put(2.0),
            lab.put(concentration),
        )
        inner = [(x - 1.0) / 2.0 for x in (1.5, 2.0, 4.0)]
        if concentration:
            survival = [(1 + concentration * z) ** (-1 / concentration) for z in inner]
            density = [(1 + concentration * z) ** (-1 / concentration - 1) / 2 for z in inner]
        else:
            survival = [math.exp(-z) for z in inner]
            density = [math.exp(-z) / 2 for z in inner]
        at = lab.put([1.5, 2.0, 4.0])
        lab.expect(
            f"log_prob {concentration}", dist.log_prob(at), [math.log(d) for d in density], roundings=512
        )
        lab.expect(f"cdf {concentration}", dist.cdf(at), [1 - s for s in survival], roundings=512)
        lab.expect(f"icdf {concentration}", dist.icdf(dist.cdf(at)), at.cpu(), roundings=4096)
        lab.expect(f"mean {concentration}", dist.mean, 1 + 2 / (1 - concentration), roundings=64)
        variance = 4 / ((1 - concentration) ** 2 * (1 - 2 * concentration))
        lab.expect(f"variance {concentration}", dist.variance, variance, roundings=64)
        lab.same(f"shapes {concentration}", [dist.batch_shape, dist.expand((3,)).sample((2,)).shape])
        single = kind(*(getattr(dist, parameter).cpu() for parameter in ("loc", "scale", "concentration")))
        check_cumulative_distribution(
            lab,
            f"GeneralizedPareto({concentration})",
            dist.sample((SAMPLE_COUNT,)),
            lambda x: single.cdf(x.float()).double(),
        )
