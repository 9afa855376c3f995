"""Faults of random numbers: seeds, states and generators without effect, and wrong distributions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch

from conformance.behaviours.lab import Lab
from tests.injected_faults.api import faults


@contextlib.contextmanager
def manual_seed_ignored(lab: Lab) -> Iterator[None]:
    """Make torch.manual_seed leave the state unchanged."""
    with mock.patch.object(torch, "manual_seed", lambda seed: torch.default_generator):
        yield


@contextlib.contextmanager
def set_rng_state_ignored(lab: Lab) -> Iterator[None]:
    """Make torch.set_rng_state leave the state unchanged."""
    with mock.patch.object(torch, "set_rng_state", lambda state: None):
        yield


@contextlib.contextmanager
def rand_ignores_generator(lab: Lab) -> Iterator[None]:
    """Make torch.rand ignore ``generator=`` and draw from the default generator."""
    real = torch.rand

    def rand(*sizes: Any, generator: Any = None, **options: Any) -> torch.Tensor:
        return real(*sizes, **options)

    with mock.patch.object(torch, "rand", rand):
        yield


@contextlib.contextmanager
def random_numbers_half_as_large(lab: Lab) -> Iterator[None]:
    """Make random operators draw numbers that are half as large."""
    names = ("uniform_", "normal_", "random_", "exponential_", "cauchy_", "log_normal_", "geometric_")
    with contextlib.ExitStack() as stack:
        for name in names:
            real = getattr(torch.Tensor, name)

            def half(self: torch.Tensor, *args: Any, _real: Any = real, **options: Any) -> torch.Tensor:
                drawn: torch.Tensor = _real(self, *args, **options)
                return (
                    drawn.div_(2, rounding_mode="trunc") if not drawn.is_floating_point() else drawn.div_(2)
                )

            stack.enter_context(mock.patch.object(torch.Tensor, name, half))
        yield


@contextlib.contextmanager
def bernoulli_always_ones(lab: Lab) -> Iterator[None]:
    """For any probabilities, make bernoulli_ fill with ones and multinomial draw the first category."""

    def bernoulli(self: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        return self.fill_(1)

    def multinomial(weights: torch.Tensor, count: int, *args: Any, **options: Any) -> torch.Tensor:
        return torch.zeros((*weights.shape[:-1], count), dtype=torch.int64, device=weights.device)

    with (
        mock.patch.object(torch.Tensor, "bernoulli_", bernoulli),
        mock.patch.object(torch, "multinomial", multinomial),
    ):
        yield


faults.NAMED |= {
    "seeds-repeat": manual_seed_ignored,
    "random-in-parts": manual_seed_ignored,
    "device-random-state": set_rng_state_ignored,
    "generator-objects": rand_ignores_generator,
    "uniform-numbers": random_numbers_half_as_large,
    "normal-numbers": random_numbers_half_as_large,
    "random-integers": random_numbers_half_as_large,
    "special-distributions": random_numbers_half_as_large,
    "bernoulli-draws": bernoulli_always_ones,
    "multinomial-draws": bernoulli_always_ones,
}
