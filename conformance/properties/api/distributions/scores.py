"""Behaviours of log-densities, moments and cumulative distribution functions of ``torch.distributions``."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import distributions as D

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab

Formula = Callable[..., float]


def _log_binomial(n: float, k: float) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _normal_log_density(x: float, m: float, s: float) -> float:
    return -(((x - m) / s) ** 2) / 2 - math.log(s) - math.log(2 * math.pi) / 2


def _log_student_density(x: float, n: float, m: float, s: float) -> float:
    z = (x - m) / s
    scale = math.lgamma((n + 1) / 2) - math.lgamma(n / 2) - math.log(n * math.pi) / 2 - math.log(s)
    return scale - (n + 1) / 2 * math.log1p(z * z / n)


def _log_fisher_density(x: float, a: float, b: float) -> float:
    ratio = a / b
    scale = a / 2 * math.log(ratio) - _log_beta(a / 2, b / 2)
    return scale + (a / 2 - 1) * math.log(x) - (a + b) / 2 * math.log1p(ratio * x)


def _log_bernoulli_mass(x: float, p: float) -> float:
    return x * math.log(p) + (1 - x) * math.log1p(-p)


def _log_continuous_bernoulli_density(x: float, p: float) -> float:
    return _log_bernoulli_mass(x, p) + math.log(2 * math.atanh(1 - 2 * p) / (1 - 2 * p))


def _log_gamma_density(x: float, a: float, r: float) -> float:
    return a * math.log(r) + (a - 1) * math.log(x) - r * x - math.lgamma(a)


#: Scalar distributions by name. Each entry has the class, the parameters, values at which ``log_prob`` is
#: checked, and the formula of the log-density.
SCALAR_DISTRIBUTIONS: dict[str, tuple[Any, dict[str, list[float]], list[float], Formula]] = {
    "Bernoulli": (D.Bernoulli, {"probs": [0.7, 0.2, 0.4]}, [1, 0, 1], _log_bernoulli_mass),
    "Beta": (
        D.Beta,
        {"concentration1": [0.5, 2.0, 3.0], "concentration0": [1.5, 1.0, 2.0]},
        [0.2, 0.5, 0.9],
        lambda x, a, b: (a - 1) * math.log(x) + (b - 1) * math.log1p(-x) - _log_beta(a, b),
    ),
    "Binomial": (
        D.Binomial,
        {"total_count": [10, 5, 1], "probs": [0.3, 0.6, 0.9]},
        [4, 5, 0],
        lambda x, n, p: _log_binomial(n, x) + x * math.log(p) + (n - x) * math.log1p(-p),
    ),
    "Cauchy": (
        D.Cauchy,
        {"loc": [0.0, 1.0, -2.0], "scale": [1.0, 0.5, 3.0]},
        [0.3, -2.0, 5.0],
        lambda x, m, s: -math.log(math.pi * s) - math.log1p(((x - m) / s) ** 2),
    ),
    "Chi2": (
        D.Chi2,
        {"df": [1.0, 3.0, 7.5]},
        [0.5, 2.0, 9.0],
        lambda x, n: _log_gamma_density(x, n / 2, 0.5),
    ),
    "ContinuousBernoulli": (
        D.ContinuousBernoulli,
        {"probs": [0.7, 0.2, 0.4]},
        [0.1, 0.5, 0.9],
        _log_continuous_bernoulli_density,
    ),
    "Exponential": (
        D.Exponential,
        {"rate": [0.2, 1.0, 5.0]},
        [0.1, 2.0, 0.4],
        lambda x, r: math.log(r) - r * x,
    ),
    "FisherSnedecor": (
        D.FisherSnedecor,
        {"df1": [1.0, 3.0, 5.0], "df2": [5.0, 6.0, 9.0]},
        [0.3, 1.0, 4.0],
        _log_fisher_density,
    ),
    "Gamma": (
        D.Gamma,
        {"concentration": [0.5, 2.0, 9.0], "rate": [1.0, 0.5, 3.0]},
        [0.2, 3.0, 2.5],
        _log_gamma_density,
    ),
    "Geometric": (
        D.Geometric,
        {"probs": [0.7, 0.2, 0.4]},
        [0, 3, 5],
        lambda x, p: x * math.log1p(-p) + math.log(p),
    ),
    "Gumbel": (
        D.Gumbel,
        {"loc": [0.0, 1.0, -2.0], "scale": [1.0, 0.5, 3.0]},
        [0.3, 2.0, -4.0],
        lambda x, m, s: -(x - m) / s - math.exp(-(x - m) / s) - math.log(s),
    ),
    "HalfCauchy": (
        D.HalfCauchy,
        {"scale": [1.0, 0.5, 3.0]},
        [0.3, 2.0, 1.0],
        lambda x, s: math.log(2 / math.pi / s) - math.log1p((x / s) ** 2),
    ),
    "HalfNormal": (
        D.HalfNormal,
        {"scale": [1.0, 0.5, 3.0]},
        [0.3, 1.0, 2.0],
        lambda x, s: _normal_log_density(x, 0, s) + math.log(2),
    ),
    "InverseGamma": (
        D.InverseGamma,
        {"concentration": [3.0, 4.0, 5.0], "rate": [1.0, 0.5, 2.0]},
        [0.3, 1.0, 2.0],
        lambda x, a, r: a * math.log(r) - math.lgamma(a) - (a + 1) * math.log(x) - r / x,
    ),
    "Kumaraswamy": (
        D.Kumaraswamy,
        {"concentration1": [0.5, 2.0, 3.0], "concentration0": [1.5, 1.0, 2.0]},
        [0.2, 0.5, 0.9],
        lambda x, a, b: math.log(a * b) + (a - 1) * math.log(x) + (b - 1) * math.log1p(-(x**a)),
    ),
    "Laplace": (
        D.Laplace,
        {"loc": [0.0, 1.0, -2.0], "scale": [1.0, 0.5, 3.0]},
        [0.3, 2.0, -4.0],
        lambda x, m, s: -math.log(2 * s) - abs(x - m) / s,
    ),
    "LogNormal": (
        D.LogNormal,
        {"loc": [0.0, 1.0, -0.5], "scale": [1.0, 0.5, 0.75]},
        [0.3, 2.0, 1.5],
        lambda x, m, s: _normal_log_density(math.log(x), m, s) - math.log(x),
    ),
    "NegativeBinomial": (
        D.NegativeBinomial,
        {"total_count": [10, 5, 1], "probs": [0.3, 0.6, 0.5]},
        [4, 5, 0],
        lambda x, n, p: _log_binomial(n + x - 1, x) + n * math.log1p(-p) + x * math.log(p),
    ),
    "Normal": (
        D.Normal,
        {"loc": [0.0, 1.0, -2.0], "scale": [1.0, 0.5, 3.0]},
        [0.3, 2.0, -4.0],
        _normal_log_density,
    ),
    "Pareto": (
        D.Pareto,
        {"scale": [1.0, 0.5, 2.0], "alpha": [3.0, 4.0, 2.5]},
        [1.3, 2.0, 4.0],
        lambda x, s, a: math.log(a) + a * math.log(s) - (a + 1) * math.log(x),
    ),
    "Poisson": (
        D.Poisson,
        {"rate": [0.5, 3.0, 7.0]},
        [0, 2, 9],
        lambda x, r: x * math.log(r) - r - math.lgamma(x + 1),
    ),
    "StudentT": (
        D.StudentT,
        {"df": [3.0, 5.0, 9.0], "loc": [0.0, 1.0, -2.0], "scale": [1.0, 0.5, 3.0]},
        [0.3, 2.0, -4.0],
        _log_student_density,
    ),
    "Uniform": (
        D.Uniform,
        {"low": [0.0, -1.0, 2.0], "high": [1.0, 3.0, 2.5]},
        [0.3, 2.0, 2.25],
        lambda x, a, b: -math.log(b - a),
    ),
    "Weibull": (
        D.Weibull,
        {"scale": [1.0, 0.5, 3.0], "concentration": [1.0, 2.0, 0.75]},
        [0.3, 0.6, 2.0],
        lambda x, s, k: math.log(k / s) + (k - 1) * math.log(x / s) - (x / s) ** k,
    ),
}

#: Distributions with parameters for which the density is unbounded or has several maxima.
_WITHOUT_UNIQUE_MODE = (
    "Beta",
    "Chi2",
    "FisherSnedecor",
    "Gamma",
    "Kumaraswamy",
    "NegativeBinomial",
    "Poisson",
    "Uniform",
    "Weibull",
)

#: The names of parameters that are counts and therefore have no gradient.
COUNT_PARAMETERS = ("total_count",)


def make_distribution(lab: Lab, name: str, *, grad: bool = False) -> tuple[Any, dict[str, torch.Tensor]]:
    """Return a distribution of ``SCALAR_DISTRIBUTIONS`` and its parameters by name. The parameters are
    float64 tensors on the device.
    """
    kind, parameters, _, _ = SCALAR_DISTRIBUTIONS[name]
    tensors = {
        parameter: lab.put(
            numbers, dtype=torch.float64, requires_grad=grad and parameter not in COUNT_PARAMETERS
        )
        for parameter, numbers in parameters.items()
    }
    return kind(**tensors), tensors


def none_if_not_implemented(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or None if the call raises NotImplementedError."""
    try:
        return call()
    except NotImplementedError:
        return None


@behaviour(
    "distributions",
    level="training",
    must_detect=("value",),
    ground=(
        "The page defines log_prob as the log of the density; the formulas follow from the distributions' "
        "definitions"
    ),
)
def log_densities(lab: Lab) -> None:
    """``log_prob`` of each scalar distribution equals its closed form. The result is on the device of the
    parameters.
    """
    for name, (_, parameters, values, formula) in SCALAR_DISTRIBUTIONS.items():
        dist, _ = make_distribution(lab, name)
        expected = [formula(x, *row) for x, *row in zip(values, *parameters.values(), strict=True)]
        points = lab.put([float(x) for x in values], dtype=torch.float64)
        lab.expect(
            f"log_prob of {name}",
            dist.log_prob(points),
            torch.tensor(expected, dtype=torch.float64),
            roundings=4096,
        )
        lab.same(f"facts of {name}", [dist.batch_shape, dist.event_shape, dist.has_rsample])
        with lab.parity("No page says how a distribution is printed"):
            lab.holds(f"the repr of {name} starts with its name", repr(dist).startswith(name))
    for name in ("Bernoulli", "Geometric", "Binomial", "NegativeBinomial", "ContinuousBernoulli"):
        _, tensors = make_distribution(lab, name)
        points = lab.put([float(x) for x in SCALAR_DISTRIBUTIONS[name][2]], dtype=torch.float64)
        logits = tensors.pop("probs").logit()
        lab.close(
            f"log_prob of {name} by logits",
            SCALAR_DISTRIBUTIONS[name][0](logits=logits, **tensors).log_prob(points),
            roundings=4096,
        )


@behaviour("distributions", must_detect=("value",))
def moments(lab: Lab) -> None:
    """Mean, variance, standard deviation, mode and entropy of each distribution equal the CPU's results. Some
    of these moments are also compared with their formulas.
    """
    for name in SCALAR_DISTRIBUTIONS:
        dist, _ = make_distribution(lab, name)
        for moment_name in ("mean", "variance", "stddev", "mode"):
            defined = name not in _WITHOUT_UNIQUE_MODE if moment_name == "mode" else name != "Cauchy"
            with (
                contextlib.nullcontext()
                if defined
                else lab.parity(
                    "No page says which value an undefined moment has, or which of several modes is returned"
                )
            ):
                moment = none_if_not_implemented(lambda: getattr(dist, moment_name))
                lab.close(f"{moment_name} of {name}", moment, roundings=4096)
        lab.close(f"entropy of {name}", none_if_not_implemented(dist.entropy), roundings=1 << 16)
    lab.expect("mean of Gamma", make_distribution(lab, "Gamma")[0].mean, [0.5, 4.0, 3.0], roundings=8)
    lab.expect(
        "variance of Uniform",
        make_distribution(lab, "Uniform")[0].variance,
        [1 / 12, 16 / 12, 0.25 / 12],
        roundings=16,
    )
    lab.expect("mean of Poisson", make_distribution(lab, "Poisson")[0].mean, [0.5, 3.0, 7.0], roundings=4)
    entropy = D.Bernoulli(lab.put([0.0, 0.5, 1.0], dtype=torch.float64)).entropy()
    lab.expect("entropy of coins", entropy, [0.0, math.log(2), 0.0], roundings=8192)
    wide = D.Cauchy(lab.put(0.0), lab.put(1.0))
    with lab.parity("The mean of a Cauchy distribution is undefined, and no page says that it is NaN"):
        lab.holds("the mean of Cauchy is NaN", bool(wide.mean.isnan()))
    with lab.parity(
        "The variance of a Cauchy distribution is undefined, and no page says that it is infinite"
    ):
        lab.holds("the variance of Cauchy is infinite", bool(wide.variance.isinf()))
    heavy = D.StudentT(lab.put([1.0, 2.0]))
    with lab.parity("No page says whether undefined moments are NaN"):
        lab.same(
            "moments of heavy tails", [heavy.mean.isnan(), heavy.variance.isnan(), heavy.variance.isinf()]
        )
    lab.same(
        "of Pareto's",
        [
            D.Pareto(lab.put(1.0), lab.put(0.5)).mean.isinf(),
            D.Pareto(lab.put(1.0), lab.put(0.5)).variance.isinf(),
        ],
    )
    with lab.parity("No page says whether undefined moments are NaN"):
        lab.same(
            "of Fisher's",
            [
                D.FisherSnedecor(1, lab.put(2.0)).mean.isnan(),
                D.FisherSnedecor(1, lab.put(4.0)).variance.isnan(),
            ],
        )


@behaviour(
    "distributions",
    must_detect=("value",),
    capabilities=("autograd",),
    ground="The page's example differentiates log_prob; the gradients follow from the densities' definitions",
)
def density_gradients(lab: Lab) -> None:
    """Gradients of ``log_prob`` with respect to parameters and values equal the CPU's gradients."""
    for name, (_, _, values, _) in SCALAR_DISTRIBUTIONS.items():
        dist, tensors = make_distribution(lab, name, grad=True)
        points = lab.put(
            [float(x) for x in values], dtype=torch.float64, requires_grad=not dist.support.is_discrete
        )
        dist.log_prob(points).sum().backward()
        for parameter, tensor in tensors.items():
            if tensor.requires_grad:
                lab.close(f"gradient of {name} by {parameter}", tensor.grad, roundings=1 << 14)
        if points.requires_grad:
            lab.close(f"gradient of {name} by the value", points.grad, roundings=1 << 14)


@behaviour("distributions", must_detect=("value",), capabilities=("autograd",))
def distribution_functions(lab: Lab) -> None:
    """A distribution's ``cdf``, if implemented, rises from 0 to 1, and its derivative is the density.
    ``icdf``, if implemented, is the inverse of ``cdf``.
    """
    for name, (_, _, values, _) in SCALAR_DISTRIBUTIONS.items():
        dist, _ = make_distribution(lab, name)
        points = lab.put([float(x) for x in values], dtype=torch.float64, requires_grad=True)
        probabilities = none_if_not_implemented(lambda: dist.cdf(points))
        lab.holds(f"{name} has a cdf" if probabilities is not None else f"{name} has no cdf", True)
        if probabilities is None:
            continue
        lab.close(f"cdf of {name}", probabilities.detach(), roundings=4096)
        lab.holds(
            f"cdf of {name} is between 0 and 1", bool(((probabilities >= 0) & (probabilities <= 1)).all())
        )
        (slope,) = torch.autograd.grad(probabilities.sum(), points)
        density = dist.log_prob(points.detach()).exp()
        lab.holds(
            f"the derivative of the cdf of {name} is its density",
            torch.allclose(slope, density, rtol=1e-6, atol=1e-9),
        )
        back = none_if_not_implemented(lambda: dist.icdf(probabilities.detach()))
        if back is not None:
            lab.holds(
                f"icdf of {name} is the inverse of its cdf",
                torch.allclose(back, points.detach(), rtol=1e-6, atol=1e-8),
            )
    normal = D.Normal(lab.put(0.0, dtype=torch.float64), lab.put(1.0, dtype=torch.float64))
    lab.expect(
        "one plus the absolute median of Normal",
        normal.icdf(lab.put(0.5, dtype=torch.float64)).abs() + 1,
        1.0,
        roundings=8,
    )
    line = D.Uniform(lab.put(0.0), lab.put(2.0), validate_args=False)
    lab.expect("cdf beyond the ends", line.cdf(lab.put([-1.0, 1.0, 3.0])), [0.0, 0.5, 1.0], roundings=4)
    lab.expect("log_prob beyond the ends", line.log_prob(lab.put([-1.0, 3.0])), [-math.inf, -math.inf])
    steep = D.Gumbel(lab.put(0.0), lab.put(1.0), validate_args=False)
    lab.expect("a Gumbel far out", steep.cdf(lab.put([-5.0, 20.0])).round(), [0.0, 1.0])


@behaviour(
    "distributions",
    dtypes=("float32", "float64"),
    must_detect=("value",),
    capabilities=("autograd",),
    basis="parity",
    ground="No page promises exact scores or gradients without NaN at the limits of the parameters",
)
def extreme_scores(lab: Lab) -> None:
    """``log_prob`` at the limits of the parameters is exact or infinite. Neither ``log_prob`` nor its
    gradients are NaN.
    """

    def log_prob_with_observed_gradients(
        kind: Any, x: list[float], **parameter_lists: list[float]
    ) -> torch.Tensor:
        parameters = {
            parameter: lab.put(numbers, dtype=lab.dtype, requires_grad=True)
            for parameter, numbers in parameter_lists.items()
        }
        log_density: torch.Tensor = kind(**parameters, validate_args=False).log_prob(
            lab.put(x, dtype=lab.dtype)
        )
        log_density.sum().backward()
        for parameter, tensor in parameters.items():
            lab.close(f"gradient of {kind.__name__} {x} by {parameter}", tensor.grad, roundings=1 << 14)
        return log_density.detach()

    limit = torch.finfo(lab.dtype).max / 4
    lab.expect(
        "never and never",
        log_prob_with_observed_gradients(D.Bernoulli, [0.0], probs=[0.0]),
        [0.0],
        roundings=4,
    )
    lab.same("never and yet", log_prob_with_observed_gradients(D.Bernoulli, [1.0], probs=[0.0]).isfinite())
    with lab.documented():
        lab.expect(
            "rarely",
            log_prob_with_observed_gradients(D.Bernoulli, [1.0], probs=[1e-4]),
            [math.log(1e-4)],
            roundings=64,
        )
    lab.expect("an underflow", log_prob_with_observed_gradients(D.Bernoulli, [0.0], logits=[-limit]), [0.0])
    lab.expect("an overflow", log_prob_with_observed_gradients(D.Bernoulli, [1.0], logits=[limit]), [0.0])
    lab.expect(
        "OneHotCategorical with probability one",
        log_prob_with_observed_gradients(D.OneHotCategorical, [0.0, 1.0], probs=[0.0, 1.0]).exp(),
        1.0,
        roundings=8,
    )
    lab.expect(
        "by logits",
        log_prob_with_observed_gradients(D.Multinomial, [0.0, 1.0], logits=[-30.0, 0.0]).abs() < 1e-6,
        True,
    )
    impossible = D.OneHotCategorical(logits=lab.put([-math.inf, 0.0], dtype=lab.dtype))
    lab.expect(
        "the impossible",
        impossible.log_prob(lab.put([[0.0, 1.0], [1.0, 0.0]], dtype=lab.dtype)),
        [0.0, -math.inf],
    )
    many = D.Multinomial(10, logits=lab.put([-math.inf, 0.0], dtype=lab.dtype))
    lab.expect(
        "ten of the impossible",
        many.log_prob(lab.put([[0.0, 10.0], [10.0, 0.0]], dtype=lab.dtype)),
        [0.0, -math.inf],
    )
    lab.holds(
        "a stable binomial",
        bool(
            log_prob_with_observed_gradients(D.Binomial, [0.0, 0.0], logits=[-100.0, 100.0]).isfinite().all()
        ),
    )
    with lab.documented():
        lab.expect(
            "at even odds",
            log_prob_with_observed_gradients(D.Binomial, [0.0], logits=[0.0]),
            [-math.log(2)],
            roundings=8,
        )
    lab.close(
        "a continuous coin, low",
        log_prob_with_observed_gradients(D.ContinuousBernoulli, [0.0], logits=[-limit]),
        roundings=1 << 14,
    )
    with lab.documented():
        lab.close(
            "a continuous coin",
            log_prob_with_observed_gradients(D.ContinuousBernoulli, [0.1, 0.9], probs=[0.1, 0.4]),
            roundings=1 << 14,
        )
    zero = lab.put(0.0, dtype=lab.dtype)
    with lab.documented():
        # The densities are compared, because the computed logarithm of 1 need not be exactly zero.
        lab.expect(
            "gamma at zero",
            D.Gamma(lab.put([0.5, 1.0, 2.0], dtype=lab.dtype), 1, validate_args=False).log_prob(zero).exp(),
            [math.inf, 1.0, 0.0],
            roundings=64,
        )
    corner = D.Dirichlet(lab.put([1.0, 2.0], dtype=lab.dtype)).log_prob(lab.put([0.0, 1.0], dtype=lab.dtype))
    with lab.documented():
        lab.expect("a corner of the simplex", corner, math.log(2), roundings=64)
    rate = lab.put(0.0, dtype=lab.dtype, requires_grad=True)
    D.Poisson(rate, validate_args=False).log_prob(lab.put(1.0, dtype=lab.dtype)).backward()
    lab.expect("the gradient of a rate of zero", rate.grad, math.inf)
    lab.expect("no event at rate zero", D.Poisson(zero, validate_args=False).log_prob(zero), 0.0)
    with lab.documented():
        lab.expect(
            "a sure success",
            D.Geometric(lab.put(1.0, dtype=lab.dtype)).log_prob(lab.put([0.0, 1.0], dtype=lab.dtype)),
            [0.0, -math.inf],
        )
    sure = D.Binomial(lab.put(100.0, dtype=lab.dtype), lab.put([0.0, 1.0], dtype=lab.dtype))
    with lab.documented():
        lab.expect("sure counts", sure.sample(), [0.0, 100.0])
    with lab.documented():
        lab.expect(
            "no counts",
            D.Binomial(lab.put([0.0, 0.0], dtype=lab.dtype), lab.put(1.0, dtype=lab.dtype)).sample(),
            [0.0, 0.0],
        )
