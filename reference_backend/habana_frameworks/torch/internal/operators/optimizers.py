"""Optimizer steps over lists of tensors. Weights and states are written in place."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch._subclasses.fake_tensor import FakeTensor

from . import low_precision_rounding

Tensors = Sequence[torch.Tensor]


def optimizer_adamw(
    gradient_vec: Tensors,
    weight_vec: Tensors,
    exp_avg_vec: Tensors,
    exp_avg_sq_vec: Tensors,
    neg_step_t: torch.Tensor,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: torch.Tensor | float,
    has_weight_decay: bool = True,
    exp_avg_scales: Tensors | None = None,
    exp_avg_sq_scales: Tensors | None = None,
) -> None:
    """Run one step of AdamW (Loshchilov and Hutter, 2017).

    Args:
        gradient_vec: gradients.
        weight_vec: weights, written: w * weight_decay + neg_step_t * m / (sqrt(v) + epsilon).
        exp_avg_vec: first moments m, written.
        exp_avg_sq_vec: second moments v, written.
        neg_step_t: negative step size, which includes the bias correction and the learning rate.
        beta1: decay of m.
        beta2: decay of v.
        epsilon: added to the square root of v.
        weight_decay: factor of the weights, 1 - learning rate * decay.
        has_weight_decay: apply the factor.
        exp_avg_scales: for fp8 moments: scales by which the stored moments must be multiplied, written.
        exp_avg_sq_scales: as ``exp_avg_scales``, for second moments.
    """
    for index, (gradient, weight, first, second) in enumerate(
        zip(gradient_vec, weight_vec, exp_avg_vec, exp_avg_sq_vec, strict=True)
    ):
        scale1 = exp_avg_scales[index] if exp_avg_scales else None
        scale2 = exp_avg_sq_scales[index] if exp_avg_sq_scales else None
        g = gradient.float()
        m = beta1 * _moment_as_float32(first, scale1) + (1 - beta1) * g
        v = beta2 * _moment_as_float32(second, scale2) + (1 - beta2) * g.square()
        w = weight.float() * weight_decay if has_weight_decay else weight.float()
        weight.copy_(w + neg_step_t * m / (v.sqrt() + epsilon))
        _store_moment(first, m, scale1)
        _store_moment(second, v, scale2)


def optimizer_adamw_lazy(
    gradient_vec: Tensors,
    weight_vec: Tensors,
    exp_avg_vec: Tensors,
    exp_avg_sq_vec: Tensors,
    neg_step_t: torch.Tensor,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
    exp_avg_scales: Tensors | None = None,
    exp_avg_sq_scales: Tensors | None = None,
) -> None:
    """Call `optimizer_adamw` with the arguments of lazy mode. A ``weight_decay`` of 1 means no decay."""
    optimizer_adamw(
        gradient_vec, weight_vec, exp_avg_vec, exp_avg_sq_vec, neg_step_t, beta1, beta2, epsilon,
        weight_decay, weight_decay != 1.0, exp_avg_scales, exp_avg_sq_scales,
    )  # fmt: skip


def optimizer_sgd(
    gradients: Tensors,
    weights_in: Tensors,
    learning_rate: torch.Tensor,
    wd: float,
    mom: float,
    damp: float,
    nesterov: bool,
) -> None:
    """Run one step of SGD without momentum: the weights w become w - learning_rate * (g + wd * w)."""
    for gradient, weight in zip(gradients, weights_in, strict=True):
        weight.sub_(learning_rate * (gradient + wd * weight))


def optimizer_sgd_momentum(
    gradients: Tensors,
    weights_in: Tensors,
    momentum_in: Tensors,
    epoch_num: torch.Tensor,
    learning_rate: torch.Tensor,
    mom: torch.Tensor,
    wd: float,
    damp: float,
    nesterov: bool,
) -> None:
    """Run one step of SGD with momentum, like `torch.optim.SGD`.

    ``epoch_num`` is the number of previous steps. In step 0 the buffer becomes the gradient, without
    dampening.
    """
    for gradient, weight, buffer in zip(gradients, weights_in, momentum_in, strict=True):
        d = gradient + wd * weight
        buffer.copy_(torch.where(epoch_num == 0, d, mom * buffer + (1 - damp) * d))
        weight.sub_(learning_rate * (d + mom * buffer if nesterov else buffer))


def optimizer_adagrad(
    gradients: Tensors,
    weights_in: Tensors,
    variances_in: Tensors,
    epoch_num: torch.Tensor,
    learning_rate: torch.Tensor,
    wd: float,
    lrd: float,
    eps: float,
) -> None:
    """Run one step of Adagrad like `torch.optim.Adagrad`. ``epoch_num`` is the number of previous steps."""
    rate = learning_rate / (1 + epoch_num * lrd)
    for gradient, weight, variance in zip(gradients, weights_in, variances_in, strict=True):
        d = gradient + wd * weight
        variance.add_(d.square())
        weight.sub_(rate * d / (variance.sqrt() + eps))


def habanaOptimizerLars(
    params: Tensors, grads: Tensors, lr_t: torch.Tensor, skip_masks: Sequence[int], eeta: float,
    weight_decay: float, eps: float,
) -> None:  # fmt: skip
    """Call `optimizer_lars`. This is the operator's name in lazy mode."""
    optimizer_lars(params, grads, skip_masks, eeta, weight_decay, eps, lr_t)


def optimizer_ema(model_inputs: Tensors, updated_ema: Tensors, decay: torch.Tensor) -> None:
    """Write the exponential moving average: decay * average + (1 - decay) * value."""
    for value, average in zip(model_inputs, updated_ema, strict=True):
        average.copy_(decay * average + (1 - decay) * value)


def optimizer_lamb_fused_norm(grad: Tensors, max_norm: float) -> torch.Tensor:
    """Return max(1, norm of all gradients / max_norm) as float32."""
    return (_total_norm(grad) / max_norm).clamp(min=1.0)


def optimizer_lamb_phase1(
    gradients: Tensors,
    weights: Tensors,
    exp_avg: Tensors,
    exp_avg_sq: Tensors,
    out_weight_norms: Tensors,
    out_adam_norms: Tensors,
    out_adam_steps: Tensors,
    clip_global_grad_norm: torch.Tensor,
    grad_averaging: int,
    beta1: float,
    beta2: float,
    epsilon: float,
    bias_correction1: torch.Tensor,
    bias_correction2: torch.Tensor,
    weight_decay: float,
) -> None:
    """Run the first phase of LAMB (You et al., 2019).

    Write the Adam steps with decay, and the norms of weights and steps, to the ``out`` tensors.

    Gradients are divided by ``clip_global_grad_norm``. Without ``grad_averaging``, their factor in the first
    moment is 1 instead of 1 - beta1.
    """
    for index, (gradient, weight, m, v) in enumerate(
        zip(gradients, weights, exp_avg, exp_avg_sq, strict=True)
    ):
        g = gradient / clip_global_grad_norm
        m.copy_(beta1 * m + (1 - beta1 if grad_averaging else 1.0) * g)
        v.copy_(beta2 * v + (1 - beta2) * g.square())
        step = (m / bias_correction1) / ((v / bias_correction2).sqrt() + epsilon) + weight_decay * weight
        out_adam_steps[index].copy_(step)
        out_weight_norms[index].copy_(_reshape_single_element(_total_norm([weight]), out_weight_norms[index]))
        out_adam_norms[index].copy_(_reshape_single_element(_total_norm([step]), out_adam_norms[index]))


def optimizer_lamb_phase2(
    weights: Tensors,
    adam_norms: Tensors,
    weight_norms: Tensors,
    adam_steps: Tensors,
    neg_step: torch.Tensor,
    wd: float,
    use_lamb: bool,
) -> None:
    """Run the second phase of LAMB: the weights w become w + neg_step * trust * step.

    Trust is norm of weight / norm of step if both norms are above 0, and ``wd`` is not 0 or ``use_lamb`` is
    set. Otherwise trust is 1.
    """
    for weight, of_step, of_weight, step in zip(weights, adam_norms, weight_norms, adam_steps, strict=True):
        if wd != 0 or use_lamb:
            both = (of_step > 0) & (of_weight > 0)
            trust = torch.where(both, of_weight / of_step, torch.ones_like(of_step)).reshape(())
            weight.add_(neg_step * trust * step)
        else:
            weight.add_(neg_step * step)


def optimizer_lars(
    params: Tensors,
    grads: Tensors,
    skip_masks: Sequence[int],
    eeta: float,
    weight_decay: float,
    eps: float,
    lr: torch.Tensor,
) -> None:
    """Scale the gradient of each parameter in place (LARS, You et al., 2017).

    A gradient becomes lr * trust * (g + weight_decay * w), with trust = eeta * |w| / (|g| + weight_decay *
    |w| + eps), or 1 if a norm is 0. If the skip mask of a parameter is 0, the gradient becomes lr * g.
    """
    for weight, gradient, mask in zip(params, grads, skip_masks, strict=True):
        if not mask:
            gradient.mul_(lr)
            continue
        of_weight, of_gradient = _total_norm([weight]), _total_norm([gradient])
        ratio = eeta * of_weight / (of_gradient + weight_decay * of_weight + eps)
        trust = torch.where((of_weight > 0) & (of_gradient > 0), ratio, torch.ones_like(ratio))
        gradient.copy_(lr * trust * (gradient + weight_decay * weight))


def optimizer_resource_apply_momentum(
    params_momentum_buf_list: Tensors, dp_list: Tensors, momentum: float
) -> None:
    """Run one step with momentum, in place: buffer = momentum * buffer + d, w = w - buffer.

    Args:
        params_momentum_buf_list: alternating weights and buffers.
        dp_list: for each weight, d = learning rate * gradient.
        momentum: decay of the buffer.
    """
    for weight, buffer, d in zip(
        params_momentum_buf_list[::2], params_momentum_buf_list[1::2], dp_list, strict=True
    ):
        buffer.copy_(momentum * buffer + d)
        weight.sub_(buffer)


def sparse_sgd(
    gradients: torch.Tensor,
    weights_in: torch.Tensor,
    moments_in: torch.Tensor,
    indices: torch.Tensor,
    learning_rate: torch.Tensor,
    valid_count_tensor: torch.Tensor,
    mom: float,
    nesterov: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run one step of SGD with momentum for the rows in ``indices[:valid_count_tensor]``."""
    rows, index = _valid_rows(gradients, indices, valid_count_tensor)
    d = torch.zeros_like(weights_in).index_add_(0, index, rows.to(weights_in.dtype))
    touched = _updated_row_mask(weights_in, index, gradients, valid_count_tensor)
    moment = torch.where(touched, mom * moments_in + d, moments_in)
    step = d + mom * moment if nesterov else moment
    weights_in.copy_(torch.where(touched, weights_in - learning_rate * step, weights_in))
    moments_in.copy_(moment)
    return weights_in, moments_in


def sparse_adagrad(
    gradients: torch.Tensor,
    weights_in: torch.Tensor,
    moments_in: torch.Tensor,
    indices: torch.Tensor,
    learning_rate: torch.Tensor,
    valid_count_tensor: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run one step of Adagrad for the rows in ``indices[:valid_count_tensor]``."""
    rows, index = _valid_rows(gradients, indices, valid_count_tensor)
    d = torch.zeros_like(weights_in).index_add_(0, index, rows.to(weights_in.dtype))
    touched = _updated_row_mask(weights_in, index, gradients, valid_count_tensor)
    moments_in.add_(d.square())
    step = learning_rate * d / (moments_in.sqrt() + 1e-10)
    weights_in.copy_(torch.where(touched, weights_in - step, weights_in))
    return weights_in, moments_in


def fused_clip_norm(grad: Tensors, max_norm: torch.Tensor, norm_type: float) -> torch.Tensor:
    """Scale gradients in place so that their total norm is at most ``max_norm``; return the old norm.

    The formula is the formula of `torch.nn.utils.clip_grad_norm_`, which adds 1e-6 to the denominator.
    """
    if not grad:
        return torch.zeros_like(max_norm)
    total = _total_norm(grad, norm_type)
    factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for gradient in grad:
        gradient.mul_(factor.to(gradient.dtype))
    return total


#: The operator has a second name, the name of the hardware's kernel.
fused_norm_ = fused_clip_norm


def fused_norm_lazy(grad: Tensors, max_norm: torch.Tensor, norm_type: float) -> torch.Tensor:
    """Call `fused_clip_norm`. This function implements the operator of lazy mode."""
    return fused_clip_norm(grad, max_norm, norm_type)


def accumulate_grads_(variables: Tensors, new_grads: Tensors) -> None:
    """Add gradients to ``.grad`` of variables, or set ``.grad`` if it is None.

    Raises:
        RuntimeError: the call is traced; a compiled graph cannot set ``.grad`` of its inputs.
    """
    if any(
        torch._is_functional_tensor(variable) or isinstance(variable, FakeTensor) for variable in variables
    ):
        raise RuntimeError(
            "accumulate_grads_ sets .grad of variables, which a compiled graph cannot do. Call it outside of "
            "the compiled function."
        )
    for variable, gradient in zip(variables, new_grads, strict=True):
        if variable.grad is None:
            variable.grad = gradient.detach().clone()
        else:
            variable.grad.add_(gradient.detach())


def custom_foreach_add_(self: Tensors, other: Tensors) -> None:
    """Add each tensor of ``other`` in place to the tensor at the same position in ``self``."""
    torch._foreach_add_(list(self), list(other))


#: Names of the operators in lazy mode.
habanaOptimizerAdamW = optimizer_adamw
habanaOptimizerSgd = optimizer_sgd
habanaOptimizerSgdMomentum = optimizer_sgd_momentum
habanaOptimizerFusedAdagrad = optimizer_adagrad
habanaOptimizerFusedEMA = optimizer_ema
habanaOptimizerSparseSgd = sparse_sgd
habanaOptimizerSparseAdagrad = sparse_adagrad


def _moment_as_float32(moment: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
    return (
        moment.float() * scale
        if scale is not None and moment.dtype in low_precision_rounding.FP8
        else moment.float()
    )


def _store_moment(moment: torch.Tensor, value: torch.Tensor, scale: torch.Tensor | None) -> None:
    """Write ``value`` to ``moment``. If the moment is fp8 and has a scale, update the scale first."""
    if scale is not None and moment.dtype in low_precision_rounding.FP8:
        wanted = value.abs().amax() / low_precision_rounding.largest_finite_number(moment.dtype)
        scale.copy_(torch.where(wanted > 0, wanted, torch.ones_like(wanted)).reshape(scale.shape))
        value = value / scale
    moment.copy_(
        low_precision_rounding.to_fp8(value, moment.dtype)
        if moment.dtype in low_precision_rounding.FP8
        else value
    )


def _total_norm(tensors: Tensors, kind: float = 2.0) -> torch.Tensor:
    norms = [torch.linalg.vector_norm(tensor.float(), kind) for tensor in tensors]
    total: torch.Tensor = torch.linalg.vector_norm(torch.stack(norms), kind) if len(norms) != 1 else norms[0]
    return total


def _reshape_single_element(number: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return number.reshape(like.shape) if like.numel() == 1 else number


def _valid_rows(
    gradients: torch.Tensor, indices: torch.Tensor, count: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return gradient rows and their indices. Rows from number ``count`` on become zeros with the index 0."""
    counted = _valid_row_mask(gradients, count)
    flat = counted.reshape(-1)
    index = torch.where(flat, indices.long(), torch.zeros_like(indices, dtype=torch.int64))
    return torch.where(counted, gradients.float(), 0.0), index


def _valid_row_mask(gradients: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    position = torch.arange(gradients.size(0), device=gradients.device)
    return (position < count.reshape(())).reshape([-1] + [1] * (gradients.dim() - 1))


def _updated_row_mask(
    weights: torch.Tensor, index: torch.Tensor, gradients: torch.Tensor, count: torch.Tensor
) -> torch.Tensor:
    counted = _valid_row_mask(gradients, count).reshape(-1).to(torch.int32)
    rows = torch.zeros(weights.size(0), dtype=torch.int32, device=weights.device)
    return (rows.index_add_(0, index, counted) > 0).reshape([-1] + [1] * (weights.dim() - 1))
