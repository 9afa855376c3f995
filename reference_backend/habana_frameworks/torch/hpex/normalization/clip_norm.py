"""Clipping of gradients by their norm together; `torch.ops.hpu.fused_clip_norm` computes it."""

from __future__ import annotations

from collections.abc import Iterable

from habana_frameworks.torch.core.step_closure import _mark_step_if_lazy

import torch


class FusedClipNorm:
    """Clips gradients of parameters so that their norm together is at most a number."""

    def __init__(self, parameters: Iterable[torch.Tensor] | torch.Tensor, max_norm: float) -> None:
        """Remember the bound.

        Args:
            parameters: parameters; their device holds the bound.
            max_norm: largest norm.
        """
        given = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        device = given[0].device if given else torch.device("hpu")
        self.max_norm = float(max_norm)
        self.max_norm_t = torch.tensor(self.max_norm, device=device)
        self.norm_type = 2.0

    def clip_norm(self, parameters: Iterable[torch.Tensor] | torch.Tensor) -> torch.Tensor:
        """Scale gradients in place and return their norm before; 0.0 if there are none."""
        given = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        gradients = [one.grad for one in given if one.grad is not None]
        if not gradients:
            return torch.tensor(0.0)
        _mark_step_if_lazy()
        with torch.no_grad():
            norm: torch.Tensor = torch.ops.hpu.fused_clip_norm(gradients, self.max_norm_t, self.norm_type)
        _mark_step_if_lazy()
        return norm
