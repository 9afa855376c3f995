"""SGD with a momentum buffer that includes the learning rate, like TensorFlow's ApplyMomentum."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from . import _step


class FusedResourceApplyMomentum(torch.optim.Optimizer):
    """SGD with momentum, whose buffer accumulates learning rate * gradient instead of gradient."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        """Create an optimizer.

        Args:
            params: parameters or parameter groups.
            lr: learning rate.
            momentum: factor by which each step multiplies the old buffer.
            weight_decay: weight_decay * weight is added to the gradient.
            nesterov: use Nesterov momentum: the step is learning rate * gradient + momentum * buffer.

        Raises:
            ValueError: a number is negative, or ``nesterov`` is used without momentum.
        """
        _step.reject_negative(
            **{"learning rate": lr, "momentum value": momentum, "weight_decay value": weight_decay}
        )
        if nesterov and momentum <= 0:
            raise ValueError("Nesterov momentum requires a momentum above 0")
        super().__init__(
            params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov}
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters, and return the result of ``closure``, or None without a closure."""
        loss = _step.run_closure(closure)
        for group in self.param_groups:
            parameters = _step.parameters_with_gradients(group)
            if not parameters:
                continue
            _step.mark_step()
            pairs, deltas = [], []
            for parameter in parameters:
                state = self.state[parameter]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(parameter)
                pairs += [parameter, state["momentum_buffer"]]
                gradient = parameter.grad.add(parameter, alpha=group["weight_decay"])  # type: ignore[union-attr]
                deltas.append(gradient * _step.learning_rate(group))
            momentum = group["momentum"]
            if group["nesterov"]:
                torch.ops.hpu.optimizer_resource_apply_momentum(pairs, deltas, momentum)
                # The operator subtracted the buffer from the weight. Add the buffer back, and subtract the
                # Nesterov step d + momentum * buffer instead.
                for weight, buffer, d in zip(pairs[::2], pairs[1::2], deltas, strict=True):
                    weight.add_(buffer).sub_(d + momentum * buffer)
            else:
                torch.ops.hpu.optimizer_resource_apply_momentum(pairs, deltas, momentum)
            _step.mark_step()
        return loss
