"""Faults of samplers: what is drawn is too large, or carries no gradient."""

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
def drawn_too_large(lab: Lab) -> Iterator[None]:
    """Normal, gamma, uniform and Dirichlet samplers give numbers that are half as large again."""
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
def scale_forgotten(lab: Lab) -> Iterator[None]:
    """rsample of Normal detaches its scale."""

    def rsample(self: D.Normal, sample_shape: Any = ()) -> torch.Tensor:
        shape = self._extended_shape(sample_shape)
        return (
            self.loc + torch.randn(shape, dtype=self.loc.dtype, device=self.loc.device) * self.scale.detach()
        )

    with mock.patch.object(D.Normal, "rsample", rsample):
        yield


@contextlib.contextmanager
def steeper_dirichlet(lab: Lab) -> Iterator[None]:
    """The implicit gradients of Dirichlet samples are a fifth too large."""
    real = torch._dirichlet_grad
    with mock.patch.object(torch, "_dirichlet_grad", lambda *args: real(*args) * 1.2):
        yield


@contextlib.contextmanager
def samples_doubled(lab: Lab) -> Iterator[None]:
    """Samples of Student's distribution are twice as wide."""
    real = D.StudentT.rsample
    with mock.patch.object(D.StudentT, "rsample", lambda self, shape=(): real(self, shape) * 2):
        yield


@contextlib.contextmanager
def one_count_too_few(lab: Lab) -> Iterator[None]:
    """Binomial counts are one too small."""
    real = torch.binomial
    with mock.patch.object(torch, "binomial", lambda *args, **options: real(*args, **options) - 1):
        yield


@contextlib.contextmanager
def generators_ignored(lab: Lab) -> Iterator[None]:
    """The Poisson sampler draws from the default generator alone."""
    real = torch.poisson
    with mock.patch.object(torch, "poisson", lambda rate, generator=None: real(rate)):
        yield


@contextlib.contextmanager
def orders_of_the_indices(lab: Lab) -> Iterator[None]:
    """Drawing without replacement gives categories in rising order."""
    real = torch.multinomial
    with mock.patch.object(torch, "multinomial", lambda *args: real(*args).sort(-1).values):
        yield


faults.NAMED |= {
    "pathwise-gradients": steeper_dirichlet,
    "samples-of-heavy-tails": samples_doubled,
    "counts-of-binomial": one_count_too_few,
    "samplers-with-generators": generators_ignored,
    "orders-without-repetition": orders_of_the_indices,
    "sample-moments": drawn_too_large,
    "vector-sample-moments": drawn_too_large,
    "sample-gradients": scale_forgotten,
}
