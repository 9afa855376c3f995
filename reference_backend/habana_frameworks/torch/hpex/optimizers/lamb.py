"""The optimizer LAMB."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from . import _step


class FusedLamb(torch.optim.Optimizer):
    """LAMB (You et al., 2019), by `torch.ops.hpu.optimizer_lamb_phase1` and `optimizer_lamb_phase2`."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        adam_w_mode: bool = True,
        grad_averaging: bool = True,
        set_grad_none: bool = True,
        max_grad_norm: float = 1.0,
        use_lamb: bool = False,
        fused: bool = False,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Create an optimizer.

        Args:
            params: parameters or parameter groups.
            lr: learning rate.
            bias_correction: compensate for moments that start at zero.
            betas: decay rates of the two moments.
            eps: number that is added to the square root of the second moment.
            weight_decay: weight_decay * weight is added to the step.
            amsgrad: not supported; must be False.
            adam_w_mode: must be True: weight decay is added to the step, and not to the gradient.
            grad_averaging: multiply gradients by 1 - beta1 in the first moment.
            set_grad_none: whether `zero_grad` sets gradients to None.
            max_grad_norm: maximum total norm of the gradients. Larger gradients are scaled down to this norm.
            use_lamb: also scale steps per layer if the weight decay is 0.
            fused: variant on hardware, with the same results.
            dtype: dtype of the moments; None for the dtype of the parameter.

        Raises:
            RuntimeError: ``amsgrad`` is True, or ``adam_w_mode`` is False.
            ValueError: a number is out of range.
        """
        if amsgrad:
            raise RuntimeError("FusedLamb does not support the AMSGrad variant. Omit amsgrad.")
        if not adam_w_mode:
            raise RuntimeError("FusedLamb supports weight decay only as in AdamW. Omit adam_w_mode.")
        _step.reject_negative(**{"learning rate": lr, "epsilon value": eps, "weight_decay": weight_decay})
        _step.reject_betas_out_of_range(betas)
        defaults = {
            "lr": lr,
            "bias_correction": bias_correction,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "grad_averaging": grad_averaging,
            "max_grad_norm": max_grad_norm,
            "set_grad_none": set_grad_none,
            "use_lamb": use_lamb,
            "moments_dtype": dtype,
        }
        super().__init__(params, defaults)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state dict, and keep the dtype of the moments."""
        super().load_state_dict(state_dict)
        _step.restore_moment_dtypes(self)

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        """Set the gradients to None, or to zero if ``set_to_none`` (default: ``set_grad_none``) is False."""
        super().zero_grad(self.defaults["set_grad_none"] if set_to_none is None else set_to_none)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters, and return the result of ``closure``, or None without a closure."""
        loss = _step.run_closure(closure)
        every = [p for group in self.param_groups for p in _step.parameters_with_gradients(group)]
        if not every:
            return loss
        _step.mark_step()
        bound = self.defaults["max_grad_norm"]
        clip = torch.ops.hpu.optimizer_lamb_fused_norm([p.grad for p in every], bound)
        for group in self.param_groups:
            parameters = _step.parameters_with_gradients(group)
            if not parameters:
                continue
            group["step"] = group.get("step", 0) + 1
            self._update(group, parameters, clip)
        _step.mark_step()
        return loss

    def _update(self, group: dict[str, Any], parameters: list[torch.Tensor], clip: torch.Tensor) -> None:
        beta1, beta2 = group["betas"]
        device = parameters[0].device
        for parameter in parameters:
            if not self.state[parameter]:
                dtype = group["moments_dtype"] or parameter.dtype
                self.state[parameter]["exp_avg"] = torch.zeros_like(parameter, dtype=dtype)
                self.state[parameter]["exp_avg_sq"] = torch.zeros_like(parameter, dtype=dtype)
        corrected = group["bias_correction"]
        first = 1 - beta1 ** group["step"] if corrected else 1.0
        second = 1 - beta2 ** group["step"] if corrected else 1.0
        weight_norms, adam_norms = ([torch.zeros((), device=device) for _ in parameters] for _ in range(2))
        steps = [torch.empty_like(p) for p in parameters]
        torch.ops.hpu.optimizer_lamb_phase1(
            [p.grad for p in parameters], parameters, [self.state[p]["exp_avg"] for p in parameters],
            [self.state[p]["exp_avg_sq"] for p in parameters], weight_norms, adam_norms, steps, clip,
            int(group["grad_averaging"]), beta1, beta2, group["eps"], _step.float32_tensor(first, device),
            _step.float32_tensor(second, device), group["weight_decay"],
        )  # fmt: skip
        torch.ops.hpu.optimizer_lamb_phase2(
            parameters, adam_norms, weight_norms, steps,
            _step.float32_tensor(-_step.learning_rate(group), device),
            group["weight_decay"], group["use_lamb"],
        )  # fmt: skip
