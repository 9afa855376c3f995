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
        loss = _step.run_closure(closure)
        for group in self.param_groups:
            parameters = _step.parameters_with_gradients(group)
            if not parameters:
                continue
            _step.mark_step()
            group["step"] = group.get("step", 0) + 1
            beta1, beta2 = group["betas"]
            for parameter in parameters:
                self._begin(parameter, group.get("moments_dtype"))
            step_size = _step.learning_rate(group)
            if group.get("bias_correction", True):
                step_size *= math.sqrt(1 - beta2 ** group["step"]) / (1 - beta1 ** group["step"])
            adamw_step(
                parameters,
                [self.state[p]["exp_avg"] for p in parameters],
                [self.state[p]["exp_avg_sq"] for p in parameters],
                step_size,
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


def adamw_step(
    parameters: list[torch.Tensor],
    exp_avg: list[torch.Tensor],
    exp_avg_sq: list[torch.Tensor],
    step_size: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_factor: float,
    exp_avg_scales: list[torch.Tensor | None] | None = None,
    exp_avg_sq_scales: list[torch.Tensor | None] | None = None,
    gradients: list[torch.Tensor] | None = None,
) -> None:
    """Update parameters and moments in place by one AdamW step.

    ``gradients`` are by default the attributes ``grad``. ``exp_avg`` and ``exp_avg_sq`` are the moments.
    ``step_size`` includes the bias correction. Weights are multiplied by ``weight_factor``.
    """
    if gradients is None:
        gradients = [p.grad for p in parameters]  # type: ignore[misc]
    device = parameters[0].device
    scales = []
    for moment_scales in (exp_avg_scales, exp_avg_sq_scales):
        moment_scales = moment_scales or [None]
        scales.append(None if moment_scales[0] is None else moment_scales)
    if is_lazy():
        torch.ops.hpu.optimizer_adamw(
            gradients,
            parameters,
            exp_avg,
            exp_avg_sq,
            _step.float32_tensor(-step_size, device),
            beta1,
            beta2,
            eps,
            weight_factor,
            *scales,
        )
        return
    torch.ops.hpu.optimizer_adamw(
        gradients, parameters, exp_avg, exp_avg_sq, _step.float32_tensor(-step_size, device), beta1, beta2,
        eps, _step.float32_tensor(weight_factor, device), weight_factor != 1.0, *scales,
    )  # fmt: skip
