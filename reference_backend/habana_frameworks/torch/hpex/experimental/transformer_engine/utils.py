"""Fp8 scales and magnitude histories of the tensors of a module."""

from __future__ import annotations

import dataclasses
import enum

import torch


class FP8FwdTensors(enum.IntEnum):
    """Indices of a module's forward tensors in `FP8TensorMeta`."""

    GEMM1_INPUT = 0
    GEMM1_WEIGHT = 1
    GEMM1_OUTPUT = 2


class FP8BwdTensors(enum.IntEnum):
    """Indices of a module's backward tensors in `FP8TensorMeta`."""

    GRAD_OUTPUT1 = 0
    GRAD_INPUT1 = 1


#: Initial length of a magnitude history in steps. The backward pass of a compiled graph writes to the
#: history, and can write only to tensors that exist before the forward pass. Therefore a compiled step cannot
#: extend it.
INITIAL_HISTORY_LENGTH = 1024


@dataclasses.dataclass
class FP8TensorMeta:
    """Fp8 scales of a module's tensors, and their largest magnitudes in the last steps.

    ``scale`` and ``scale_inv`` (1 / ``scale``) are float32 of shape [tensors]. ``amax_history`` is float32 of
    shape [steps, tensors], with the current step in row 0. ``step`` is the number of steps, an int64 scalar.
    """

    scale: torch.Tensor = dataclasses.field(default_factory=lambda: torch.ones(1))
    scale_inv: torch.Tensor = dataclasses.field(default_factory=lambda: torch.ones(1))
    amax_history: torch.Tensor = dataclasses.field(default_factory=lambda: torch.zeros(1, 1))
    step: torch.Tensor = dataclasses.field(default_factory=lambda: torch.zeros((), dtype=torch.int64))

    @classmethod
    def make(cls, tensor_count: int, steps: int, device: torch.device) -> FP8TensorMeta:
        """Return scales of 1 and a history of zeros, for the given numbers of tensors and steps."""
        scale = torch.ones(tensor_count, dtype=torch.float32, device=device)
        history = torch.zeros(steps, tensor_count, dtype=torch.float32, device=device)
        return cls(scale, scale.clone(), history, torch.zeros((), dtype=torch.int64, device=device))

    def to(self, device: torch.device) -> FP8TensorMeta:
        """Return a copy on another device."""
        return FP8TensorMeta(*(getattr(self, field.name).to(device) for field in dataclasses.fields(self)))

    def with_history_length(self, steps: int) -> FP8TensorMeta:
        """Return the same scales with a history that is extended by zeros to at least ``steps`` steps."""
        missing = steps - self.amax_history.size(0)
        if missing <= 0:
            return self
        history = torch.nn.functional.pad(self.amax_history, (0, 0, 0, missing))
        return dataclasses.replace(self, amax_history=history)
