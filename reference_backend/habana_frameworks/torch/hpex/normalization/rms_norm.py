"""Root-mean-square normalisation, computed by `torch.ops.hpu.rms_norm`."""

from __future__ import annotations

import enum
from typing import Any

import torch
from torch.autograd.function import once_differentiable


class RmsNormBwdMode(enum.Enum):
    """Division of the backward pass's work on hardware; without effect on this device."""

    DEFAULT = 0
    STATIC_CASE_WIDTH_PARTITIONING = 1


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, data_in: torch.Tensor, gamma: torch.Tensor, eps: float, use_stages: bool, mode: int,
        fast: bool,
    ) -> torch.Tensor:  # fmt: skip
        operator = torch.ops.hpu.rms_norm_fast if fast else torch.ops.hpu.rms_norm
        out, inverse = operator(data_in, gamma, eps)
        ctx.save_for_backward(data_in, gamma, inverse)
        ctx.options = use_stages, mode
        ctx.fast = fast
        result: torch.Tensor = out
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        names = torch.ops.hpu
        operator = names.rms_norm_fast_backward if ctx.fast else names.rms_norm_backward
        return (*operator(grads[0], *ctx.saved_tensors, *ctx.options), *[None] * 4)


class FusedRMSNorm:
    """Autograd function of RMS normalisation: x * gamma / sqrt(mean(x^2) + eps) over the last dimension."""

    @staticmethod
    def apply(
        data_in: torch.Tensor,
        gamma: torch.Tensor,
        eps: float,
        use_stages: bool = True,
        bwd_mode: int | RmsNormBwdMode = 0,
        fast_math: bool = False,
    ) -> torch.Tensor:
        """Return the normalised data.

        Args:
            data_in: input of shape [..., N].
            gamma: weight of shape [N].
            eps: number that is added to the mean of squares.
            use_stages, bwd_mode: variants on hardware, with the same results. ``bwd_mode`` is a member of
                `RmsNormBwdMode` or its number.
            fast_math: use the variant that is less exact on hardware.
        """
        mode = bwd_mode.value if isinstance(bwd_mode, RmsNormBwdMode) else bwd_mode
        result: torch.Tensor = _RmsNorm.apply(data_in, gamma, eps, use_stages, mode, fast_math)  # type: ignore[no-untyped-call]
        return result
