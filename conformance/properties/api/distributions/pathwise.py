"""Behaviours of the gradients of Beta and Dirichlet samples with respect to the distributions' parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy
import torch
from torch import distributions as D

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.random.values import SIGMAS

#: The allowed error of pathwise gradients, relative to the largest gradient. Torch approximates these
#: gradients by series and rational functions.
TOLERANCE = 1e-2


def _derivatives_of_beta_samples(x: torch.Tensor, a: float, b: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return dx/da and dx/db for samples ``x`` of Beta(a, b). The cumulative probability of ``x`` is held
    constant.

    The derivatives are computed by integrals of the density.
    """
    knots, weights = (torch.from_numpy(array) for array in numpy.polynomial.legendre.leggauss(96))
    inner = x.unsqueeze(-1) * (knots + 1) / 2
    constant = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)

    def beta_density(t: torch.Tensor) -> torch.Tensor:
        return (constant + (a - 1) * t.log() + (b - 1) * torch.log1p(-t)).exp()

    total, first, second = (torch.digamma(torch.tensor(c, dtype=torch.float64)) for c in (a + b, a, b))
    shares = beta_density(inner) * weights * x.unsqueeze(-1) / 2
    by_a = (shares * (inner.log() - first + total)).sum(-1)
    by_b = (shares * (torch.log1p(-inner) - second + total)).sum(-1)
    return -by_a / beta_density(x), -by_b / beta_density(x)


def _agree_within_tolerance(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    return bool(((actual - expected).abs() <= TOLERANCE * expected.abs().max()).all())


@behaviour(
    "distributions",
    capabilities=("autograd",),
    must_detect=(),
    ground=(
        "The page calls rsample a differentiable function of noise without parameters; monotone functions "
        "have these derivatives"
    ),
)
def pathwise_gradients(lab: Lab) -> None:
    """``rsample`` of Beta and Dirichlet passes pathwise gradients to its parameters: the derivatives of a
    sample at constant cumulative probability. The average gradient of a function of samples is the derivative
    of the function's mean.
    """

    def float64_leaf(numbers: Any) -> Any:
        return lab.put(numbers, dtype=torch.float64, requires_grad=True)

    for a, b in ((2.0, 2.0), (3.0, 5.0), (12.0, 2.5)):
        first, second = float64_leaf([a] * 24), float64_leaf([b] * 24)
        drawn = D.Beta(first, second).rsample()
        drawn.sum().backward()
        by_a, by_b = _derivatives_of_beta_samples(drawn.detach().cpu(), a, b)
        lab.holds(
            f"gradients of Beta({a}, {b}) by the first parameter",
            _agree_within_tolerance(first.grad.cpu(), by_a),
        )
        lab.holds(
            f"gradients of Beta({a}, {b}) by the second parameter",
            _agree_within_tolerance(second.grad.cpu(), by_b),
        )
    numbers = [2.0, 3.0, 4.5]
    parameters = float64_leaf([numbers] * 24)
    drawn = D.Dirichlet(parameters).rsample()
    for index, own in enumerate(numbers):
        (gradient,) = torch.autograd.grad(drawn[:, index].sum(), parameters, retain_graph=True)
        by_own, _ = _derivatives_of_beta_samples(drawn[:, index].detach().cpu(), own, sum(numbers) - own)
        lab.holds(
            f"gradient of Dirichlet element {index} by its parameter",
            _agree_within_tolerance(gradient[:, index].cpu(), by_own),
        )
    (gradient,) = torch.autograd.grad(drawn.sum(), parameters)
    lab.holds("gradients keep the sum of a sample constant", bool((gradient.abs() < 1e-6).all()))
    count = 4000
    parameters = float64_leaf([numbers] * count)
    drawn = D.Dirichlet(parameters).rsample()
    host_parameters: Any = torch.tensor(numbers, dtype=torch.float64, requires_grad=True)
    whole = host_parameters.sum()
    for first_index in range(3):
        for second_index in range(first_index, 3):
            (gradient,) = torch.autograd.grad(
                (drawn[:, first_index] * drawn[:, second_index]).sum(), parameters, retain_graph=True
            )
            mean = (
                host_parameters[first_index]
                * (host_parameters[second_index] + (1 if first_index == second_index else 0))
                / (whole * (whole + 1))
            )
            (expected,) = torch.autograd.grad(mean, host_parameters, retain_graph=True)
            host_gradient = gradient.cpu()
            allowed = SIGMAS * host_gradient.std(0) / math.sqrt(count) + TOLERANCE * expected.abs()
            agrees = ((host_gradient.mean(0) - expected).abs() <= allowed).all()
            lab.holds(f"gradient of the mean of {first_index} times {second_index}", bool(agrees))
