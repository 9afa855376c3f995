"""Parts of a step that all fused optimizers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from habana_frameworks.torch.core.step_closure import _mark_step_if_lazy

import torch


def loss_of(closure: Callable[[], Any] | None) -> Any:
    """Call a closure with gradients enabled; None without one."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def with_gradients(group: dict[str, Any]) -> list[torch.Tensor]:
    """Parameters of a group that have gradients.

    Raises:
        RuntimeError: a gradient is sparse.
    """
    found = [parameter for parameter in group["params"] if parameter.grad is not None]
    if any(parameter.grad.is_sparse for parameter in found):
        raise RuntimeError("fused optimizers take dense gradients: build embeddings with sparse=False")
    return found


def non_negative(**numbers: float) -> None:
    """Refuse negative numbers.

    Raises:
        ValueError: one is negative.
    """
    for name, value in numbers.items():
        if value < 0.0:
            raise ValueError(f"Invalid {name}: {value} is negative")


def betas_below_one(betas: tuple[float, float]) -> None:
    """Refuse decays that are not in [0, 1).

    Raises:
        ValueError: one is not.
    """
    for place, value in enumerate(betas):
        if not 0.0 <= value < 1.0:
            raise ValueError(f"Invalid beta parameter at index {place}: {value} is not from 0 to before 1")


def rate(group: dict[str, Any]) -> float:
    """Learning rate of a group, which may be a tensor."""
    return float(group["lr"])


def restore_moments(optimizer: torch.optim.Optimizer) -> None:
    """Give moments their dtypes again: `torch.optim.Optimizer.load_state_dict` makes them the parameter's."""
    for group in optimizer.param_groups:
        given = group.get("moments_dtype")
        both = given if isinstance(given, tuple) else (given, given)
        for parameter in group["params"]:
            state = optimizer.state.get(parameter, {})
            for name, dtype in zip(("exp_avg", "exp_avg_sq"), both, strict=True):
                if name in state and dtype is not None:
                    state[name] = state[name].to(dtype)


def number(value: float, device: torch.device) -> torch.Tensor:
    """A number on a device."""
    return torch.tensor(value, dtype=torch.float32, device=device)


mark_step = _mark_step_if_lazy
