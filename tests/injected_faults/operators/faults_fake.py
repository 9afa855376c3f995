"""Wrong behaviour of in-place forms that their fakes do not share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.model.verdicts import Kind
from tests.injected_faults.operators.faults import _is_fake, _wrap, plant


def _wrap_inplace(info: Any, change: Callable[[Any], Any]) -> None:
    form = info.inplace_variant

    def call(*args: Any, **kwargs: Any) -> Any:
        found = form(*args, **kwargs)
        return found if _is_fake(found) else change(found)

    info.inplace_variant = call


@plant("fake_inplace", "add", "float32", Kind.METADATA)
def real_input_grows_a_dimension(info: Any) -> None:
    _wrap_inplace(info, lambda found: found.unsqueeze_(0))


@plant("fake_inplace", "add", "float32", Kind.ALIASING)
def real_form_returns_a_copy(info: Any) -> None:
    _wrap_inplace(info, lambda found: found.clone())


class _Widens(torch.autograd.Function):
    """Gives real gradients of double precision."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.double()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad.float()


@plant("fake_backward", "sin", "float32", Kind.DTYPE)
def real_result_is_double(info: Any) -> None:
    _wrap(info, lambda op: lambda x: op(x) if _is_fake(x) else _Widens.apply(op(x)))
