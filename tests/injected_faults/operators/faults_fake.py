"""Faults of in-place forms that their fake kernels do not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.model.verdicts import Kind
from tests.injected_faults.operators.faults import _is_fake, _wrap, plant


def _wrap_inplace(info: Any, change: Callable[[Any], Any]) -> None:
    form = info.inplace_variant

    def call(*args: Any, **kwargs: Any) -> Any:
        result = form(*args, **kwargs)
        return result if _is_fake(result) else change(result)

    info.inplace_variant = call


@plant("fake_inplace", "add", "float32", Kind.METADATA)
def real_input_grows_a_dimension(info: Any) -> None:
    _wrap_inplace(info, lambda tensor: tensor.unsqueeze_(0))


@plant("fake_inplace", "add", "float32", Kind.ALIASING)
def real_form_returns_a_copy(info: Any) -> None:
    _wrap_inplace(info, lambda tensor: tensor.clone())


class _Widens(torch.autograd.Function):
    """An identity with gradients in double precision."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.double()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad.float()


@plant("fake_backward", "sin", "float32", Kind.DTYPE)
def real_result_is_double(info: Any) -> None:
    _wrap(info, lambda op: lambda x: op(x) if _is_fake(x) else _Widens.apply(op(x)))
