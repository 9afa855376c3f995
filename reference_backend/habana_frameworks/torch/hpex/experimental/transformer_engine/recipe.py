"""Recipes: which fp8 formats are used, and how scales follow from the magnitudes that were seen."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Literal

import torch

Amax = Literal["max", "most_recent"] | Callable[[torch.Tensor], torch.Tensor]


class Format(enum.Enum):
    """Formats of the forward and of the backward pass."""

    E4M3 = (torch.float8_e4m3fn, torch.float8_e4m3fn)
    E5M2 = (torch.float8_e5m2, torch.float8_e5m2)
    HYBRID = (torch.float8_e4m3fn, torch.float8_e5m2)

    @property
    def forward(self) -> torch.dtype:
        """Dtype of inputs and weights."""
        return self.value[0]

    @property
    def backward(self) -> torch.dtype:
        """Dtype of gradients."""
        return self.value[1]


@dataclasses.dataclass
class DelayedScaling:
    """Scales from a history of largest magnitudes.

    Raises:
        ValueError: a field has a value that it cannot have.
    """

    #: The scale leaves so many bits of room.
    margin: int = 0
    #: Steps between two changes of a scale.
    interval: int = 1
    fp8_format: Format = Format.HYBRID
    #: Steps that are remembered.
    amax_history_len: int = 1
    #: The largest of the history, the last, or a function of it.
    amax_compute_algo: Amax = "most_recent"
    #: (magnitudes, scales before, largest number of the format, recipe) -> scales; None for the usual ones.
    scaling_factor_compute_algo: Callable[..., torch.Tensor] | None = None
    #: Whether all ranks of a group share the largest magnitudes.
    reduce_amax: bool = True
    #: Whether gradients are rounded at random.
    stochastic_rounding: bool = False

    def __post_init__(self) -> None:
        for name in ("interval", "amax_history_len"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"{name} of DelayedScaling counts steps, from 1: it is {getattr(self, name)}"
                )
        if not callable(self.amax_compute_algo) and self.amax_compute_algo not in ("max", "most_recent"):
            raise ValueError(
                f"amax_compute_algo is 'max', 'most_recent' or a function: it is {self.amax_compute_algo!r}"
            )
