"""The optimizer AdamW."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from habana_frameworks.torch.utils.internal import is_lazy

import torch

from . import _step

Dtypes = torch.dtype | tuple[torch.dtype, torch.dtype] | None
_FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)


class FusedAdamW(torch.optim.Optimizer):
    """AdamW (Loshchilov and Hutter, 2017), computed by `torch.ops.hpu.optimizer_adamw`."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        bias_correction: bool = True,
        moments_dtype: Dtypes = None,
    ) -> None:
        """Create an optimizer.

        Args:
            params: parameters or parameter groups.
            lr: learning rate.
            betas: decay rates of the two moments.
            eps: number that is added to the square root of the second moment.
            weight_decay: each step multiplies weights by 1 - weight_decay * learning rate.
            bias_correction: compensate for moments that start at zero.
            moments_dtype: bfloat16, float32 or fp8, for both moments, or a tuple with one dtype for each;
                None for the dtype of the parameter.

        Raises:
            ValueError: a number is out of range.
        """
        _step.reject_negative(**{"learning rate": lr, "epsilon value": eps, "weight_decay": weight_decay})
        _step.reject_betas_out_of_range(betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "bias_correction": bias_correction,
            "moments_dtype": moments_dtype,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters, and return the result of ``closure``, or None without a closure."""
        loss = _step.loss_of(closure)
        for group in self.param_groups:
            parameters = _step.parameters_with_gradients(group)
            if not parameters:
                continue
            _step.mark_step()
            group["step"] = group.get("step", 0) + 1
            beta1, beta2 = group["betas"]
            for parameter in parameters:
                self._begin(parameter, group.get("moments_dtype"))
            size = _step.learning_rate(group)
            if group.get("bias_correction", True):
                size *= math.sqrt(1 - beta2 ** group["step"]) / (1 - beta1 ** group["step"])
            update_parameters(
                parameters,
                [self.state[p]["exp_avg"] for p in parameters],
                [self.state[p]["exp_avg_sq"] for p in parameters],
                size,
                beta1,
                beta2,
                group["eps"],
                1 - group["weight_decay"] * _step.learning_rate(group),
                [self.state[p]["exp_avg_scale"] for p in parameters],
                [self.state[p]["exp_avg_sq_scale"] for p in parameters],
            )
            _step.mark_step()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state dict, and keep the moments in ``moments_dtype``."""
        super().load_state_dict(state_dict)
        _step.restore_moment_dtypes(self)

    def _begin(self, parameter: torch.Tensor, dtypes: Dtypes) -> None:
        state = self.state[parameter]
        both = dtypes if isinstance(dtypes, tuple) else (dtypes, dtypes)
        for name, dtype in zip(("exp_avg", "exp_avg_sq"), both, strict=True):
            if name not in state:
                state[name] = torch.zeros_like(parameter, dtype=dtype or parameter.dtype)
            if f"{name}_scale" not in state:
                unit_scale = torch.ones((), device=parameter.device)
                state[f"{name}_scale"] = unit_scale if dtype in _FP8 else None


def update_parameters(
    parameters: list[torch.Tensor],
    first: list[torch.Tensor],
    second: list[torch.Tensor],
    size: float,
    beta1: float,
    beta2: float,
    eps: float,
    decay: float,
    first_scales: list[torch.Tensor | None] | None = None,
    second_scales: list[torch.Tensor | None] | None = None,
    gradients: list[torch.Tensor] | None = None,
) -> None:
    """Update parameters and moments in place by one AdamW step.

    ``gradients`` are by default the attributes ``grad``. ``first`` and ``second`` are the moments. ``size``
    is the step size with bias correction. Weights are multiplied by ``decay``.
    """
    if gradients is None:
        gradients = [p.grad for p in parameters]  # type: ignore[misc]
    device = parameters[0].device
    scales = []
    for moment_scales in (first_scales, second_scales):
        moment_scales = moment_scales or [None]
        scales.append(None if moment_scales[0] is None else moment_scales)
    if is_lazy():
        torch.ops.hpu.optimizer_adamw(
            gradients,
            parameters,
            first,
            second,
            _step.float32_tensor(-size, device),
            beta1,
            beta2,
            eps,
            decay,
            *scales,
        )
        return
    torch.ops.hpu.optimizer_adamw(
        gradients, parameters, first, second, _step.float32_tensor(-size, device), beta1, beta2, eps,
        _step.float32_tensor(decay, device), decay != 1.0, *scales,
    )  # fmt: skip
