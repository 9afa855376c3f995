"""Connectionist temporal classification (Graves et al., 2006), with torch's own kernels."""

from __future__ import annotations

import torch

#: Values of ``reduction``: one loss per target, mean of loss / target length, sum of losses.
NONE, MEAN, SUM = 0, 1, 2


def ctc_loss_custom(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: torch.Tensor,
    target_lengths: torch.Tensor,
    blank: int,
    reduction: int,
    zero_infinity: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the loss and the logarithms of the forward variables.

    The operator has no derivative. `hpex.kernels.CTCLoss` is differentiable.

    Args:
        log_probs: [time, batch, classes].
        targets: [batch, length], or all targets concatenated.
        input_lengths: integers [batch].
        target_lengths: integers [batch].
        blank: class of the blank.
        reduction: 0 for one loss per target, 1 for the mean of loss / target length, 2 for the sum.
        zero_infinity: replace infinite losses (of targets too long for the input) by 0.
    """
    losses, alpha = torch._ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    if zero_infinity:
        losses = torch.where(losses.isinf(), torch.zeros_like(losses), losses)
    alpha = torch.nn.functional.pad(alpha, (0, _state_count(targets) - alpha.size(-1)), value=float("-inf"))
    if reduction == MEAN:
        return (losses / target_lengths.clamp(min=1).to(losses.device)).mean(), alpha
    return (losses.sum() if reduction == SUM else losses), alpha


def ctc_loss_custom_meta(
    log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: torch.Tensor,
    target_lengths: torch.Tensor, blank: int, reduction: int, zero_infinity: bool,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return empty tensors with the shapes of the results of `ctc_loss_custom`."""
    time, batch = log_probs.shape[:2]
    loss = log_probs.new_empty((batch,) if reduction == NONE else ())
    return loss, log_probs.new_empty((batch, time, _state_count(targets)))


def ctc_loss_custom_backward(
    grad: torch.Tensor,
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: torch.Tensor,
    target_lengths: torch.Tensor,
    neg_log_likelihood: torch.Tensor,
    log_alpha: torch.Tensor,
    blank: int,
    reduction: int,
    zero_infinity: bool,
) -> torch.Tensor:
    """Return the gradient of `ctc_loss_custom` with respect to ``log_probs``, for a gradient of the loss.

    The loss of each target and the forward variables are recomputed. ``neg_log_likelihood`` and
    ``log_alpha`` are not used, because the first may be a mean or a sum, and the second is padded.
    """
    losses, log_alpha = torch._ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, zero_infinity
    )
    each = grad.expand(losses.shape)
    if reduction == MEAN:
        each = each / (target_lengths.clamp(min=1).to(losses.device) * losses.numel())
    gradient: torch.Tensor = torch.ops.aten._ctc_loss_backward.Tensor(
        each, log_probs, targets, input_lengths, target_lengths, losses, log_alpha, blank, zero_infinity
    )
    return gradient


def ctc_loss_custom_backward_meta(
    grad: torch.Tensor, log_probs: torch.Tensor, *unused: object
) -> torch.Tensor:
    """Return an empty tensor with the shape of the result of `ctc_loss_custom_backward`."""
    return torch.empty_like(log_probs)


def _state_count(targets: torch.Tensor) -> int:
    """Return the number of labels and blanks around labels in a target of maximum length."""
    return 2 * (targets.size(-1) if targets.dim() else 0) + 1
