"""Exponential moving average of a model's state."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable

from habana_frameworks.torch.core.step_closure import _mark_step_if_lazy

import torch


class FusedEMA:
    """Exponential moving average of all floating-point entries of a model's ``state_dict``.

    The attribute `ema` is a copy of the model with the averages, in eval mode and without gradients.
    """

    def __init__(self, model: torch.nn.Module, decay: float = 0.9999, updates: int = 0) -> None:
        """Start the average with a copy of a model.

        Args:
            model: the model.
            decay: factor of the old average in a late step. Early steps use a smaller factor.
            updates: number of steps that the average already contains.

        Raises:
            ValueError: the decay is negative.
        """
        if decay < 0:
            raise ValueError(f"the decay of FusedEMA is negative: {decay}. Use a number from 0 to 1.")
        self.ema = copy.deepcopy(model).eval()
        for parameter in self.ema.parameters():
            parameter.requires_grad_(False)
        self.updates = updates
        self.base_decay = decay

    def decay(self, updates: int) -> float:
        """Return the factor of the old average in step number ``updates``.

        The factor grows from 0 to ``base_decay``, so that the first steps change the average noticeably.
        """
        return self.base_decay * (1 - math.exp(-updates / 2000))

    def update(self, model: torch.nn.Module) -> None:
        """Move the average towards the current state of the model."""
        _mark_step_if_lazy()
        self.updates += 1
        pairs = [
            (value.detach(), average)
            for value, average in zip(
                model.state_dict().values(), self.ema.state_dict().values(), strict=True
            )
            if isinstance(average, torch.Tensor) and average.dtype.is_floating_point
        ]
        if pairs:
            decay = torch.tensor(self.decay(self.updates), device=pairs[0][1].device)
            with torch.no_grad():
                torch.ops.hpu.optimizer_ema([p[0] for p in pairs], [p[1] for p in pairs], decay)
        _mark_step_if_lazy()

    def update_attr(
        self, model: torch.nn.Module, include: Iterable[str] = (), exclude: Iterable[str] = ("process_group",)
    ) -> None:
        """Copy attributes of the model, except names with a leading underscore, to the copy `ema`.

        Args:
            model: the model.
            include: names to copy; empty for all names.
            exclude: names that are not copied.
        """
        wanted, unwanted = set(include), set(exclude)
        for name, value in vars(model).items():
            if name.startswith("_") or name in unwanted or (wanted and name not in wanted):
                continue
            setattr(self.ema, name, value)
