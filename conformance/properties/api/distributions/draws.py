"""Samples of single samplers: their ranges, generators, orders and distribution functions."""

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
from conformance.properties.api.random.values import COUNT, SIGMAS, distributed, normal_function


def integrated(
    log_density: Callable[[torch.Tensor], torch.Tensor], to: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a distribution function: the integral of a density over ``to`` of the open interval (0, 1)."""
    share = torch.linspace(0, 1, 40_001, dtype=torch.float64)[1:-1]
    places = to(share)
    density = log_density(places).exp()
    mass = torch.cumulative_trapezoid(density, places)
    mass = torch.cat((torch.zeros(1, dtype=torch.float64), mass)) / mass[-1]

    def function(x: torch.Tensor) -> torch.Tensor:
        after = torch.searchsorted(places, x.contiguous()).clamp(1, len(places) - 1)
        left, right = places[after - 1], places[after]
        part = ((x - left) / (right - left)).clamp(0, 1)
        return mass[after - 1] + part * (mass[after] - mass[after - 1])

    return function


@behaviour("distributions", sees=())
def samples_of_heavy_tails(lab: Lab) -> None:
    """Samples of Student's, Fisher's and logistic normal distributions have the integrals of their densities
    as distribution functions.
    """

    def put(number: float) -> torch.Tensor:
        return lab.put(number, dtype=torch.float64)

    for freedom, place, scale in ((3.0, 0.0, 1.0), (8.0, -1.0, 2.5)):
        drawn = D.StudentT(put(freedom), put(place), put(scale)).sample((COUNT,))
        host = D.StudentT(torch.tensor(freedom, dtype=torch.float64))
        function = integrated(host.log_prob, lambda share: torch.tan((share - 0.5) * math.pi))
        distributed(lab, f"StudentT({freedom})", (drawn - place) / scale, function)
    for first, second in ((3.0, 6.0), (8.0, 4.0)):
        drawn = D.FisherSnedecor(put(first), put(second)).sample((COUNT,))
        degrees = [torch.tensor(number, dtype=torch.float64) for number in (first, second)]
        function = integrated(
            D.FisherSnedecor(degrees[0], degrees[1]).log_prob, lambda share: share / (1 - share)
        )
        distributed(lab, f"FisherSnedecor({first}, {second})", drawn, function)
    logistic = D.LogisticNormal(
        lab.put([0.5, -1.0], dtype=torch.float64), lab.put([1.0, 2.0], dtype=torch.float64)
    )
    lengths = logistic.base_dist.base_dist.event_shape
    back = D.StickBreakingTransform().inv(logistic.sample((COUNT,)))
    lab.same("base of logistic normal", lengths)
    for number, (mean, scale) in enumerate(((0.5, 1.0), (-1.0, 2.0))):
        distributed(lab, f"LogisticNormal {number}", back[:, number], normal_function(mean, scale))


@behaviour("distributions", dtypes=("float32", "float64"), sees=())
def counts_of_binomial(lab: Lab) -> None:
    """Binomial samples are whole numbers between zero and the number of trials, with their
    mean.
    """
    for trials, chance in itertools.product((1.0, 20.0), (0.0, 0.01, 0.25, 0.5, 0.9, 1.0)):
        name = f"{trials:g} trials of {chance}"
        drawn = D.Binomial(
            lab.put(trials, dtype=lab.dtype), lab.put(chance, dtype=lab.dtype), validate_args=False
        ).sample((COUNT,))
        lab.same(f"dtype and shape, {name}", [drawn.dtype, drawn.shape])
        whole = drawn.double()
        inside = (whole >= 0) & (whole <= trials) & (whole == whole.round())
        lab.holds(f"counts, {name}", bool(inside.all()))
        allowed = SIGMAS * math.sqrt(trials * chance * (1 - chance) / COUNT) + 1e-6
        lab.holds(f"mean, {name}", abs(float(whole.mean()) - trials * chance) <= allowed)
    # Many trials with a small chance go through another sampler, which may not leave the range either.
    rare = torch.binomial(
        torch.full((COUNT,), 1000.0, device=lab.device, dtype=lab.dtype),
        torch.full((COUNT,), 0.00125, device=lab.device, dtype=lab.dtype),
    )
    lab.holds("rare events are not negative", bool((rare >= 0).all()))


@behaviour("distributions", capabilities=("generator",), sees=())
def samplers_with_generators(lab: Lab) -> None:
    """Gamma, Poisson and binomial samplers draw from the generator that they are given, and leave the default
    one alone.
    """
    rate, chance = torch.full((50,), 2.5, device=lab.device), torch.full((50,), 0.4, device=lab.device)
    samplers: dict[str, Callable[[torch.Generator | None], torch.Tensor]] = {
        "gamma": lambda generator: torch._standard_gamma(rate, generator=generator),
        "poisson": lambda generator: torch.poisson(rate, generator=generator),
        "binomial": lambda generator: torch.binomial(rate.round() + 8, chance, generator=generator),
    }
    for name, sample in samplers.items():
        generator = torch.Generator(lab.device)
        torch.manual_seed(5)
        undisturbed = sample(None)
        torch.manual_seed(5)
        first = sample(generator.manual_seed(7))
        default = sample(None)
        lab.holds(f"{name} repeats for a seed", torch.equal(sample(generator.manual_seed(7)), first))
        lab.holds(f"{name} goes on", not torch.equal(sample(generator), first))
        lab.holds(f"{name} leaves the default generator", torch.equal(default, undisturbed))


@behaviour("distributions", sees=())
def orders_without_repetition(lab: Lab) -> None:
    """Drawing all of equally likely categories without replacement gives orders, each as likely as the
    others.
    """
    weights = torch.ones(26, device=lab.device)
    orders = torch.stack([torch.multinomial(weights, 26) for _ in range(200)])
    lab.holds(
        "each category once", bool((orders.sort(-1).values == torch.arange(26, device=lab.device)).all())
    )
    lab.holds("no order twice", len({tuple(order) for order in orders.tolist()}) == 200)
    few = torch.multinomial(torch.ones(COUNT, 3, device=lab.device), 3)
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        share = float((few == lab.put(order)).all(-1).double().mean())
        lab.holds(f"{order} as often as it should", abs(share - 1 / 6) <= SIGMAS * 0.5 / math.sqrt(COUNT))


@behaviour("distributions", capabilities=("forward_ad",), sees=("value",))
def tangents_of_poisson(lab: Lab) -> None:
    """Counts of torch.poisson do not depend on their rate smoothly: their tangent is zero."""
    rate, tangent = lab.floats(6, low=1.0, high=5.0), lab.floats(6)
    with forward_ad.dual_level():
        drawn = torch.poisson(forward_ad.make_dual(rate, tangent))
        shown = forward_ad.unpack_dual(drawn).tangent
    lab.expect("tangent", torch.zeros_like(rate) if shown is None else shown, [0.0] * 6)


@behaviour("distributions", sees=("value",))
def generalized_pareto(lab: Lab) -> None:
    """GeneralizedPareto has the density, distribution function, inverse and moments of its definition, and
    samples of them.
    """
    kind: Any = getattr(D, "GeneralizedPareto", None)
    if kind is None:
        lab.holds("this torch has no such distribution", True)
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
        single = kind(*(getattr(dist, word).cpu() for word in ("loc", "scale", "concentration")))
        distributed(
            lab,
            f"GeneralizedPareto({concentration})",
            dist.sample((COUNT,)),
            lambda x: single.cdf(x.float()).double(),
        )
