"""Behaviours of KL divergences, validation, transforms and distributions of vectors."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import distributions as D
from torch.distributions import constraints

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.distributions.samples import vector_distributions
from conformance.properties.api.distributions.scores import (
    SCALAR_DISTRIBUTIONS,
    make_distribution,
    none_if_not_implemented,
)


@behaviour("distributions", must_detect=("value",))
def divergences(lab: Lab) -> None:
    """``kl_divergence`` equals the closed form, and is zero for a distribution and itself. The divergence is
    infinite if the support of the second distribution does not contain the support of the first.
    """
    every = {name: make_distribution(lab, name)[0] for name in SCALAR_DISTRIBUTIONS}
    for name, dist in every.items():
        divergence = none_if_not_implemented(lambda: D.kl_divergence(dist, dist))
        if divergence is not None:
            lab.holds(
                f"the divergence of {name} from itself is zero",
                bool((divergence.abs() < 1e-9).all()) and divergence.shape == dist.batch_shape,
            )
    pairs = (
        ("Beta", "Normal"),
        ("Exponential", "Gamma"),
        ("Exponential", "Normal"),
        ("Gamma", "Normal"),
        ("Chi2", "Gamma"),
        ("Gamma", "Gumbel"),
        ("Gumbel", "Normal"),
        ("Laplace", "Normal"),
        ("Normal", "Laplace"),
        ("Normal", "Gumbel"),
        ("Pareto", "Exponential"),
        ("Uniform", "Normal"),
        ("Bernoulli", "Poisson"),
        ("Beta", "ContinuousBernoulli"),
    )
    for left, right in pairs:
        lab.close(
            f"divergence of {left} from {right}",
            D.kl_divergence(every[left], every[right]),
            roundings=1 << 14,
        )

    def float64_distribution(kind: Any, *numbers: float) -> Any:
        return kind(*(lab.put(float(number), dtype=torch.float64) for number in numbers))

    normal = D.kl_divergence(float64_distribution(D.Normal, 0, 1), float64_distribution(D.Normal, 1, 2))
    lab.expect("two normal distributions", normal, math.log(2) + 2 / 8 - 0.5, roundings=64)
    lab.expect(
        "two exponential distributions",
        D.kl_divergence(float64_distribution(D.Exponential, 2), float64_distribution(D.Exponential, 3)),
        math.log(2 / 3) + 3 / 2 - 1,
        roundings=64,
    )
    coins = D.kl_divergence(float64_distribution(D.Bernoulli, 0.25), float64_distribution(D.Bernoulli, 0.5))
    lab.expect("two coins", coins, 0.25 * math.log(0.5) + 0.75 * math.log(1.5), roundings=256)
    lab.expect(
        "two rates",
        D.kl_divergence(float64_distribution(D.Poisson, 2), float64_distribution(D.Poisson, 3)),
        2 * math.log(2 / 3) + 1,
        roundings=64,
    )
    endless = (
        (float64_distribution(D.Uniform, 0, 2), float64_distribution(D.Beta, 1, 2)),
        (float64_distribution(D.Normal, 0, 1), float64_distribution(D.Exponential, 1)),
        (float64_distribution(D.Normal, 0, 1), float64_distribution(D.Uniform, 0, 1)),
        (float64_distribution(D.Gamma, 1, 2), float64_distribution(D.Beta, 3, 4)),
        (float64_distribution(D.Poisson, 2), float64_distribution(D.Bernoulli, 0.5)),
        (float64_distribution(D.Laplace, 0, 1), float64_distribution(D.Pareto, 1, 2)),
        (float64_distribution(D.Bernoulli, 0), float64_distribution(D.Bernoulli, 1)),
        (D.Categorical(lab.put([0.9, 0.1])), D.Categorical(lab.put([1.0, 0.0]))),
        (float64_distribution(D.Binomial, 31, 0.7), float64_distribution(D.Binomial, 30, 0.3)),
    )
    for number, (p, q) in enumerate(endless):
        lab.expect(f"{number}: {type(p).__name__} from {type(q).__name__}", D.kl_divergence(p, q), math.inf)
    lab.expect(
        "Bernoulli with probability 1 from itself",
        D.kl_divergence(float64_distribution(D.Bernoulli, 1), float64_distribution(D.Bernoulli, 1)),
        0.0,
    )
    lab.expect(
        "Uniform from the equal Beta distribution",
        D.kl_divergence(float64_distribution(D.Uniform, 0, 1), float64_distribution(D.Beta, 1, 1)).abs()
        < 1e-12,
        True,
    )
    lab.raises(
        "of no formula",
        lambda: D.kl_divergence(every["Cauchy"], every["Normal"]),
        NotImplementedError,
        type_is_documented=True,
    )
    for name, dist in vector_distributions(lab).items():
        divergence = none_if_not_implemented(lambda: D.kl_divergence(dist, dist))
        lab.same(f"shape for {name}", None if divergence is None else divergence.shape)


@behaviour("distributions", must_detect=("value",))
def normal_vectors(lab: Lab) -> None:
    """A covariance, a precision, a Cholesky factor and a low-rank form can describe the same normal
    distribution. A batch of distributions gives the results of its single distributions. Other distributions
    of vectors have the log-probabilities of their closed forms.
    """

    def float64_on_device(numbers: Any) -> torch.Tensor:
        return lab.put(numbers, dtype=torch.float64)

    mean, covariance = float64_on_device([1.0, -1.0]), float64_on_device([[2.0, 0.5], [0.5, 1.0]])
    point = float64_on_device([[0.5, 0.5], [2.0, -1.0]])
    first = D.MultivariateNormal(mean, covariance)
    ways = {
        "covariance": first,
        "precision": D.MultivariateNormal(mean, precision_matrix=covariance.inverse()),
        "factor": D.MultivariateNormal(mean, scale_tril=torch.linalg.cholesky(covariance)),
        "low rank": D.LowRankMultivariateNormal(
            mean, float64_on_device([[1.0], [0.5]]), float64_on_device([1.0, 0.75])
        ),
    }
    difference = point - mean
    form = (difference @ covariance.inverse() * difference).sum(-1)
    expected = (-form / 2 - math.log(2 * math.pi) - math.log(1.75) / 2).cpu()
    for name, dist in ways.items():
        lab.expect(f"log_prob by {name}", dist.log_prob(point), expected, roundings=256)
        lab.close(f"mean and variance by {name}", [dist.mean, dist.variance], roundings=64)
        lab.close(
            f"matrices by {name}",
            [dist.covariance_matrix, dist.precision_matrix, dist.scale_tril],  # type: ignore[attr-defined]
            roundings=256,
        )
        lab.expect(
            f"entropy by {name}", dist.entropy(), 1 + math.log(2 * math.pi) + math.log(1.75) / 2, roundings=64
        )
        lab.holds(f"{name} differs from none", abs(float(D.kl_divergence(first, dist))) < 1e-9)
    standard = D.MultivariateNormal(
        float64_on_device([0.0, 0.0]), torch.eye(2, dtype=torch.float64, device=lab.device)
    )
    lab.expect(
        "the divergence", D.kl_divergence(first, standard), (3 + 2 - 2 - math.log(1.75)) / 2, roundings=256
    )
    batch = D.MultivariateNormal(torch.stack((mean, -mean)), torch.stack((covariance, covariance * 2)))
    single = [D.MultivariateNormal(mean, covariance), D.MultivariateNormal(-mean, covariance * 2)]
    lab.holds(
        "log_prob of a batch and of single distributions agree",
        torch.allclose(
            batch.log_prob(point), torch.stack([d.log_prob(x) for d, x in zip(single, point, strict=True)])
        ),
    )
    lab.holds(
        "divergences of a batch and of single distributions agree",
        torch.allclose(
            D.kl_divergence(batch, standard), torch.stack([D.kl_divergence(d, standard) for d in single])
        ),
    )
    lab.same("shapes", [batch.batch_shape, batch.event_shape, batch.sample((3,)).shape])
    wishart = D.Wishart(float64_on_device(4.0), covariance)
    scale = float64_on_device([[1.0, 0.25], [0.25, 2.0]])
    lab.close("a Wishart score", wishart.log_prob(scale), roundings=1 << 14)
    lab.close("Wishart moments", [wishart.mean, wishart.variance, wishart.covariance_matrix], roundings=256)
    by_factor = D.Wishart(float64_on_device(4.0), scale_tril=torch.linalg.cholesky(covariance))
    by_precision = D.Wishart(float64_on_device(4.0), precision_matrix=covariance.inverse())
    lab.holds(
        "by any matrix",
        torch.allclose(by_factor.log_prob(scale), wishart.log_prob(scale))
        and torch.allclose(by_precision.log_prob(scale), wishart.log_prob(scale)),
    )
    flat = D.LKJCholesky(2, float64_on_device(1.0))
    lab.expect(
        "correlations without a preference",
        flat.log_prob(torch.linalg.cholesky(float64_on_device([[1.0, 0.3], [0.3, 1.0]]))),
        math.log(0.5),
        roundings=1024,
    )
    simplex = float64_on_device([[0.2, 0.3, 0.5], [0.25, 0.25, 0.5]])
    alpha = [0.5, 1.0, 2.0]
    density = sum((a - 1) * math.log(x) for a, x in zip(alpha, [0.2, 0.3, 0.5], strict=True))
    density += math.lgamma(sum(alpha)) - sum(math.lgamma(a) for a in alpha)
    dirichlet = D.Dirichlet(float64_on_device([alpha, [3.0, 3.0, 1.0]]))
    lab.expect("a Dirichlet score", dirichlet.log_prob(simplex)[0], density, roundings=1024)
    lab.close(
        "moments of Dirichlet",
        # The first density is unbounded, and therefore has no mode.
        [dirichlet.mean, dirichlet.variance, dirichlet.mode[1], dirichlet.entropy()],
        roundings=1 << 14,
    )
    counts = D.Multinomial(10, float64_on_device([0.1, 0.2, 0.7]))
    wanted_score = math.lgamma(11) - math.lgamma(2) - math.lgamma(3) - math.lgamma(8)
    wanted_score += math.log(0.1) + 2 * math.log(0.2) + 7 * math.log(0.7)
    lab.expect(
        "a multinomial score",
        counts.log_prob(float64_on_device([1.0, 2.0, 7.0])),
        wanted_score,
        roundings=1 << 14,
    )
    lab.close("moments of Multinomial", [counts.mean, counts.variance, counts.entropy()], roundings=1 << 14)
    categories = D.Categorical(float64_on_device([0.1, 0.2, 0.7]))
    lab.expect(
        "scores of categories",
        categories.log_prob(torch.arange(3, device=lab.device)),
        [math.log(p) for p in (0.1, 0.2, 0.7)],
        roundings=64,
    )
    hot = D.OneHotCategorical(float64_on_device([0.1, 0.2, 0.7]))
    lab.holds(
        "OneHotCategorical and Categorical give the same log_prob",
        torch.allclose(
            hot.log_prob(torch.eye(3, dtype=torch.float64, device=lab.device)),
            categories.log_prob(torch.arange(3, device=lab.device)),
        ),
    )
    mixture = D.MixtureSameFamily(
        D.Categorical(float64_on_device([0.3, 0.7])),
        D.Normal(float64_on_device([0.0, 4.0]), float64_on_device([1.0, 0.5])),
    )
    bell = [
        math.exp(-(x**2) / 2) * 0.3 + math.exp(-(((x - 4) / 0.5) ** 2) / 2) / 0.5 * 0.7 for x in (0.0, 3.5)
    ]
    lab.expect(
        "scores of a mixture",
        mixture.log_prob(float64_on_device([0.0, 3.5])),
        [math.log(b / math.sqrt(2 * math.pi)) for b in bell],
        roundings=1024,
    )
    lab.close(
        "moments of a mixture",
        [mixture.mean, mixture.variance, mixture.cdf(float64_on_device([0.0, 3.5]))],
        roundings=1024,
    )
    angles = torch.linspace(0, 2 * math.pi, 2001, dtype=torch.float64, device=lab.device)[:-1]
    for concentration in (0.1, 1.0, 10.0, 100.0):
        total = (
            D.VonMises(float64_on_device(0.0), float64_on_device(concentration)).log_prob(angles).exp().mean()
            * 2
            * math.pi
        )
        lab.holds(f"the density of VonMises integrates to 1, {concentration}", abs(float(total) - 1) < 1e-5)


@behaviour(
    "distributions",
    level="training",
    must_detect=("error", "message"),
    ground="validation is on by default; the page names constraints and support, not each check",
)
def distribution_validation(lab: Lab) -> None:
    """Unless validation is disabled, an error is raised for parameters outside their range, for values
    outside the support, and for shapes that do not broadcast.
    """
    wrong: dict[str, Any] = {
        "Normal": lambda: D.Normal(lab.put(0.0), lab.put(-1.0)),
        "Bernoulli": lambda: D.Bernoulli(lab.put([1.1, 0.2])),
        "Beta": lambda: D.Beta(lab.put(0.0), lab.put(1.0)),
        "Binomial": lambda: D.Binomial(lab.put(10.0), lab.put(-0.1)),
        "Categorical": lambda: D.Categorical(lab.put([[-0.1, 0.2, 0.9]])),
        "Cauchy": lambda: D.Cauchy(lab.put(0.0), lab.put(0.0)),
        "Dirichlet": lambda: D.Dirichlet(lab.put([-1.0, 1.0])),
        "Exponential": lambda: D.Exponential(lab.put(0.0)),
        "Gamma": lambda: D.Gamma(lab.put(-1.0), lab.put(1.0)),
        "Geometric": lambda: D.Geometric(lab.put(0.0)),
        "Laplace": lambda: D.Laplace(lab.put(0.0), lab.put(float("nan"))),
        "MultivariateNormal": lambda: D.MultivariateNormal(
            lab.put([0.0, 0.0]), lab.put([[1.0, 0.0], [0.0, -2.0]])
        ),
        "Poisson": lambda: D.Poisson(lab.put(-0.1)),
        "Uniform": lambda: D.Uniform(lab.put(2.0), lab.put(1.0)),
        "Weibull": lambda: D.Weibull(lab.put(0.0), lab.put(1.0)),
        "Multinomial": lambda: D.Multinomial(10, lab.put([-0.1, 0.5])),
        "StudentT": lambda: D.StudentT(lab.put(0.0)),
    }
    for name, call in wrong.items():
        lab.raises(f"parameters of {name}", call, ValueError)
    every = {name: make_distribution(lab, name)[0] for name in SCALAR_DISTRIBUTIONS} | vector_distributions(
        lab
    )
    for name, dist in every.items():
        value = torch.full(
            dist.batch_shape + dist.event_shape, math.nan, dtype=torch.float64, device=lab.device
        )
        lab.raises(
            f"NaN for {name}",
            lambda: dist.log_prob(value),
            ValueError,
            match="within the support",
        )
    coin = D.Bernoulli(lab.put([0.5, 0.5]))
    lab.raises(
        "half a head", lambda: coin.log_prob(lab.put([0.5, 0.0])), ValueError, match="within the support"
    )
    with lab.parity("No page says that a number in place of a tensor is refused"):
        lab.raises(
            "a number in place of a tensor", lambda: coin.log_prob(1), ValueError, match="must be a Tensor"
        )
    with lab.parity("No page says that values that do not broadcast are refused"):
        lab.raises(
            "a value that does not broadcast",
            lambda: coin.log_prob(torch.ones(3, device=lab.device)),
            ValueError,
            match="broadcastable",
        )
    with lab.parity("No page says which log_prob a value outside the support has"):
        lab.same(
            "a value outside the support without validation",
            D.Bernoulli(lab.put([0.5]), validate_args=False).log_prob(lab.put([0.5])).isfinite(),
        )
    lab.raises("both probs and logits", lambda: D.Bernoulli(lab.put(0.5), lab.put(0.0)), ValueError)
    with lab.parity("No page describes torch.binomial"):
        lab.raises(
            "counts of integers for torch.binomial",
            lambda: torch.binomial(lab.put([10, 10]), lab.put([0.5, 0.5])),
            ValueError,
            RuntimeError,
            match="floating-point",
        )
        lab.raises(
            "chances of integers",
            lambda: torch.binomial(lab.put([10.0, 10.0]), lab.put([1, 0])),
            ValueError,
            RuntimeError,
            match="floating-point",
        )
    for name, dist in every.items():
        for parameter, constraint in dist.arg_constraints.items():
            value = getattr(dist, parameter, None)  # type: ignore[assignment]
            if isinstance(value, torch.Tensor) and not constraints.is_dependent(constraint):
                lab.holds(
                    f"{parameter} of {name} satisfies its constraint", bool(constraint.check(value).all())
                )


@behaviour("distributions", must_detect=("value",), capabilities=("autograd",))
def transforms_of_values(lab: Lab) -> None:
    """A transform maps values, inverts the mapping and returns the log-determinant of its Jacobian.
    CatTransform, StackTransform and ComposeTransform do this for each transform that they combine.
    """

    def float64_on_device(numbers: Any) -> torch.Tensor:
        return lab.put(numbers, dtype=torch.float64)

    x = float64_on_device([-1.5, -0.25, 0.5, 2.0])
    every: dict[str, tuple[Any, torch.Tensor]] = {
        "exp": (D.ExpTransform(), x),
        "sigmoid": (D.SigmoidTransform(), x),
        "tanh": (D.TanhTransform(), x),
        "softplus": (D.SoftplusTransform(), x),
        "affine": (D.AffineTransform(1.0, -2.0), x),
        "power": (D.PowerTransform(float64_on_device(3.0)), x.exp()),
        "composed": (D.ComposeTransform([D.AffineTransform(0.5, 2.0), D.SigmoidTransform()]), x),
        "normal cdf": (
            D.CumulativeDistributionTransform(D.Normal(float64_on_device(0.0), float64_on_device(1.0))),
            x,
        ),
    }
    for name, (transform, inputs) in every.items():
        leaf = inputs.detach().clone().requires_grad_()
        result = transform(leaf)
        (slope,) = torch.autograd.grad(result.sum(), leaf)
        lab.close(name, result.detach(), roundings=256)
        lab.close(f"{name}, undone", transform.inv(result.detach()), roundings=1 << 14)
        lab.holds(
            f"{name} is undone", torch.allclose(transform.inv(result.detach()), inputs, rtol=1e-7, atol=1e-9)
        )
        jacobian = transform.log_abs_det_jacobian(inputs, result.detach())
        lab.holds(f"the slope of {name}", torch.allclose(jacobian, slope.abs().log(), rtol=1e-7, atol=1e-9))
        lab.holds(
            f"domains of {name}",
            bool(transform.domain.check(inputs).all() and transform.codomain.check(result).all()),
        )
    wide = {
        "simplex": D.StickBreakingTransform(),
        "softmax": D.SoftmaxTransform(),
        "cholesky": D.LowerCholeskyTransform(),
        "correlations": D.CorrCholeskyTransform(),
        "definite": D.PositiveDefiniteTransform(),
    }
    for name, transform in wide.items():
        inputs = (
            float64_on_device([[0.5, -0.5], [0.25, 1.0]])
            if name in ("cholesky", "definite")
            else float64_on_device([0.5, -0.5, 0.25])
        )
        result = transform(inputs)
        lab.close(name, result, roundings=256)
        lab.holds(f"results of {name} are in its codomain", bool(transform.codomain.check(result).all()))
        lab.close(f"{name} of its inverse", transform(transform.inv(result)), roundings=1 << 12)
    parts = [D.ExpTransform(), D.AffineTransform(1, 10), D.identity_transform]
    stacked = D.StackTransform(parts, dim=0)
    joined = D.CatTransform(parts, dim=0)
    rows = torch.stack((x, x, x))
    for name, transform in (("stacked", stacked), ("joined", joined)):
        result = transform(rows)
        lab.holds(
            f"{name} acts in parts",
            all(torch.allclose(result[i], part(x), rtol=1e-9) for i, part in enumerate(parts)),
        )
        lab.holds(f"{name} is undone", torch.allclose(transform.inv(result), rows))
        slopes = transform.log_abs_det_jacobian(rows, result)
        lab.holds(
            f"slopes of {name}",
            all(
                torch.allclose(slopes[i], part.log_abs_det_jacobian(x, part(x)) + torch.zeros_like(x))
                for i, part in enumerate(parts)
            ),
        )
        lab.same(name, transform.domain.check(rows))
    uneven = D.CatTransform(
        [D.ExpTransform(), D.CatTransform([D.AffineTransform(1, 10), D.identity_transform])],
        dim=0,
        lengths=[1, 2],
    )
    lab.close("joined unevenly", uneven(rows), roundings=256)
    shaped = D.ReshapeTransform((4,), (2, 2))  # type: ignore[arg-type]
    lab.same("reshaped", [shaped(x), shaped.inv(shaped(x)), shaped.log_abs_det_jacobian(x, shaped(x))])
    drawn = D.TransformedDistribution(
        D.Normal(float64_on_device(0.0), float64_on_device(1.0)), [D.AffineTransform(1.0, 2.0)]
    )
    lab.expect(
        "a score moved",
        drawn.log_prob(float64_on_device(1.0)),
        -math.log(2) - math.log(2 * math.pi) / 2,
        roundings=256,
    )
    for constraint in (
        constraints.positive,
        constraints.unit_interval,
        constraints.simplex,
        constraints.real,
        constraints.lower_cholesky,
        constraints.greater_than(2.0),
        constraints.interval(-1, 3),
    ):
        inputs = float64_on_device([[0.5, -0.5], [0.25, 1.0]])
        lab.holds(
            f"transform_to {constraint} satisfies the constraint",
            bool(constraint.check(D.transform_to(constraint)(inputs)).all()),
        )
