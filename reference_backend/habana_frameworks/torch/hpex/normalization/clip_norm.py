"""Clip gradients by their total norm, computed by `torch.ops.hpu.fused_clip_norm`."""

from __future__ import annotations

from collections.abc import Iterable

from habana_frameworks.torch.core.step_closure import _mark_step_if_lazy
from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

import torch


class FusedClipNorm:
    """Clipper of gradients, so that their total norm does not exceed a maximum."""

    def __init__(self, parameters: Iterable[torch.Tensor] | torch.Tensor, max_norm: float) -> None:
        """Store the maximum norm, as a tensor on the device of the parameters.

        Args:
            parameters: parameters of the model; only their device is used.
            max_norm: maximum of the total norm.
        """
        parameter_list = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        device = parameter_list[0].device if parameter_list else torch.device(DEVICE_TYPE)
        self.max_norm = float(max_norm)
        self.max_norm_t = torch.tensor(self.max_norm, device=device)
        self.norm_type = 2.0

    def clip_norm(self, parameters: Iterable[torch.Tensor] | torch.Tensor) -> torch.Tensor:
        """Scale the gradients in place; return their total norm before scaling (0.0 without gradients)."""
        parameter_list = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        gradients = [parameter.grad for parameter in parameter_list if parameter.grad is not None]
        if not gradients:
            return torch.tensor(0.0)
        _mark_step_if_lazy()
        with torch.no_grad():
            norm: torch.Tensor = torch.ops.hpu.fused_clip_norm(gradients, self.max_norm_t, self.norm_type)
        _mark_step_if_lazy()
        return norm
