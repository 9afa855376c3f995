"""Connectionist temporal classification, computed by `torch.ops.hpu.ctc_loss_custom`."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


class CTCLoss(torch.autograd.Function):
    """Autograd function of the loss of `torch.nn.functional.ctc_loss`."""

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
        """Return the loss, with the arguments of `torch.nn.functional.ctc_loss`.

        ``log_probs`` has the shape [time, batch, classes] or [time, classes].
        """
        if reduction not in _REDUCTIONS:
            raise ValueError(
                f"CTCLoss supports the reductions none, mean and sum, but reduction is {reduction!r}"
            )
        ctx.is_batched = log_probs.dim() == 3
        if not ctx.is_batched:
            log_probs, targets = log_probs.unsqueeze(1), targets.unsqueeze(0)
            input_lengths, target_lengths = input_lengths.reshape(1), target_lengths.reshape(1)
        tensors = (log_probs, targets, input_lengths, target_lengths)
        numbers = (blank, _REDUCTIONS[reduction], zero_infinity)
        loss, alpha = torch.ops.hpu.ctc_loss_custom(*tensors, *numbers)
        ctx.save_for_backward(*tensors, loss, alpha)
        ctx.numbers = numbers
        result: torch.Tensor = loss if ctx.is_batched else loss.reshape(())
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        """Return the gradient with respect to the log probabilities."""
        loss = ctx.saved_tensors[-2]
        gradient = torch.ops.hpu.ctc_loss_custom_backward(
            grads[0].reshape(loss.shape), *ctx.saved_tensors, *ctx.numbers
        )
        return (gradient if ctx.is_batched else gradient.squeeze(1), *[None] * 6)
