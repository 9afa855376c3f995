"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from . import _step

#: Stands for a learning rate that was not given.
required: Any = object()


class FusedSGD(torch.optim.Optimizer):
    """SGD by `torch.ops.hpu.optimizer_sgd` and `optimizer_sgd_momentum`; the values of `torch.optim.SGD`.

    The order of ``weight_decay`` and ``dampening`` is not that of `torch.optim.SGD`.
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
        """Make an optimizer.

        Args:
            params: parameters or groups of them.
            lr: learning rate, which must be given.
            momentum: decay of the buffer; 0 for none.
            weight_decay: added to gradients, times the weight.
            dampening: part of the gradient that does not enter the buffer.
            nesterov: whether the step looks ahead.

        Raises:
            ValueError: no learning rate, a negative number, or ``nesterov`` without momentum or dampened.
        """
        if lr is required:
            raise ValueError("FusedSGD has no default learning rate: give lr")
        _step.non_negative(
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
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Take a step; return what ``closure`` does."""
        loss = _step.loss_of(closure)
        for group in self.param_groups:
            parameters = _step.with_gradients(group)
            if not parameters:
                continue
            _step.mark_step()
            gradients, device = [p.grad for p in parameters], parameters[0].device
            rate = _step.number(_step.rate(group), device)
            decay, momentum, damp = (group[word] for word in ("weight_decay", "momentum", "dampening"))
            if momentum == 0:
                torch.ops.hpu.optimizer_sgd(gradients, parameters, rate, decay, 0.0, damp, group["nesterov"])
            else:
                # Parameters differ in the number of steps if some had no gradient before.
                fresh = [p for p in parameters if "momentum_buffer" not in self.state[p]]
                for p in fresh:
                    self.state[p]["momentum_buffer"] = torch.zeros_like(p)
                old = [p for p in parameters if not any(p is one for one in fresh)]
                for some, epoch in ((fresh, 0.0), (old, 1.0)):
                    if some:
                        torch.ops.hpu.optimizer_sgd_momentum(
                            [p.grad for p in some], some, [self.state[p]["momentum_buffer"] for p in some],
                            _step.number(epoch, device), rate, _step.number(momentum, device), decay, damp,
                            group["nesterov"],
                        )  # fmt: skip
            _step.mark_step()
        return loss
