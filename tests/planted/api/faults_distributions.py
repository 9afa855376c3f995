"""Faults of samplers: what is drawn is too large, or carries no gradient."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch import distributions as D

from conformance.behaviours.lab import Lab
from tests.planted.api import faults


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


faults.NAMED |= {
    "sample-moments": drawn_too_large,
    "vector-sample-moments": drawn_too_large,
    "sample-gradients": scale_forgotten,
}
