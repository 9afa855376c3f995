"""Scales and histories of the tensors of a module."""

from __future__ import annotations

import dataclasses
import enum

import torch


class FP8FwdTensors(enum.IntEnum):
    """Places of tensors of the forward pass."""

    GEMM1_INPUT = 0
    GEMM1_WEIGHT = 1
    GEMM1_OUTPUT = 2


class FP8BwdTensors(enum.IntEnum):
    """Places of tensors of the backward pass."""

    GRAD_OUTPUT1 = 0
    GRAD_INPUT1 = 1


@dataclasses.dataclass
class FP8TensorMeta:
    """Scales of tensors, by place, and the largest magnitudes of the last steps, float32[steps, places]."""

    scale: torch.Tensor
    scale_inv: torch.Tensor
    amax_history: torch.Tensor

    @classmethod
    def make(cls, places: int, steps: int, device: torch.device) -> FP8TensorMeta:
        """Scales of 1 and an empty history."""
        one = torch.ones(places, device=device)
        return cls(one, one.clone(), torch.zeros(steps, places, device=device))
