"""Jacobian-vector products by torch.func: alone, in batches, of batches and of backward passes."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.operators import _func_transforms as transforms
from conformance.properties.operators.vjp import SEED, _func, check, mapped, of_a_batch, one_by_one
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

TANGENT = 71


def _forward(function: transforms.Function, primals: transforms.Tensors) -> Any:
    """Return tangents of the outputs by dual tensors; zeros if an output does not depend on the inputs."""
    with forward_ad.dual_level():
        tangents = transforms.directions(primals, TANGENT)
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
    pushed: Any = torch.func.jvp(function, tuple(primals), transforms.directions(primals, TANGENT))
    return pushed[1]


@register(
    "jvp",
    subject_kind="operator",
    statement="torch.func.jvp gives what forward mode gives.",
    documentation="generated/torch.func.jvp.html",
    level="full",
    applies=transforms.applies_forward,
    capabilities=("functorch", "forward_ad"),
)
def jvp(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check torch.func.jvp."""
    check(target, subject, recorder, _forward, _func_jvp, "the jvp")


@register(
    "vmap-jvp",
    subject_kind="operator",
    statement="vmap over jvp gives what one pass of forward mode after the other gives.",
    documentation="generated/torch.func.jvp.html",
    level="full",
    applies=transforms.applies_forward,
    capabilities=("functorch", "forward_ad"),
)
def vmap_jvp(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check vmap over torch.func.jvp."""

    def plain(function: transforms.Function, primals: transforms.Tensors) -> Any:
        batch = transforms.batch_of(primals)
        tangents = transforms.directions(batch, TANGENT)
        rows = []
        for row in range(transforms.BATCH):
            pushed: Any = torch.func.jvp(
                function, tuple(transforms.rows_of(batch, row)), tuple(t[row] for t in tangents)
            )
            rows.append(pushed[1])
        return transforms.stacked(rows)

    def mapped(function: transforms.Function, primals: transforms.Tensors) -> Any:
        batch = tuple(transforms.batch_of(primals))
        tangents = transforms.directions(batch, TANGENT)

        def row(values: Any, directions: Any) -> Any:
            return torch.func.jvp(function, values, directions)[1]

        return torch.vmap(row, randomness="same")(batch, tangents)

    check(target, subject, recorder, plain, mapped, "vmap over jvp")


@register(
    "jvp-vmap",
    subject_kind="operator",
    statement="jvp of a batch gives what forward mode through one call after the other gives.",
    documentation="generated/torch.func.jvp.html",
    level="full",
    applies=transforms.applies_forward,
    capabilities=("functorch", "forward_ad"),
)
def jvp_vmap(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check torch.func.jvp of vmap."""

    def plain(function: transforms.Function, primals: transforms.Tensors) -> Any:
        def looped(*batch: torch.Tensor) -> Any:
            rows = [function(*transforms.rows_of(list(batch), row)) for row in range(transforms.BATCH)]
            return tuple(transforms.stacked(rows))

        return _forward(looped, transforms.batch_of(primals))

    def transformed(function: transforms.Function, primals: transforms.Tensors) -> Any:
        return _func_jvp(of_a_batch(function), transforms.batch_of(primals))

    check(target, subject, recorder, plain, transformed, "jvp of vmap")


def _with_second(target: Target, subject: Subject) -> Any:
    return transforms.applies_forward(target, subject) if subject.info.supports_fwgrad_bwgrad else []


def _backward_along(function: transforms.Function, primals: transforms.Tensors) -> Any:
    """Return the derivative by the transpose: the backward of the backward, along the same direction."""
    tangents = transforms.directions(primals, TANGENT)
    with torch.enable_grad():
        inputs = [primal.detach().clone().requires_grad_() for primal in primals]
        outputs, given = transforms.dependent(function(*inputs), SEED)
        if not outputs:
            return [torch.zeros_like(primal) for primal in primals]
        weights = [weight.requires_grad_() for weight in given]
        first = torch.autograd.grad(outputs, inputs, weights, create_graph=True, materialize_grads=True)
        # J^T w is linear in a dummy cotangent of the backward: differentiate it along the tangents.
        dummies = [torch.zeros_like(gradient).requires_grad_() for gradient in first]
        kept = [pair for pair in zip(first, dummies, strict=True) if pair[0].requires_grad]
        if not kept:
            return [torch.zeros_like(gradient) for gradient in first]
        pulled = torch.autograd.grad(
            [gradient for gradient, _ in kept],
            inputs,
            [dummy for _, dummy in kept],
            create_graph=True,
            materialize_grads=True,
        )
        moved = [value for value in pulled if value.requires_grad]
        if not moved:
            return [torch.zeros_like(gradient) for gradient in first]
        chosen = [tangent for value, tangent in zip(pulled, tangents, strict=True) if value.requires_grad]
        second = torch.autograd.grad(moved, dummies, chosen, allow_unused=True)
    return transforms.detached(second, list(first))


def _forward_over_reverse(function: transforms.Function, primals: transforms.Tensors) -> Any:
    def pull(*inner: torch.Tensor) -> Any:
        return _func(function, list(inner))

    return _func_jvp(pull, primals)


@register(
    "jvp-vjp",
    subject_kind="operator",
    statement="jvp of vjp gives what the derivative of the backward along a direction is.",
    documentation="generated/torch.func.jvp.html",
    level="full",
    applies=_with_second,
    capabilities=("functorch", "double_backward", "forward_ad"),
)
def jvp_vjp(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check torch.func.jvp of torch.func.vjp."""
    check(target, subject, recorder, _backward_along, _forward_over_reverse, "jvp of vjp", order=2)


@register(
    "vmap-jvp-vjp",
    subject_kind="operator",
    statement="vmap over jvp of vjp gives what one derivative of a backward after the other is.",
    documentation="generated/torch.func.jvp.html",
    level="full",
    applies=_with_second,
    capabilities=("functorch", "double_backward", "forward_ad"),
)
def vmap_jvp_vjp(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check vmap over torch.func.jvp of torch.func.vjp."""

    def plain(function: transforms.Function, primals: transforms.Tensors) -> Any:
        return one_by_one(_backward_along, function, primals)

    def transformed(function: transforms.Function, primals: transforms.Tensors) -> Any:
        return mapped(_forward_over_reverse, function, primals)

    check(target, subject, recorder, plain, transformed, "vmap over jvp of vjp", order=2)
