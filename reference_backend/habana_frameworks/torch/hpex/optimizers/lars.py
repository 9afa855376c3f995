"""The optimizer LARS, which wraps another optimizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import _step


class FusedLars(torch.optim.Optimizer):
    """LARS (You et al., 2017) around another optimizer, computed by `torch.ops.hpu.optimizer_lars`.

    LARS replaces each gradient by learning rate * trust ratio * (gradient + weight decay * weight). The
    wrapped optimizer then takes a step with these gradients, with learning rate 1 and without weight decay.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        skip_mask: Sequence[int],
        eeta: float = 0.001,
        eps: float = 1e-8,
    ) -> None:
        """Wrap an optimizer.

        Args:
            optimizer: the optimizer to wrap, such as SGD with momentum.
            skip_mask: one number for each parameter, in the order of the groups. With 0, the gradient is only
                multiplied by the learning rate, as is usual for biases and norms.
            eeta: coefficient of the trust ratio.
            eps: number that is added to the denominator of the trust ratio.

        Raises:
            ValueError: the mask has fewer elements than the optimizer has parameters.
        """
        count = sum(len(group["params"]) for group in optimizer.param_groups)
        if count > len(skip_mask):
            raise ValueError(
                f"skip_mask has {len(skip_mask)} elements for {count} parameters. Pass one element for each "
                "parameter."
            )
        self.optim = optimizer
        self.skip_mask, self.eeta, self.eps = list(skip_mask), eeta, eps

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """Return the parameter groups of the wrapped optimizer."""
        return self.optim.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """Return the state of the wrapped optimizer."""
        return self.optim.state

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        """Return the defaults of the wrapped optimizer."""
        return self.optim.defaults

    def state_dict(self) -> dict[str, Any]:
        """Return the state dict of the wrapped optimizer."""
        return self.optim.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state dict into the wrapped optimizer."""
        self.optim.load_state_dict(state_dict)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or to zero if ``set_to_none`` is False."""
        self.optim.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group to the wrapped optimizer. `skip_mask` must cover the new parameters."""
        self.optim.add_param_group(param_group)

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters, and return the result of ``closure``, or None without a closure."""
        loss = _step.run_closure(closure)
        mask_index = 0
        saved = [(group["lr"], group.get("weight_decay", 0.0)) for group in self.param_groups]
        _step.mark_step()
        try:
            for group, (_, decay) in zip(self.param_groups, saved, strict=True):
                masks = self.skip_mask[mask_index : mask_index + len(group["params"])]
                mask_index += len(group["params"])
                chosen = [(p, m) for p, m in zip(group["params"], masks, strict=True) if p.grad is not None]
                if chosen:
                    parameters = [p for p, _ in chosen]
                    rate = _step.float32_tensor(_step.learning_rate(group), parameters[0].device)
                    torch.ops.hpu.optimizer_lars(
                        parameters, [p.grad for p in parameters], [mask for _, mask in chosen], self.eeta,
                        decay, self.eps, rate,
                    )  # fmt: skip
                group["lr"], group["weight_decay"] = 1.0, 0.0
            self.optim.step()
        finally:
            for group, (before, decay) in zip(self.param_groups, saved, strict=True):
                group["lr"], group["weight_decay"] = before, decay
        _step.mark_step()
        return loss
