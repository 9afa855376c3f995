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


#: Steps that a history has room for from the start. The backward pass of a graph writes to it, and can write
#: only to what was there before the forward pass, so the first step cannot make it.
ROOM = 1024


@dataclasses.dataclass
class FP8TensorMeta:
    """Scales of tensors, by place, and the largest magnitudes of the last steps.

    ``scale`` and ``scale_inv`` are float32[places]; ``amax_history`` is float32[steps, places], with the
    current step in row 0; ``step`` is the number of steps, int64[].
    """

    scale: torch.Tensor
    scale_inv: torch.Tensor
    amax_history: torch.Tensor
    step: torch.Tensor

    @classmethod
    def make(cls, places: int, steps: int, device: torch.device) -> FP8TensorMeta:
        """Scales of 1 and an empty history."""
        one = torch.ones(places, dtype=torch.float32, device=device)
        history = torch.zeros(steps, places, dtype=torch.float32, device=device)
        return cls(one, one.clone(), history, torch.zeros((), dtype=torch.int64, device=device))

    def to(self, device: torch.device) -> FP8TensorMeta:
        """Copies on another device."""
        return FP8TensorMeta(*(getattr(self, field.name).to(device) for field in dataclasses.fields(self)))

    def with_room(self, steps: int) -> FP8TensorMeta:
        """The same with a history of at least so many steps."""
        missing = steps - self.amax_history.size(0)
        if missing <= 0:
            return self
        history = torch.nn.functional.pad(self.amax_history, (0, 0, 0, missing))
        return dataclasses.replace(self, amax_history=history)
