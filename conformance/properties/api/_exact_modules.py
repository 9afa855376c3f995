"""Helpers for behaviours of modules: set parameters to whole numbers, so that results are exact, and compare
results.
"""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import nn

from conformance.behaviours.lab import Lab, lab_work

M = TypeVar("M", bound=nn.Module)


def with_whole_number_state(lab: Lab, module: M, *, low: int = -3, high: int = 4) -> M:
    """Return the module on the Lab's device and in the Lab's dtype. Its parameters and buffers are whole
    numbers in ``[low, high)``.

    Running variances become whole numbers in ``[1, 5)``, because a variance must be positive. Tensors of
    integer dtypes, such as counters, are unchanged.
    """
    with lab_work(), torch.no_grad():
        module.to(lab.dtype)
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if not (tensor.is_floating_point() or tensor.is_complex()):
                continue
            bounds = (1, 5) if name.endswith("running_var") else (low, high)
            tensor.copy_(whole_numbers_on_host(lab, tuple(tensor.shape), *bounds))
        return module.to(lab.device)


def whole_numbers_on_host(lab: Lab, shape: tuple[int, ...], low: int = -3, high: int = 4) -> torch.Tensor:
    """Return whole numbers from the Lab's generator as a float32 tensor on the host."""
    return lab.integers(*shape, low=low, high=high, dtype=torch.float32).cpu()


def gradients_by_name(module: nn.Module) -> dict[str, Any]:
    """Return the gradients of a module's parameters, by parameter name."""
    return {name: parameter.grad for name, parameter in module.named_parameters()}


def state_by_name(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return the state dict as a plain dict."""
    return dict(module.state_dict())


#: The tolerance for a convolution of whole numbers, in roundings of the dtype. Direct sums of whole numbers
#: are exact. A kernel may first transform its inputs (Winograd, Fourier), which rounds. A result that is
#: wrong by 1 is still detected.
ROUNDINGS = 32.0


def record_close_convolution(lab: Lab, name: str, value: Any) -> None:
    """Record the result of a convolution of whole numbers. An error of ``ROUNDINGS`` roundings is allowed."""
    lab.close(name, value, roundings=ROUNDINGS, matrix=True)


def are_close_in_float32(
    lab: Lab, actual: torch.Tensor, expected: torch.Tensor, *, tolerance_factor: float = 1.0
) -> bool:
    """Return whether two results of the same float32 computation agree within the precision of the target.

    ``tolerance_factor`` multiplies the tolerance, except for a target with precision tf32.
    """
    rtol, atol = (
        (1e-2, 5e-3) if lab.target.precision == "tf32" else (tolerance_factor * 1e-4, tolerance_factor * 1e-5)
    )
    return torch.allclose(actual, expected, rtol=rtol, atol=atol)
