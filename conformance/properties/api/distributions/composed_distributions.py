"""Behaviours of distributions that are composed of other distributions, relaxed or ill-conditioned, and of
exponential families.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import distributions as D
from torch.distributions import constraints

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.distributions.scores import make_distribution


class _NaturalExponential(D.ExponentialFamily):
    """An exponential distribution that defines only its natural parameters and its log-normalizer."""

    arg_constraints: ClassVar[dict[str, Any]] = {"rate": constraints.positive}
    support = constraints.nonnegative
    _mean_carrier_measure = 0

    def __init__(self, rate: torch.Tensor) -> None:
        self.rate = rate
        super().__init__(rate.shape)

    @property
    def _natural_params(self) -> tuple[torch.Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, *parameters: torch.Tensor) -> torch.Tensor:
        return -torch.log(-parameters[0])


@behaviour(
    "distributions",
    must_detect=("value",),
    capabilities=("autograd",),
    ground="The page says that the class derives entropy and KL divergence from the log-normalizer",
)
def exponential_families(lab: Lab) -> None:
    """If a distribution defines natural parameters and a log-normalizer, its entropy and KL divergence are
    derived from these. Entropy and KL divergence equal the closed forms of torch's distributions.
    """
    first, second = (lab.put(numbers, dtype=torch.float64) for numbers in ([0.5, 2.0], [1.5, 3.0]))
    expected = D.kl_divergence(D.Exponential(first), D.Exponential(second))
    divergence = D.kl_divergence(_NaturalExponential(first), _NaturalExponential(second))
    lab.close("divergence of a family", divergence.detach(), roundings=256)
    lab.holds("the divergence equals the closed form", torch.allclose(divergence, expected))
    lab.expect(
        "entropy of a family",
        _NaturalExponential(first).entropy().detach(),
        [1 - math.log(0.5), 1 - math.log(2.0)],
        roundings=64,
    )
    for name in ("Bernoulli", "Exponential", "Gamma", "Normal"):
        dist, _ = make_distribution(lab, name)
        by_family = D.ExponentialFamily.entropy(dist)
        lab.holds(f"entropy of {name}", torch.allclose(by_family, dist.entropy(), rtol=1e-6, atol=1e-9))
        lab.close(f"entropy of {name} as an exponential family", by_family.detach(), roundings=1 << 14)


class _NormalSubclass(D.Normal):
    """A subclass of Normal without its own constructor."""


@behaviour("distributions", must_detect=("value", "shape"), capabilities=("autograd",))
def distributions_of_distributions(lab: Lab) -> None:
    """Independent, mixture, transformed and subclassed distributions have the log-probabilities, expanded
    shapes and KL divergences that follow from their components.
    """

    def float64_on_device(numbers: Any) -> torch.Tensor:
        return lab.put(numbers, dtype=torch.float64)

    part = D.Normal(float64_on_device([[0.0, 1.0, 2.0]] * 2), float64_on_device(1.5))
    points = float64_on_device([[0.5, 0.25, -1.0]] * 2)
    for count in range(3):
        whole = D.Independent(part, count)
        wide = whole.expand(torch.Size((4, *whole.batch_shape)))
        lab.same(f"{count} dimensions of one event, expanded", [wide.batch_shape, wide.event_shape])
        score = wide.log_prob(points)
        lab.close(f"log_prob with {count} dimensions of one event", score, roundings=64)
        summed = part.log_prob(points).sum(tuple(range(2 - count, 2))) if count else part.log_prob(points)
        lab.holds(
            f"log_prob is the sum over {count} event dimensions",
            torch.allclose(score, summed.expand(score.shape)),
        )
    derived = _NormalSubclass(float64_on_device([0.0, 1.0]), float64_on_device(2.0)).expand(
        torch.Size((3, 2))
    )
    with lab.parity("The page promises a new distribution, not the type of the original"):
        lab.holds("an expanded subclass keeps its class", type(derived) is _NormalSubclass)
    lab.close("it scores", derived.log_prob(float64_on_device(0.5)), roundings=64)
    counts = D.Binomial(float64_on_device([4.0, 6.0]), float64_on_device([0.25, 0.5]))
    mixture = D.MixtureSameFamily(D.Categorical(float64_on_device([0.3, 0.7])), counts)
    expected = [
        math.log(
            sum(
                w * math.comb(n, k) * p**k * (1 - p) ** (n - k) for w, n, p in ((0.3, 4, 0.25), (0.7, 6, 0.5))
            )
        )
        for k in (0, 2, 4)
    ]
    lab.expect(
        "a mixture of counts", mixture.log_prob(float64_on_device([0.0, 2.0, 4.0])), expected, roundings=1024
    )
    steps: list[D.Transform] = [
        D.AffineTransform(float64_on_device(1.0), float64_on_device(2.0)),
        D.ExpTransform(),
    ]
    bases = [D.Normal(float64_on_device([0.0, 1.0]), float64_on_device(scale)) for scale in (1.0, 2.0)]
    left, right = (D.TransformedDistribution(base, steps) for base in bases)
    lab.close("a divergence of transformed distributions", D.kl_divergence(left, right), roundings=256)
    lab.holds(
        "the divergence equals the divergence of the bases",
        torch.allclose(D.kl_divergence(left, right), D.kl_divergence(*bases)),
    )
    fewer_steps = D.TransformedDistribution(bases[1], steps[:1])
    with lab.parity(
        "The page names this error only for types that are not registered, and these types are registered"
    ):
        lab.raises(
            "distributions with different transforms",
            lambda: D.kl_divergence(left, fewer_steps),
            NotImplementedError,
        )
    factor, diagonal = (
        float64_on_device([[[1.0], [0.5]], [[0.25], [2.0]]]),
        float64_on_device([[1.0, 0.75], [2.0, 0.5]]),
    )
    mean = float64_on_device([[0.0, 1.0], [2.0, -1.0]])
    low = D.LowRankMultivariateNormal(mean, factor, diagonal)
    full = D.MultivariateNormal(mean, low.covariance_matrix)
    alone = D.LowRankMultivariateNormal(mean[0], factor[0], diagonal[0])
    divergence = D.kl_divergence(low, alone)
    lab.close("a batch of low rank", divergence, roundings=1024)
    dense = D.kl_divergence(full, D.MultivariateNormal(mean[0], alone.covariance_matrix))
    lab.holds("low-rank and full-rank divergences agree", torch.allclose(divergence, dense))
    lab.holds(
        "as in mixed pairs", torch.allclose(D.kl_divergence(low, full), torch.zeros_like(dense), atol=1e-9)
    )
    joined = D.CatTransform(
        [D.ExpTransform(), D.AffineTransform(float64_on_device(1.0), float64_on_device(-3.0))],
        dim=-1,
        lengths=[2, 1],
    )
    event = D.CatTransform(
        [D.transforms.IndependentTransform(step, 1) for step in (D.ExpTransform(), D.SigmoidTransform())],
        dim=-2,
        lengths=[1, 1],
    )
    x = float64_on_device([[0.5, 0.25, -1.0], [1.0, 2.0, 3.0]])
    with lab.parity("No page gives the event_dim of joined transforms"):
        lab.same("events of joined transforms", [joined.event_dim, event.event_dim])
    jacobian = event.log_abs_det_jacobian(x, event(x))
    lab.close("the Jacobian of joined events", jacobian, roundings=256)
    lab.holds("the Jacobian has one number for each event", jacobian.shape == (2,))
    lab.holds("undone", torch.allclose(event.inv(event(x)), x))


@behaviour("distributions", must_detect=("value",), capabilities=("autograd",))
def parameters_made_on_demand(lab: Lab) -> None:
    """Probabilities and logits are computed from each other on first access. The computed parameter passes
    gradients, even if the first access was under ``no_grad``.
    """
    for kind, numbers in ((D.Bernoulli, [0.2, 0.6]), (D.Categorical, [0.2, 0.8])):
        logits = lab.put(numbers, dtype=torch.float64, requires_grad=True)
        dist: Any = kind(logits=logits)
        with torch.no_grad():
            lab.close(f"probabilities of {kind.__name__}", dist.probs, roundings=64)
        dist = kind(logits=logits)
        (gradient,) = torch.autograd.grad((dist.probs**2).sum(), logits)
        lab.close(f"gradient of {kind.__name__} with respect to logits", gradient, roundings=256)
        silent = kind(logits=logits)
        with torch.no_grad():
            silent.probs  # noqa: B018  (the first access computes it)
        with lab.consistent(
            "The probabilities must pass gradients whether their first access was under no_grad or not"
        ):
            lab.holds(f"probabilities of {kind.__name__} pass gradients", silent.probs.requires_grad)
        (later_gradient,) = torch.autograd.grad((silent.probs**2).sum(), logits)
        with lab.consistent("The gradients after a first access with and without no_grad must agree"):
            lab.holds(
                f"gradients of {kind.__name__} after both kinds of access agree",
                torch.allclose(later_gradient, gradient),
            )


@behaviour(
    "distributions",
    must_detect=("value",),
    capabilities=("autograd",),
    ground="The page names the distributions and parameters; the densities follow from their definitions",
)
def relaxed_and_logistic_scores(lab: Lab) -> None:
    """RelaxedBernoulli, RelaxedOneHotCategorical and LogisticNormal have the densities of their definitions,
    and gradients with respect to all parameters.
    """

    def float64_leaf(numbers: Any) -> Any:
        return lab.put(numbers, dtype=torch.float64, requires_grad=True)

    heat, chances = float64_leaf(0.5), float64_leaf([0.2, 0.7])
    coin = D.RelaxedBernoulli(heat, chances)
    points = lab.put([0.3, 0.9], dtype=torch.float64)
    score = coin.log_prob(points)
    # ``expected`` is the log-density of ``sigmoid((logit(p) + v) / heat)``, for ``p`` in ``chances`` and a
    # logistic variable ``v``.
    moved = chances.logit() - heat * points.logit()
    expected = heat.log() + moved - 2 * torch.nn.functional.softplus(moved)
    expected = expected - (points * (1 - points)).log()
    lab.close("relaxed coins", score.detach(), roundings=256)
    lab.holds("their closed form", torch.allclose(score, expected, rtol=1e-9))
    for name, tensor in (("heat", heat), ("chances", chances)):
        (gradient,) = torch.autograd.grad(score.sum(), tensor, retain_graph=True)
        (expected_gradient,) = torch.autograd.grad(expected.sum(), tensor, retain_graph=True)
        lab.close(f"gradient of RelaxedBernoulli by {name}", gradient, roundings=1 << 12)
        lab.holds(
            f"gradient by {name} equals the closed form",
            torch.allclose(gradient, expected_gradient, rtol=1e-7),
        )
    for rows_name, rows in (("one", [0.1, 0.2, 0.7]), ("two", [[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]])):
        weights = float64_leaf(rows)
        relaxed = D.RelaxedOneHotCategorical(heat, weights)
        lab.same(
            f"shapes of {rows_name}", [relaxed.batch_shape, relaxed.event_shape, relaxed.sample((2,)).shape]
        )
        at = lab.put([0.2, 0.3, 0.5], dtype=torch.float64)
        score = relaxed.log_prob(at)
        powers = weights / weights.sum(-1, keepdim=True) * at.pow(-heat)
        expected = math.lgamma(3) + 2 * heat.log() + (powers.log() - at.log()).sum(-1)
        expected = expected - 3 * powers.sum(-1).log()
        lab.close(f"relaxed categories, {rows_name}", score.detach(), roundings=512)
        lab.holds(f"closed form of {rows_name}", torch.allclose(score, expected, rtol=1e-9))
        (gradient,) = torch.autograd.grad(score.sum(), weights)
        lab.close(f"gradient of {rows_name}", gradient, roundings=1 << 12)
        drawn = relaxed.rsample((5,))
        lab.holds(f"samples of {rows_name} pass gradients", drawn.requires_grad)
        lab.holds(
            f"samples of {rows_name} add up to one",
            torch.allclose(drawn.sum(-1), torch.ones_like(drawn.sum(-1))),
        )
    location, scale = float64_leaf([0.0, 0.5]), float64_leaf([1.0, 0.5])
    logistic = D.LogisticNormal(location, scale)
    at = lab.put([0.2, 0.3, 0.5], dtype=torch.float64)
    score = logistic.log_prob(at)
    lab.same("shapes of logistic normal", [logistic.batch_shape, logistic.event_shape])
    lab.close("logistic normal", score.detach(), roundings=512)
    for name, tensor in (("place", location), ("scale", scale)):
        (gradient,) = torch.autograd.grad(score.sum(), tensor, retain_graph=True)
        lab.close(f"gradient of logistic normal by {name}", gradient, roundings=1 << 12)


@behaviour(
    "distributions",
    dtypes=("float32", "float64"),
    must_detect=("value",),
    page="notes/numerical_accuracy.html",
    basis="parity",
    ground=(
        "The page says that results for ill-conditioned matrices and extremal values may be wrong and "
        "differ between devices"
    ),
)
def badly_conditioned_parameters(lab: Lab) -> None:
    """Results are finite for MultivariateNormal and Wishart with a nearly singular precision matrix, and for
    ContinuousBernoulli with the largest logits.
    """
    x = torch.arange(10, device=lab.device, dtype=lab.dtype)
    precision = torch.exp(-((x - x.unsqueeze(-1)) ** 2) / 8)
    precision = precision + torch.eye(10, device=lab.device, dtype=lab.dtype) * 1e-2
    normal = D.MultivariateNormal(torch.zeros_like(x), precision_matrix=precision)
    results = [normal.scale_tril, normal.sample(), normal.log_prob(torch.zeros_like(x))]
    lab.holds(
        "results of MultivariateNormal are finite", all(bool(tensor.isfinite().all()) for tensor in results)
    )
    lab.close("score at the mean", results[2].float(), roundings=1 << 14)
    wishart = D.Wishart(torch.tensor(12.0, device=lab.device, dtype=lab.dtype), precision_matrix=precision)
    lab.holds("scale_tril of Wishart is finite", bool(wishart.scale_tril.isfinite().all()))
    lab.holds("the mean of Wishart is finite", bool(wishart.mean.isfinite().all()))
    limit = torch.finfo(lab.dtype).max / 4
    coin = D.ContinuousBernoulli(logits=lab.put([limit], dtype=lab.dtype), validate_args=False)
    high = coin.log_prob(lab.put([1.0], dtype=lab.dtype))
    lab.close("a continuous coin, high", high, roundings=1 << 14)
    lab.holds("log_prob of ContinuousBernoulli is finite", bool(high.isfinite().all()))
