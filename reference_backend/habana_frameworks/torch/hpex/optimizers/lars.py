"""LARS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import _step


class FusedLars:
    """LARS (You et al., 2017) around another optimizer, by `torch.ops.hpu.optimizer_lars`.

    Gradients become learning rate * trust * (gradient + decay * weight); the other optimizer then takes a
    step with them, learning rate 1 and no decay.
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
            optimizer: the optimizer, such as SGD with momentum.
            skip_mask: for each parameter, in the order of groups: 0 to leave it out, as biases and norms are.
            eeta: trust coefficient.
            eps: added to the norms in the denominator.

        Raises:
            ValueError: there are more parameters than elements of the mask.
        """
        count = sum(len(group["params"]) for group in optimizer.param_groups)
        if count > len(skip_mask):
            raise ValueError(
                f"skip_mask has {len(skip_mask)} elements for {count} parameters: give one for each"
            )
        self.optim = optimizer
        self.skip_mask, self.eeta, self.eps = list(skip_mask), eeta, eps

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Groups of the wrapped optimizer."""
        return self.optim.param_groups

    @property
    def state(self) -> Any:
        """State of the wrapped optimizer."""
        return self.optim.state

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["optim"], name)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take a step; return what ``closure`` does."""
        loss = _step.loss_of(closure)
        place = 0
        saved = []
        _step.mark_step()
        for group in self.param_groups:
            masks = self.skip_mask[place : place + len(group["params"])]
            place += len(group["params"])
            chosen = [(p, mask) for p, mask in zip(group["params"], masks, strict=True) if p.grad is not None]
            saved.append((group["lr"], group.get("weight_decay", 0.0)))
            if chosen:
                parameters = [p for p, _ in chosen]
                torch.ops.hpu.optimizer_lars(
                    parameters, [p.grad for p in parameters], [mask for _, mask in chosen], self.eeta,
                    saved[-1][1], self.eps, _step.number(group["lr"], parameters[0].device),
                )  # fmt: skip
            group["lr"], group["weight_decay"] = 1.0, 0.0
        try:
            self.optim.step()
        finally:
            for group, (rate, decay) in zip(self.param_groups, saved, strict=True):
                group["lr"], group["weight_decay"] = rate, decay
        _step.mark_step()
        return loss
