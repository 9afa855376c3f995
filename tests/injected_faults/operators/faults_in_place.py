"""Further injected faults of operators:

* in-place operators with wrong gradients or tangents
* a second derivative that torch's own operator does not have
* wrong results outside the domain of a function
* wrong results for inputs with a single row and unusual strides
* a sum of bool inputs that adds their bytes instead of their values
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad

from conformance.model.verdicts import Kind
from tests.injected_faults.broken_compile_backends import enlarge_gradient
from tests.injected_faults.operators.faults import _replace_op, register_fault


@register_fault("gradgrad", "sin", "float64", Kind.VALUE)
def in_place_gradient_too_large(info: Any) -> None:
    form = info.inplace_variant
    info.inplace_variant = lambda *args, **kwargs: enlarge_gradient(form(*args, **kwargs))


@register_fault("gradgrad", "nn.functional.hardsigmoid", "float64", Kind.ERROR_TYPE)
def second_derivative_where_torch_raises(info: Any) -> None:
    info.op = lambda x, **kwargs: (x / 6 + 0.5).clamp(0, 1)


@register_fault("forward-ad", "sin", "float64", Kind.VALUE)
def in_place_tangent_too_large(info: Any) -> None:
    form = info.inplace_variant

    def faulty_call(x: torch.Tensor) -> torch.Tensor:
        result = form(x)
        return result + 0.01 * (result - forward_ad.unpack_dual(result).primal)

    info.inplace_variant = faulty_call


@register_fault("extremal", "acos", "float32", Kind.VALUE)
def zero_outside_domain(info: Any) -> None:
    _replace_op(info, lambda op: lambda x, **k: torch.where((x > 1) & (x < 1.5), 0, op(x, **k)))


def _reverse_inputs_with_unusual_strides(op: Callable[..., Any]) -> Callable[..., Any]:
    def faulty_call(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        odd = x.dim() > 1 and x.shape[0] == 1 and x.is_contiguous() and x.stride(0) != x[0].numel()
        return op(x.flip(-1) if odd else x, *args, **kwargs)

    return faulty_call


@register_fault("layout", "abs", "float32", Kind.VALUE)
@register_fault("layout", "add", "float32", Kind.VALUE)
def reversed_if_one_row_has_unusual_strides(info: Any) -> None:
    _replace_op(info, _reverse_inputs_with_unusual_strides)


@register_fault("bool-bytes", "sum", "bool", Kind.VALUE)
def bool_bytes_summed(info: Any) -> None:
    _replace_op(info, lambda op: lambda x, *a, **k: op(x.view(torch.uint8).long(), *a, **k))
