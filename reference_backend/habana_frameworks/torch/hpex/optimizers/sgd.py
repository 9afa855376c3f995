"""The optimizer SGD (stochastic gradient descent)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from . import _step

#: Default value of the argument ``lr``, which shows that no learning rate was passed.
required: Any = object()


class FusedSGD(torch.optim.Optimizer):
    """SGD with the steps of `torch.optim.SGD`, computed by fused operators of `torch.ops.hpu`.

    The arguments ``weight_decay`` and ``dampening`` are in a different order than in `torch.optim.SGD`.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = required,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        """Create an optimizer.

        Args:
            params: parameters or parameter groups.
            lr: learning rate (required).
            momentum: factor by which each step multiplies the old momentum buffer; 0 for no momentum.
            weight_decay: weight_decay * weight is added to the gradient.
            dampening: share of the gradient that is not added to the buffer.
            nesterov: use Nesterov momentum.

        Raises:
            ValueError: the learning rate is missing, a number is negative, or ``nesterov`` is used without
                momentum or with dampening.
        """
        if lr is required:
            raise ValueError("FusedSGD has no default learning rate. Pass lr.")
        _step.reject_negative(
            **{"learning rate": lr, "momentum value": momentum, "weight_decay value": weight_decay}
        )
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "dampening": dampening,
            "nesterov": nesterov,
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
            gradients, device = [p.grad for p in parameters], parameters[0].device
            rate = _step.float32_tensor(_step.learning_rate(group), device)
            decay, momentum, damp = (group[option] for option in ("weight_decay", "momentum", "dampening"))
            if momentum == 0:
                torch.ops.hpu.optimizer_sgd(gradients, parameters, rate, decay, 0.0, damp, group["nesterov"])
            else:
                # Some parameters may take their first step now, because they had no gradient before. They
                # need a separate call, because the operator has one step number for all its parameters.
                new_parameters = [p for p in parameters if "momentum_buffer" not in self.state[p]]
                for p in new_parameters:
                    self.state[p]["momentum_buffer"] = torch.zeros_like(p)
                old = [
                    p for p in parameters if not any(p is new_parameter for new_parameter in new_parameters)
                ]
                for some, epoch in ((new_parameters, 0.0), (old, 1.0)):
                    if some:
                        torch.ops.hpu.optimizer_sgd_momentum(
                            [p.grad for p in some], some, [self.state[p]["momentum_buffer"] for p in some],
                            _step.float32_tensor(epoch, device), rate,
                            _step.float32_tensor(momentum, device), decay, damp,
                            group["nesterov"],
                        )  # fmt: skip
            _step.mark_step()
        return loss
