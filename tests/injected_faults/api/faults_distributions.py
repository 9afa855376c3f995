"""Faults of samplers: numbers that are too large, and missing gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch import distributions as D

from conformance.behaviours.lab import Lab
from tests.injected_faults.api import faults


@contextlib.contextmanager
def samples_too_large(lab: Lab) -> Iterator[None]:
    """Make normal, gamma, uniform and Dirichlet samplers return numbers that are 1.5 times too large."""
    with contextlib.ExitStack() as stack:
        for owner, name in (
            (torch, "normal"),
            (torch, "_standard_gamma"),
            (torch, "rand"),
            (torch, "poisson"),
        ):
            real = getattr(owner, name)

            def larger(*args: Any, _real: Any = real, **options: Any) -> torch.Tensor:
                return _real(*args, **options) * 1.5

            stack.enter_context(mock.patch.object(owner, name, larger))
        sampler = D.MultivariateNormal.rsample
        stack.enter_context(
            mock.patch.object(
                D.MultivariateNormal, "rsample", lambda self, shape=(): sampler(self, shape) * 1.5
            )
        )
        yield


@contextlib.contextmanager
def normal_scale_detached(lab: Lab) -> Iterator[None]:
    """Make rsample of Normal detach its scale."""

    def rsample(self: D.Normal, sample_shape: Any = ()) -> torch.Tensor:
        shape = self._extended_shape(sample_shape)
        return (
            self.loc + torch.randn(shape, dtype=self.loc.dtype, device=self.loc.device) * self.scale.detach()
        )

    with mock.patch.object(D.Normal, "rsample", rsample):
        yield


@contextlib.contextmanager
def dirichlet_gradients_too_large(lab: Lab) -> Iterator[None]:
    """Make the implicit gradients of Dirichlet samples 1.2 times too large."""
    real = torch._dirichlet_grad
    with mock.patch.object(torch, "_dirichlet_grad", lambda *args: real(*args) * 1.2):
        yield


@contextlib.contextmanager
def student_t_samples_doubled(lab: Lab) -> Iterator[None]:
    """Make samples of Student's t distribution twice as wide."""
    real = D.StudentT.rsample
    with mock.patch.object(D.StudentT, "rsample", lambda self, shape=(): real(self, shape) * 2):
        yield


@contextlib.contextmanager
def binomial_counts_one_too_few(lab: Lab) -> Iterator[None]:
    """Make binomial counts smaller by one."""
    real = torch.binomial
    with mock.patch.object(torch, "binomial", lambda *args, **options: real(*args, **options) - 1):
        yield


@contextlib.contextmanager
def poisson_ignores_generator(lab: Lab) -> Iterator[None]:
    """Make the Poisson sampler draw only from the default generator."""
    real = torch.poisson
    with mock.patch.object(torch, "poisson", lambda rate, generator=None: real(rate)):
        yield


@contextlib.contextmanager
def draws_in_ascending_order(lab: Lab) -> Iterator[None]:
    """Make drawing without replacement return categories in ascending order."""
    real = torch.multinomial
    with mock.patch.object(torch, "multinomial", lambda *args: real(*args).sort(-1).values):
        yield


faults.NAMED |= {
    "pathwise-gradients": dirichlet_gradients_too_large,
    "samples-of-heavy-tails": student_t_samples_doubled,
    "counts-of-binomial": binomial_counts_one_too_few,
    "samplers-with-generators": poisson_ignores_generator,
    "orders-without-repetition": draws_in_ascending_order,
    "sample-moments": samples_too_large,
    "vector-sample-moments": samples_too_large,
    "sample-gradients": normal_scale_detached,
}
