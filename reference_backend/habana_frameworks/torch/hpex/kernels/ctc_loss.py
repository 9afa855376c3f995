"""Connectionist temporal classification; `torch.ops.hpu.ctc_loss_custom` computes it."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


class CTCLoss(torch.autograd.Function):
    """The loss of `torch.nn.functional.ctc_loss`."""

    @staticmethod
    def forward(
        ctx: Any,
        log_probs: torch.Tensor,
        targets: torch.Tensor,
        input_lengths: torch.Tensor,
        target_lengths: torch.Tensor,
        blank: int = 0,
        reduction: str = "mean",
        zero_infinity: bool = False,
    ) -> torch.Tensor:
        """Compute the loss of log_probs [time, batch, classes]; arguments are those of torch's function."""
        if reduction not in _REDUCTIONS:
            raise ValueError(f"CTCLoss has the reductions none, mean and sum, and reduction is {reduction!r}")
        given = (log_probs, targets, input_lengths, target_lengths)
        numbers = (blank, _REDUCTIONS[reduction], zero_infinity)
        loss, alpha = torch.ops.hpu.ctc_loss_custom(*given, *numbers)
        ctx.save_for_backward(*given, loss, alpha)
        ctx.numbers = numbers
        found: torch.Tensor = loss
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        """Compute the gradient of the logarithms."""
        gradient = torch.ops.hpu.ctc_loss_custom_backward(grads[0], *ctx.saved_tensors, *ctx.numbers)
        return (gradient, *[None] * 6)
