"""Faults that change the results of real kernels and do not affect fake tensors.

Fake tensors predict the correct result, so the result of the faulty kernel differs from the prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.model.verdicts import Kind
from tests.injected_faults.operators.faults import _is_fake_tensor, _replace_op, register_fault


def _change_inplace_results(info: Any, change: Callable[[Any], Any]) -> None:
    form = info.inplace_variant

    def faulty_call(*args: Any, **kwargs: Any) -> Any:
        result = form(*args, **kwargs)
        return result if _is_fake_tensor(result) else change(result)

    info.inplace_variant = faulty_call


@register_fault("fake_inplace", "add", "float32", Kind.METADATA)
def real_in_place_adds_dimension(info: Any) -> None:
    _change_inplace_results(info, lambda tensor: tensor.unsqueeze_(0))


@register_fault("fake_inplace", "add", "float32", Kind.ALIASING)
def real_in_place_returns_copy(info: Any) -> None:
    _change_inplace_results(info, lambda tensor: tensor.clone())


class _Float64ResultFloat32Gradient(torch.autograd.Function):
    """A function with a float64 result and a float32 gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.double()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad.float()


@register_fault("fake_backward", "sin", "float32", Kind.DTYPE)
def real_kernel_returns_double(info: Any) -> None:
    _replace_op(
        info, lambda op: lambda x: op(x) if _is_fake_tensor(x) else _Float64ResultFloat32Gradient.apply(op(x))
    )
