"""The optimizer Adagrad."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from . import _step


class FusedAdagrad(torch.optim.Optimizer):
    """Adagrad (Duchi et al., 2011), computed by `torch.ops.hpu.habanaOptimizerFusedAdagrad`."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
    ) -> None:
        """Create an optimizer.

        Args:
            params: parameters or parameter groups.
            lr: learning rate.
            lr_decay: the learning rate is divided by 1 + previous steps * lr_decay.
            weight_decay: weight_decay * weight is added to the gradient.
            initial_accumulator_value: initial value of the sums of squared gradients.
            eps: number that is added to the square root of the sum.

        Raises:
            ValueError: a number is negative.
        """
        _step.reject_negative(
            **{"learning rate": lr, "lr_decay value": lr_decay, "weight_decay value": weight_decay,
               "initial_accumulator_value value": initial_accumulator_value, "epsilon value": eps}
        )  # fmt: skip
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps,
            "initial_accumulator_value": initial_accumulator_value,
        }  # fmt: skip
        super().__init__(params, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["step"] = 0
                self.state[parameter]["sum"] = torch.full_like(parameter, initial_accumulator_value)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters, and return the result of ``closure``, or None without a closure."""
        loss = _step.run_closure(closure)
        for group in self.param_groups:
            parameters = _step.parameters_with_gradients(group)
            if not parameters:
                continue
            _step.mark_step()
            device = parameters[0].device
            by_step: dict[int, list[torch.Tensor]] = {}
            for parameter in parameters:
                by_step.setdefault(self.state[parameter]["step"], []).append(parameter)
            for before, some in by_step.items():
                torch.ops.hpu.habanaOptimizerFusedAdagrad(
                    [p.grad for p in some], some, [self.state[p]["sum"] for p in some],
                    _step.float32_tensor(float(before), device),
                    _step.float32_tensor(_step.learning_rate(group), device),
                    group["weight_decay"], group["lr_decay"], group["eps"],
                )  # fmt: skip
                for parameter in some:
                    self.state[parameter]["step"] = before + 1
            _step.mark_step()
        return loss
