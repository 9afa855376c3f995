"""Faults under function transforms: operators with wrong results under vmap, or with wrong derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad

from conformance.model.verdicts import Kind
from tests.injected_faults.broken_compile_backends import enlarge_gradient
from tests.injected_faults.operators.faults import _replace_op, register_fault


class ExpMixingBatchElements(torch.autograd.Function):
    """The function exp, with a fault under vmap: each batch element gets the result of a neighbouring batch
    element. Outside vmap the results are correct.
    """

    generate_vmap_rule = False

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (output,) = ctx.saved_tensors
        return grad * output

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor) -> torch.Tensor:
        (output,) = ctx.saved_tensors
        return tangent * output

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: torch.Tensor) -> Any:
        (where,) = in_dims
        return torch.exp(x.roll(1, where)), where


def _mixes_batch_elements_in_vmap(info: Any) -> None:
    _replace_op(info, lambda op: lambda x: ExpMixingBatchElements.apply(x))


def _gradients_too_large(info: Any) -> None:
    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: enlarge_gradient(op(*args, **kwargs))

    _replace_op(info, make_faulty_op)


register_fault("vmap", "exp", "float64", Kind.VALUE)(_mixes_batch_elements_in_vmap)
register_fault("vmap-vjp", "exp", "float64", Kind.VALUE)(_mixes_batch_elements_in_vmap)
register_fault("vmap-jvp", "exp", "float64", Kind.VALUE)(_mixes_batch_elements_in_vmap)
for name in ("vjp-vmap", "jvp-vmap", "vmap-vjp-vjp", "vmap-jvp-vjp"):
    register_fault(name, "exp", "float64", Kind.VALUE)(_mixes_batch_elements_in_vmap)
for name in ("vjp", "vjp-vjp", "jvp-vjp"):
    register_fault(name, "exp", "float64", Kind.VALUE)(_gradients_too_large)


@register_fault("jvp", "exp", "float64", Kind.VALUE)
def _jvp_tangent_too_large(info: Any) -> None:
    def faulty_call(x: torch.Tensor) -> torch.Tensor:
        primal = forward_ad.unpack_dual(x).primal  # type: ignore[no-untyped-call]
        return torch.exp(x) + 0.01 * (torch.exp(x) - torch.exp(primal))

    _replace_op(info, lambda op: faulty_call)
