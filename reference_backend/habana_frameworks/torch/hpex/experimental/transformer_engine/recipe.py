"""Recipes of fp8 training: dtypes, and how scales are computed from observed magnitudes."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Literal

import torch

Amax = Literal["max", "most_recent"] | Callable[[torch.Tensor], torch.Tensor]


class Format(enum.Enum):
    """Fp8 dtypes of the forward pass and of the backward pass."""

    E4M3 = (torch.float8_e4m3fn, torch.float8_e4m3fn)
    E5M2 = (torch.float8_e5m2, torch.float8_e5m2)
    HYBRID = (torch.float8_e4m3fn, torch.float8_e5m2)

    @property
    def forward(self) -> torch.dtype:
        """Return the dtype of inputs and weights."""
        return self.value[0]

    @property
    def backward(self) -> torch.dtype:
        """Return the dtype of gradients."""
        return self.value[1]


@dataclasses.dataclass
class DelayedScaling:
    """A recipe that computes each fp8 scale from the largest magnitudes in earlier steps.

    Raises:
        ValueError: a field has an invalid value.
    """

    #: Headroom in bits: scales are divided by 2**margin.
    margin: int = 0
    #: Number of steps between two changes of a scale.
    interval: int = 1
    fp8_format: Format = Format.HYBRID
    #: Number of steps in the history of magnitudes.
    amax_history_len: int = 1
    #: The magnitude for the scale: the maximum of the history, the last entry, or a function of the history.
    amax_compute_algo: Amax = "most_recent"
    #: Function (magnitudes, previous scales, largest number of the dtype, recipe) -> scales; None for the
    #: default function.
    scaling_factor_compute_algo: Callable[..., torch.Tensor] | None = None
    #: Whether the ranks of a group use the maximum of their magnitudes.
    reduce_amax: bool = True
    #: Whether gradients are rounded stochastically.
    stochastic_rounding: bool = False

    def __post_init__(self) -> None:
        for name in ("interval", "amax_history_len"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} of DelayedScaling must be at least 1, but is {getattr(self, name)}")
        if not callable(self.amax_compute_algo) and self.amax_compute_algo not in ("max", "most_recent"):
            raise ValueError(
                "amax_compute_algo must be 'max', 'most_recent' or a function, but is "
                f"{self.amax_compute_algo!r}"
            )
