"""Helper functions that all fused optimizers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from habana_frameworks.torch.core.step_closure import _mark_step_if_lazy

import torch


def run_closure(closure: Callable[[], Any] | None) -> Any:
    """Call a closure with gradients enabled and return its result. Return None if no closure is passed."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def parameters_with_gradients(group: dict[str, Any]) -> list[torch.Tensor]:
    """Return the parameters of a group that have gradients.

    Raises:
        RuntimeError: a gradient is sparse.
    """
    parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
    if any(parameter.grad.is_sparse for parameter in parameters):
        raise RuntimeError(
            "fused optimizers need dense gradients, but a gradient is sparse. Create embeddings with "
            "sparse=False."
        )
    return parameters


def reject_negative(**numbers: float) -> None:
    """Raise ValueError if one of the numbers, which are passed by name, is negative.

    Raises:
        ValueError: a number is negative.
    """
    for name, value in numbers.items():
        if value < 0.0:
            raise ValueError(f"Invalid {name}: {value} is negative")


def reject_betas_out_of_range(betas: tuple[float, float]) -> None:
    """Raise ValueError unless both betas (decay rates of Adam's moments) are in [0, 1).

    Raises:
        ValueError: a decay is outside of the range.
    """
    for index, value in enumerate(betas):
        if not 0.0 <= value < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {value} is not in [0, 1)")


def learning_rate(group: dict[str, Any]) -> float:
    """Return the learning rate of a parameter group as a float; ``group["lr"]`` may be a tensor."""
    return float(group["lr"])


def restore_moment_dtypes(optimizer: torch.optim.Optimizer) -> None:
    """Cast the moments in the optimizer's state to ``moments_dtype``.

    `torch.optim.Optimizer.load_state_dict` has changed their dtypes to the dtypes of the parameters.
    """
    for group in optimizer.param_groups:
        dtypes = group.get("moments_dtype")
        both = dtypes if isinstance(dtypes, tuple) else (dtypes, dtypes)
        for parameter in group["params"]:
            state = optimizer.state.get(parameter, {})
            for name, dtype in zip(("exp_avg", "exp_avg_sq"), both, strict=True):
                if name in state and dtype is not None:
                    state[name] = state[name].to(dtype)


def float32_tensor(value: float, device: torch.device) -> torch.Tensor:
    """Return a number as a float32 tensor on a device."""
    return torch.tensor(value, dtype=torch.float32, device=device)


mark_step = _mark_step_if_lazy
