"""Behaviours of ``torch.distributions`` samples: shapes, moments, gradients and support."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import distributions as D

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.distributions.scores import (
    SCALAR_DISTRIBUTIONS,
    make_distribution,
    none_if_not_implemented,
)
from conformance.properties.api.random.values import (
    SAMPLE_COUNT,
    SIGMAS,
    check_cumulative_distribution,
    check_mean,
)

#: Distributions with an infinite or undefined variance. The error of their sample mean has no bound.
WITHOUT_VARIANCE = ("Cauchy", "HalfCauchy", "FisherSnedecor", "Pareto")

#: The number of samples of each vector distribution. It is small because drawing vectors takes longer than
#: drawing scalars.
VECTOR_SAMPLES = 600


def vector_distributions(lab: Lab) -> dict[str, Any]:
    """Return distributions of vectors and matrices by name. Their parameters are float64 tensors on the
    device.
    """

    def float64_on_device(numbers: Any) -> torch.Tensor:
        return lab.put(numbers, dtype=torch.float64)

    chances = float64_on_device([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]])
    covariance = float64_on_device([[2.0, 0.5], [0.5, 1.0]])
    return {
        "Categorical": D.Categorical(chances),
        "OneHotCategorical": D.OneHotCategorical(chances),
        "OneHotCategoricalStraightThrough": D.OneHotCategoricalStraightThrough(chances),
        "Multinomial": D.Multinomial(10, chances),
        "Dirichlet": D.Dirichlet(float64_on_device([[0.5, 1.0, 2.0], [3.0, 3.0, 1.0]])),
        "MultivariateNormal": D.MultivariateNormal(float64_on_device([1.0, -1.0]), covariance),
        "LowRankMultivariateNormal": D.LowRankMultivariateNormal(
            float64_on_device([1.0, -1.0]), float64_on_device([[1.0], [0.5]]), float64_on_device([1.0, 0.75])
        ),
        "LogisticNormal": D.LogisticNormal(float64_on_device([0.0, 0.5]), float64_on_device([1.0, 0.5])),
        "RelaxedOneHotCategorical": D.RelaxedOneHotCategorical(float64_on_device(0.5), chances),
        "RelaxedBernoulli": D.RelaxedBernoulli(float64_on_device(0.5), float64_on_device([0.2, 0.7])),
        "Wishart": D.Wishart(float64_on_device(4.0), covariance),
        "LKJCholesky": D.LKJCholesky(3, float64_on_device(1.5)),
        "VonMises": D.VonMises(float64_on_device([0.0, 1.0]), float64_on_device([1.0, 4.0])),
        "MixtureSameFamily": D.MixtureSameFamily(
            D.Categorical(float64_on_device([0.3, 0.7])),
            D.Normal(float64_on_device([0.0, 4.0]), float64_on_device([1.0, 0.5])),
        ),
        "Independent": D.Independent(
            D.Normal(float64_on_device([[0.0, 1.0]] * 3), float64_on_device(1.0)), 1
        ),
        "TransformedDistribution": D.TransformedDistribution(
            D.Normal(float64_on_device([0.0, 1.0]), float64_on_device(1.0)), [D.ExpTransform()]
        ),
    }


def has_variance(sample: torch.Tensor, variance: torch.Tensor) -> bool:
    """Return whether samples along the first dimension have the given variance.

    The allowed error follows from the fourth moment of the samples.
    """
    centred = sample.double() - sample.double().mean(0)
    error = ((centred**2).mean(0) - variance).abs()
    allowed = SIGMAS * ((centred**4).mean(0) / sample.size(0)).sqrt() + 1e-9
    return bool((error <= allowed).all())


@behaviour("distributions", level="training", must_detect=("shape",))
def sample_shapes(lab: Lab) -> None:
    """``sample`` returns a detached tensor of shape ``sample_shape + batch_shape + event_shape``, on the
    device of the parameters. The values are in the support. ``expand`` enlarges the batch.
    """
    every = {name: make_distribution(lab, name)[0] for name in SCALAR_DISTRIBUTIONS} | vector_distributions(
        lab
    )
    for name, dist in every.items():
        for shape in ((), (2, 3)):
            sample = dist.sample(shape)
            lab.holds(
                f"samples of {name} {shape} have the documented shape",
                sample.shape == torch.Size(shape) + dist.batch_shape + dist.event_shape,
            )
            lab.holds(f"samples of {name} {shape} are in the support", bool(dist.support.check(sample).all()))
            scores = dist.log_prob(sample)
            lab.holds(
                f"log_prob of {name} {shape} has the documented shape",
                scores.shape == torch.Size(shape) + dist.batch_shape,
            )
        lab.same(
            f"dtype, flag and device of a sample of {name}",
            [sample.dtype, sample.requires_grad, sample.device.type == lab.device.type],
        )
        wide = dist.expand(torch.Size((5, *dist.batch_shape)))
        drawn = wide.sample()
        lab.holds(
            f"samples of an expanded {name} have its shape",
            drawn.shape == torch.Size((5,)) + dist.batch_shape + dist.event_shape,
        )
        with lab.parity("The page promises a new distribution, not the type of the original"):
            lab.holds(
                f"an expanded {name} keeps its class", type(wide) is type(dist) and wide.batch_shape[0] == 5
            )
        lab.holds(
            f"an expanded {name} has the same log_prob",
            torch.allclose(wide.log_prob(drawn), dist.log_prob(drawn), equal_nan=True),
        )
        lab.holds(f"the support of {name} has its event_dim", dist.support.event_dim == len(dist.event_shape))
        for ndims in range(len(dist.batch_shape) + 1):
            whole = D.Independent(dist, ndims)
            scores = whole.log_prob(dist.sample())
            lab.same(
                f"{name} with {ndims} dimensions of one event",
                [scores.shape, whole.event_shape, whole.has_rsample],
            )
    for name, (kind, parameters, _, _) in SCALAR_DISTRIBUTIONS.items():
        single = kind(**{parameter: lab.put(float(numbers[0])) for parameter, numbers in parameters.items()})
        lab.same(
            f"shapes of a single {name}", [single.batch_shape, single.event_shape, single.sample().shape]
        )
        drawn = single.sample((3, 2))
        lab.same(f"shapes of several samples of a single {name}", [drawn.shape, single.log_prob(drawn).shape])
    lab.same("parameters that broadcast", D.Normal(lab.floats(3, 1), lab.floats(4, low=0.5)).sample().shape)
    lab.same("a number and a tensor as parameters", D.Gamma(lab.floats(2, low=0.5), 1.0).sample((3,)).shape)
    with lab.parity("No page says that parameters that do not broadcast are refused"):
        lab.raises(
            "parameters that do not",
            lambda: D.Normal(lab.floats(3), lab.floats(4, low=0.5)),
            RuntimeError,
            ValueError,
        )
    lab.same(
        "scores that broadcast",
        D.HalfNormal(torch.ones(2, 1, 4, device=lab.device))
        .log_prob(torch.ones(3, 1, device=lab.device))
        .shape,
    )


@behaviour("distributions", level="training", must_detect=())
def sample_moments(lab: Lab) -> None:
    """Samples have the mean and variance of their distribution. If the distribution has a cumulative
    distribution function, the samples follow this function. Discrete values occur with their probabilities.
    """
    for name in SCALAR_DISTRIBUTIONS:
        dist, _ = make_distribution(lab, name)
        sample = dist.sample((SAMPLE_COUNT,))
        for index in range(3):
            column = sample[:, index]
            if name not in WITHOUT_VARIANCE:
                check_mean(lab, f"{name} {index}", column, float(dist.mean[index]), float(dist.stddev[index]))
            if name not in (*WITHOUT_VARIANCE, "StudentT", "InverseGamma"):
                lab.holds(f"the variance of {name} {index}", has_variance(column, dist.variance[index]))
            if dist.support.is_discrete:
                for value in (0.0, 1.0, 2.0):
                    chance = float(_probability_of(dist, value)[index])
                    share = float((column == value).double().mean())
                    lab.holds(
                        f"{name} {index} draws {value} with its probability",
                        abs(share - chance) < SIGMAS * 0.5 / math.sqrt(SAMPLE_COUNT),
                    )
            elif none_if_not_implemented(lambda: dist.cdf(dist.sample())) is not None:
                single = type(dist)(
                    *[getattr(dist, parameter)[index].cpu() for parameter in SCALAR_DISTRIBUTIONS[name][1]],
                    validate_args=False,
                )
                check_cumulative_distribution(lab, f"{name} {index}", column, single.cdf)


def _probability_of(dist: Any, value: float) -> torch.Tensor:
    """Return the probability of ``value``, which is zero if the support does not contain ``value``."""
    point = torch.full(dist.batch_shape, value, dtype=torch.float64, device=dist.mean.device)
    inside = dist.support.check(point)
    safe = torch.where(inside, point, torch.zeros_like(point))
    return torch.where(inside, dist.log_prob(safe).exp(), torch.zeros_like(point))


@behaviour("distributions", must_detect=())
def vector_sample_moments(lab: Lab) -> None:
    """Samples of distributions of vectors have the mean of their distribution. Samples of categorical
    distributions have the frequencies of their categories.
    """
    every = vector_distributions(lab)
    for name in (
        "Dirichlet",
        "Multinomial",
        "OneHotCategorical",
        "MultivariateNormal",
        "LowRankMultivariateNormal",
        "Wishart",
        "MixtureSameFamily",
    ):
        dist = every[name]
        sample = dist.sample((VECTOR_SAMPLES,)).double()
        error = (sample.mean(0) - dist.mean).abs()
        lab.holds(
            f"the mean of {name}",
            bool((error <= SIGMAS * dist.variance.sqrt() / math.sqrt(VECTOR_SAMPLES) + 1e-9).all()),
        )
        lab.holds(f"the variance of {name}", has_variance(sample, dist.variance))
    drawn = every["Categorical"].sample((VECTOR_SAMPLES,))
    shares = torch.stack([(drawn == category).double().mean(0) for category in range(3)], -1)
    lab.holds(
        "shares of categories",
        bool(((shares - every["Categorical"].probs).abs() < SIGMAS * 0.5 / math.sqrt(VECTOR_SAMPLES)).all()),
    )
    rounded = every["RelaxedBernoulli"].sample((VECTOR_SAMPLES,)).round().mean(0)
    lab.holds(
        "rounded samples of relaxed coins have their probabilities",
        bool(((rounded - lab.put([0.2, 0.7])).abs() < SIGMAS * 0.5 / math.sqrt(VECTOR_SAMPLES)).all()),
    )
    first = every["RelaxedOneHotCategorical"].sample((VECTOR_SAMPLES,)).argmax(-1)
    shares = torch.stack([(first == category).double().mean(0) for category in range(3)], -1)
    lab.holds(
        "shares of relaxed categories",
        bool(((shares - every["Categorical"].probs).abs() < SIGMAS * 0.5 / math.sqrt(VECTOR_SAMPLES)).all()),
    )
    cross = every["MultivariateNormal"].sample((VECTOR_SAMPLES,)) - every["MultivariateNormal"].mean
    product = (cross[:, 0] * cross[:, 1]).mean()
    lab.holds(
        "normal vectors have the correct covariance",
        abs(float(product) - 0.5) < SIGMAS * 1.6 / math.sqrt(VECTOR_SAMPLES),
    )
    turned = every["VonMises"].sample((VECTOR_SAMPLES,))
    lab.holds(
        "angles have their direction",
        bool(
            (
                (torch.cos(turned - lab.put([0.0, 1.0])).mean(0) - (1 - every["VonMises"].variance)).abs()
                < SIGMAS / math.sqrt(VECTOR_SAMPLES)
            ).all()
        ),
    )
    thin = D.Beta(lab.put([0.01], dtype=torch.float64), lab.put([0.01], dtype=torch.float64)).sample(
        (VECTOR_SAMPLES,)
    )
    lab.holds(
        "Beta samples are finite and equally often near 0 and 1",
        bool(thin.isfinite().all())
        and abs(float((thin > 0.5).double().mean()) - 0.5) < SIGMAS * 0.5 / math.sqrt(VECTOR_SAMPLES),
    )


@behaviour(
    "distributions",
    level="training",
    capabilities=("autograd",),
    must_detect=(),
    ground=(
        "The page calls rsample a differentiable function of noise without parameters; the gradients follow"
    ),
)
def sample_gradients(lab: Lab) -> None:
    """``rsample`` passes gradients to the parameters, according to the formula by which it computes a sample
    from the parameters. ``sample`` passes no gradients.
    """
    for name in SCALAR_DISTRIBUTIONS:
        dist, tensors = make_distribution(lab, name, grad=True)
        lab.holds(f"sample of {name} is detached", not dist.sample().requires_grad)
        if not dist.has_rsample:
            refused = False
            try:
                dist.rsample()
            except NotImplementedError:
                refused = True
            with lab.parity("No page says that rsample is refused by distributions without it"):
                lab.holds(f"rsample of {name} is refused", refused)
            continue
        drawn = dist.rsample((50,))
        lab.holds(f"rsample of {name} requires gradients", drawn.requires_grad)
        drawn.sum().backward()
        lab.holds(
            f"gradients of {name} arrive",
            all(t.grad is not None and bool(t.grad.isfinite().all()) for t in tensors.values()),
        )
    for name in ("Normal", "Laplace", "Cauchy", "Gumbel"):
        dist, tensors = make_distribution(lab, name, grad=True)
        drawn = dist.rsample()
        drawn.sum().backward()
        standard = (drawn - tensors["loc"]) / tensors["scale"]
        lab.holds(
            f"the gradient of {name} by loc is one",
            torch.allclose(tensors["loc"].grad, torch.ones_like(standard)),  # type: ignore[arg-type]
        )
        lab.holds(
            "the gradient by scale is the standardized sample",
            torch.allclose(tensors["scale"].grad, standard.detach()),  # type: ignore[arg-type]
        )
    dist, tensors = make_distribution(lab, "Exponential", grad=True)
    drawn = dist.rsample()
    drawn.sum().backward()
    lab.holds(
        "the gradient of Exponential by rate is -sample / rate",
        torch.allclose(tensors["rate"].grad, -drawn.detach() / tensors["rate"].detach()),  # type: ignore[arg-type]
    )
    dist, tensors = make_distribution(lab, "Uniform", grad=True)
    drawn = dist.rsample()
    drawn.sum().backward()
    share = ((drawn - tensors["low"]) / (tensors["high"] - tensors["low"])).detach()
    lab.holds(
        "the gradients of Uniform by low and high are correct",
        torch.allclose(tensors["high"].grad, share) and torch.allclose(tensors["low"].grad, 1 - share),  # type: ignore[arg-type]
    )
    for concentration in (0.1, 1.0, 10.0, 100.0):
        for name, factor in (("Gamma", 1.0), ("Chi2", 2.0)):
            shape: Any = torch.full(
                (20,), concentration * factor, dtype=torch.float64, device=lab.device, requires_grad=True
            )
            drawn = (
                D.Gamma(shape, torch.ones_like(shape)).rsample()
                if name == "Gamma"
                else D.Chi2(shape).rsample()
            )
            drawn.sum().backward()
            x, a = (drawn.detach() / factor).cpu(), torch.full((20,), concentration, dtype=torch.float64)
            step = 1e-4 * concentration
            slope = (torch.special.gammainc(a + step, x) - torch.special.gammainc(a - step, x)) / (2 * step)
            expected = -slope / torch.exp((a - 1) * x.log() - x - torch.lgamma(a))
            usable = x > 1e-12
            agrees = torch.allclose(shape.grad.cpu()[usable], expected[usable], rtol=1e-3, atol=1e-7)
            lab.holds(f"implicit gradients of {name} {concentration}", agrees)


@behaviour("distributions", must_detect=("value",))
def enumerated_support(lab: Lab) -> None:
    """``enumerate_support`` lists all possible values once. With ``expand`` the list is repeated for every
    element of the batch. Infinitely many values are an error.
    """
    chances = lab.put([[0.1, 0.2], [0.3, 0.4]], dtype=torch.float64)
    coin = D.Bernoulli(chances)
    lab.expect("a coin", coin.enumerate_support(expand=False), [[[0.0]], [[1.0]]])
    lab.same("coins", coin.enumerate_support())
    counts = D.Binomial(3, chances)
    lab.expect("counts", counts.enumerate_support(expand=False), [[[0.0]], [[1.0]], [[2.0]], [[3.0]]])
    lab.same("counts of a batch", counts.enumerate_support(expand=True))
    kinds = D.Categorical(chances)
    lab.expect("categories", kinds.enumerate_support(expand=False), [[0], [1]])
    lab.same("their dtype", [kinds.enumerate_support().dtype, kinds.sample().dtype])
    categories = D.OneHotCategorical(lab.put([0.1, 0.2, 0.7]))
    lab.expect("support of OneHotCategorical", categories.enumerate_support(), torch.eye(3))
    total = coin.log_prob(coin.enumerate_support()).exp().sum(0)
    lab.expect("chances sum up", total, torch.ones(2, 2), roundings=8)
    with lab.parity("No page says that enumerate_support raises an error for infinitely many values"):
        lab.raises(
            "normal numbers",
            lambda: D.Normal(lab.put(0.0), lab.put(1.0)).enumerate_support(),
            NotImplementedError,
        )
    with lab.parity("No page says that enumerate_support raises an error for different counts in a batch"):
        lab.raises(
            "counts of two lengths",
            lambda: D.Binomial(lab.put([2.0, 3.0]), lab.put(0.5)).enumerate_support(),
            NotImplementedError,
        )
    entropy = D.Categorical(
        logits=lab.put([[0.0, 0.0, -math.inf], [0.0, 0.0, 0.0]], dtype=torch.float64)
    ).entropy()
    with lab.parity("The page requires logits that are real numbers, which excludes minus infinity"):
        lab.expect("entropy with the impossible", entropy, [math.log(2), math.log(3)], roundings=64)
    with lab.parity("No page says that the mean of a Categorical is NaN"):
        lab.holds(
            "mean and variance of Categorical are NaN",
            bool(kinds.mean.isnan().all() and kinds.variance.isnan().all()),
        )
    certain = D.Categorical(lab.put([[1.0, 0.0], [0.0, 1.0]]))
    lab.expect("certain ones", certain.sample((3,)), [[0, 1]] * 3)
    lab.expect(
        "certain counts",
        D.Multinomial(10, lab.put([[1.0, 0.0], [0.0, 1.0]])).sample(),
        [[10.0, 0.0], [0.0, 10.0]],
    )
