"""Helpers for behaviours of modules: parameters that make the results exact."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import nn

from conformance.behaviours.lab import Lab, own_work

M = TypeVar("M", bound=nn.Module)


def whole(lab: Lab, module: M, *, low: int = -3, high: int = 4) -> M:
    """The module on the lab's device and in its dtype, with whole numbers in ``[low, high)`` as its state.

    Running variances become whole numbers from 1, so that they stay variances. Counters are left alone.
    """
    with own_work(), torch.no_grad():
        module.to(lab.dtype)
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if not (tensor.is_floating_point() or tensor.is_complex()):
                continue
            bounds = (1, 5) if name.endswith("running_var") else (low, high)
            tensor.copy_(numbers(lab, tuple(tensor.shape), *bounds))
        return module.to(lab.device)


def numbers(lab: Lab, shape: tuple[int, ...], low: int = -3, high: int = 4) -> torch.Tensor:
    """Whole numbers on the host, of float32, from the lab's generator."""
    return lab.integers(*shape, low=low, high=high, dtype=torch.float32).cpu()


def gradients(module: nn.Module) -> dict[str, Any]:
    """The gradients of a module's parameters by name."""
    return {name: parameter.grad for name, parameter in module.named_parameters()}


def state(module: nn.Module) -> dict[str, torch.Tensor]:
    """The state dict as a plain dict."""
    return dict(module.state_dict())


#: Sums of whole numbers are exact if they are added in order. A kernel may transform its inputs first
#: (Winograd, Fourier), which rounds a few more times. An error of one is still detected.
ROUNDINGS = 32.0


def near(lab: Lab, name: str, value: Any) -> None:
    """Show results of convolutions of whole numbers."""
    lab.close(name, value, roundings=ROUNDINGS, matrix=True)


def agree_roughly(lab: Lab, left: torch.Tensor, right: torch.Tensor, *, times: float = 1.0) -> bool:
    """Return whether two ways to one attention in float32 agree, within some ``times`` of the rounding of the
    target's precision.
    """
    rtol, atol = (1e-2, 5e-3) if lab.target.precision == "tf32" else (times * 1e-4, times * 1e-5)
    return torch.allclose(left, right, rtol=rtol, atol=atol)
