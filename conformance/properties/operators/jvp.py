"""Properties of ``torch.func.jvp``: of jvp alone, and of its compositions with ``vmap`` and ``vjp``."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.operators import _func_transforms as transforms
from conformance.properties.operators.vjp import (
    SEED,
    _func_vjp,
    compare_transforms,
    transform_each_row,
    vmap_of_transform,
    vmapped_function,
)
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

TANGENT = 71


def _dual_jvp(function: transforms.Function, primals: transforms.Tensors) -> Any:
    """Return the tangents of the outputs, computed with dual tensors.

    The tangent of an output that does not depend on the inputs is zero.
    """
    with forward_ad.dual_level():
        tangents = transforms.random_tensors_like(primals, TANGENT)
        duals = [
            forward_ad.make_dual(primal, tangent)  # type: ignore[no-untyped-call]
            for primal, tangent in zip(primals, tangents, strict=True)
        ]
        outputs = [forward_ad.unpack_dual(output) for output in function(*duals)]  # type: ignore[no-untyped-call]
        return [
            torch.zeros_like(dual.primal) if dual.tangent is None else dual.tangent.detach().clone()
            for dual in outputs
        ]


def _func_jvp(function: transforms.Function, primals: transforms.Tensors) -> Any:
    pushed: Any = torch.func.jvp(function, tuple(primals), transforms.random_tensors_like(primals, TANGENT))
    return pushed[1]


@register(
    "jvp",
    subject_kind="operator",
    statement="torch.func.jvp gives the results of forward mode.",
    documentation="generated/torch.func.jvp.html",
    level="full",
    applies=transforms.dtypes_for_forward_mode,
    capabilities=("functorch", "forward_ad"),
)
@controlled_by_cpu
def check_jvp(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compare torch.func.jvp with forward mode."""
    compare_transforms(target, subject, recorder, _dual_jvp, _func_jvp, "the jvp")


@register(
    "vmap-jvp",
    subject_kind="operator",
    statement="vmap over jvp gives the results of separate passes of forward mode.",
    documentation="generated/torch.vmap.html",
    level="full",
    applies=transforms.dtypes_for_forward_mode,
    capabilities=("functorch", "forward_ad"),
)
@controlled_by_cpu
def check_vmap_jvp(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compare vmap over torch.func.jvp with separate calls of torch.func.jvp."""

    def reference_transform(function: transforms.Function, primals: transforms.Tensors) -> Any:
        batch = transforms.batch_with_rolled_copies(primals)
        tangents = transforms.random_tensors_like(batch, TANGENT)
        rows = []
        for row in range(transforms.BATCH):
            pushed: Any = torch.func.jvp(
                function, tuple(transforms.row_of_batch(batch, row)), tuple(t[row] for t in tangents)
            )
            rows.append(pushed[1])
        return transforms.stack_rows(rows)

    def vmapped_jvp(function: transforms.Function, primals: transforms.Tensors) -> Any:
        batch = tuple(transforms.batch_with_rolled_copies(primals))
        tangents = transforms.random_tensors_like(batch, TANGENT)

        def jvp_of_row(values: Any, directions: Any) -> Any:
            return torch.func.jvp(function, values, directions)[1]

        return torch.vmap(jvp_of_row, randomness="same")(batch, tangents)

    compare_transforms(target, subject, recorder, reference_transform, vmapped_jvp, "vmap over jvp")


@register(
    "jvp-vmap",
    subject_kind="operator",
    statement="jvp of a batch gives the results of forward mode through separate calls.",
    documentation="generated/torch.func.jvp.html",
    level="full",
    applies=transforms.dtypes_for_forward_mode,
    capabilities=("functorch", "forward_ad"),
)
@controlled_by_cpu
def check_jvp_vmap(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compare ``torch.func.jvp`` of ``vmap(function)`` with forward mode of one call for each batch row."""

    def reference_transform(function: transforms.Function, primals: transforms.Tensors) -> Any:
        def call_each_row(*batch: torch.Tensor) -> Any:
            rows = [function(*transforms.row_of_batch(list(batch), row)) for row in range(transforms.BATCH)]
            return tuple(transforms.stack_rows(rows))

        return _dual_jvp(call_each_row, transforms.batch_with_rolled_copies(primals))

    def tested_transform(function: transforms.Function, primals: transforms.Tensors) -> Any:
        return _func_jvp(vmapped_function(function), transforms.batch_with_rolled_copies(primals))

    compare_transforms(target, subject, recorder, reference_transform, tested_transform, "jvp of vmap")


def _dtypes_for_forward_over_reverse(target: Target, subject: Subject) -> Any:
    return transforms.dtypes_for_forward_mode(target, subject) if subject.info.supports_fwgrad_bwgrad else []


def _derivative_of_backward(function: transforms.Function, primals: transforms.Tensors) -> Any:
    """Return the derivative of the backward along the tangents, computed as a backward of the backward."""
    tangents = transforms.random_tensors_like(primals, TANGENT)
    with torch.enable_grad():
        inputs = [primal.detach().clone().requires_grad_() for primal in primals]
        outputs, cotangents = transforms.differentiable_outputs_and_cotangents(function(*inputs), SEED)
        if not outputs:
            return [torch.zeros_like(primal) for primal in primals]
        weights = [weight.requires_grad_() for weight in cotangents]
        first = torch.autograd.grad(outputs, inputs, weights, create_graph=True, materialize_grads=True)
        # ``pulled``, the gradients of ``first``, is linear in its cotangents, the dummies. Its gradients with
        # respect to the dummies, with the tangents as cotangents, are therefore the derivative of the
        # backward along the tangents.
        dummies = [torch.zeros_like(gradient).requires_grad_() for gradient in first]
        dependent_pairs = [pair for pair in zip(first, dummies, strict=True) if pair[0].requires_grad]
        if not dependent_pairs:
            return [torch.zeros_like(gradient) for gradient in first]
        pulled = torch.autograd.grad(
            [gradient for gradient, _ in dependent_pairs],
            inputs,
            [dummy for _, dummy in dependent_pairs],
            create_graph=True,
            materialize_grads=True,
        )
        moved = [value for value in pulled if value.requires_grad]
        if not moved:
            return [torch.zeros_like(gradient) for gradient in first]
        chosen = [tangent for value, tangent in zip(pulled, tangents, strict=True) if value.requires_grad]
        second = torch.autograd.grad(moved, dummies, chosen, allow_unused=True)
    return transforms.detached_or_zeros(second, list(first))


def _forward_over_reverse(function: transforms.Function, primals: transforms.Tensors) -> Any:
    def vjp_of_inputs(*inner: torch.Tensor) -> Any:
        return _func_vjp(function, list(inner))

    return _func_jvp(vjp_of_inputs, primals)


@register(
    "jvp-vjp",
    subject_kind="operator",
    statement="jvp of vjp gives the derivative of the backward along a direction.",
    documentation="generated/torch.func.jvp.html",
    level="full",
    applies=_dtypes_for_forward_over_reverse,
    capabilities=("functorch", "double_backward", "forward_ad"),
)
@controlled_by_cpu
def check_jvp_vjp(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compare torch.func.jvp of torch.func.vjp with the derivative of the backward along a direction."""
    compare_transforms(
        target, subject, recorder, _derivative_of_backward, _forward_over_reverse, "jvp of vjp", order=2
    )


@register(
    "vmap-jvp-vjp",
    subject_kind="operator",
    statement="vmap over jvp of vjp gives the results of separate derivatives of the backward.",
    documentation="generated/torch.vmap.html",
    level="full",
    applies=_dtypes_for_forward_over_reverse,
    capabilities=("functorch", "double_backward", "forward_ad"),
)
@controlled_by_cpu
def check_vmap_jvp_vjp(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compare vmap over torch.func.jvp of torch.func.vjp with separate derivatives of the backward."""

    def reference_transform(function: transforms.Function, primals: transforms.Tensors) -> Any:
        return transform_each_row(_derivative_of_backward, function, primals)

    def tested_transform(function: transforms.Function, primals: transforms.Tensors) -> Any:
        return vmap_of_transform(_forward_over_reverse, function, primals)

    compare_transforms(
        target, subject, recorder, reference_transform, tested_transform, "vmap over jvp of vjp", order=2
    )
