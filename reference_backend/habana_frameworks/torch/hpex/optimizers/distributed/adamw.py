"""The optimizer AdamW with gradients as an argument of ``step``."""

from __future__ import annotations

import math

from habana_frameworks.torch.hpex.optimizers import adamw

import torch


class FusedAdamW:
    """AdamW like `hpex.optimizers.FusedAdamW`, but ``step`` accepts the gradients of all parameters."""

    def __init__(
        self,
        params: list[torch.Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        _allow_empty_param_list: bool = False,
        moments_dtype: adamw.Dtypes = None,
    ) -> None:
        """Create an optimizer. Arguments are as for `hpex.optimizers.FusedAdamW`.

        Raises:
            ValueError: a number is out of range, or the list of parameters is empty.
        """
        if not params and not _allow_empty_param_list:
            raise ValueError("optimizer got an empty parameter list")
        # The inner optimizer checks the arguments and stores the state. Its method `step` is not used.
        self._inner = adamw.FusedAdamW(
            params or [torch.zeros(0)], lr, betas, eps, weight_decay, True, moments_dtype
        )
        self.param_group = {"params": list(params)}
        self.state = self._inner.state
        self._steps = 0

    @torch.no_grad()
    def step(self, gradients: list[torch.Tensor | None]) -> None:
        """Update the parameters. ``gradients`` has one gradient, or None, for each parameter.

        Raises:
            ValueError: the number of gradients differs from the number of parameters.
        """
        parameters = self.param_group["params"]
        if len(gradients) != len(parameters):
            raise ValueError(
                f"step needs one gradient (or None) for each of {len(parameters)} parameters, but got "
                f"{len(gradients)}"
            )
        chosen = [(p, g) for p, g in zip(parameters, gradients, strict=True) if g is not None]
        if not chosen:
            return
        self._steps += 1
        group = self._inner.param_groups[0]
        beta1, beta2 = group["betas"]
        for p, _ in chosen:
            self._inner._begin(p, group["moments_dtype"])
        step_size = group["lr"] * math.sqrt(1 - beta2**self._steps) / (1 - beta1**self._steps)
        states = [self.state[p] for p, _ in chosen]
        adamw.adamw_step(
            [p for p, _ in chosen],
            [s["exp_avg"] for s in states],
            [s["exp_avg_sq"] for s in states],
            step_size,
            beta1,
            beta2,
            group["eps"],
            1 - group["weight_decay"] * group["lr"],
            [s["exp_avg_scale"] for s in states],
            [s["exp_avg_sq_scale"] for s in states],
            [g for _, g in chosen],
        )
