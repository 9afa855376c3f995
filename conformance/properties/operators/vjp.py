"""Vector-Jacobian products by torch.func, alone, in batches and of themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.properties.operators import _transforms as transforms
from conformance.property import register
from conformance.recorder import Recorder
from conformance.subjects import Subject
from conformance.target import Target

SEED = 61
SECOND = 67

Transform = Callable[[transforms.Function, transforms.Tensors], Any]


def check(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    plain: Transform,
    transformed: Transform,
    what: str,
    *,
    order: int = 1,
) -> None:
    """Hold a transform of an operator on the device against ``plain`` on the CPU; ``order`` of
    derivatives.
    """
    for sample, reference, own in transforms.cases(target, subject, recorder, gradients=True):

        def call(own: Any = own) -> Any:
            return transformed(own.function, own.primals)

        def expected(primals: transforms.Tensors, reference: Any = reference) -> Any:
            return plain(reference.function, primals)

        def same(reference: Any = reference) -> Any:
            return transformed(reference.function, reference.primals)

        size = transforms.natural_size(reference, order)
        transforms.compare(
            target, recorder, subject, sample, call, expected, reference.primals, same, what, size=size
        )


def _engine(function: transforms.Function, primals: transforms.Tensors) -> Any:
    return transforms.engine_vjp(function, primals, SEED)


def _func(function: transforms.Function, primals: transforms.Tensors) -> Any:
    return transforms.func_vjp(function, primals, SEED)


@register(
    "vjp",
    subject_kind="operator",
    statement="torch.func.vjp gives what the backward gives.",
    level="full",
    applies=transforms.applies_reverse,
    capabilities=("functorch", "autograd"),
)
def vjp(target: Target, subject: Subject, recorder: Recorder) -> None:
    check(target, subject, recorder, _engine, _func, "the vjp")


@register(
    "vmap-vjp",
    subject_kind="operator",
    statement="vmap over vjp gives what one backward after the other gives.",
    level="full",
    applies=transforms.applies_reverse,
    capabilities=("functorch", "autograd"),
)
def vmap_vjp(target: Target, subject: Subject, recorder: Recorder) -> None:
    def plain(function: transforms.Function, primals: transforms.Tensors) -> Any:
        batch = transforms.batch_of(primals)
        return transforms.stacked(
            [_engine(function, transforms.rows_of(batch, row)) for row in range(transforms.BATCH)]
        )

    def mapped(function: transforms.Function, primals: transforms.Tensors) -> Any:
        return torch.vmap(lambda *row: _func(function, list(row)), randomness="same")(
            *transforms.batch_of(primals)
        )

    check(target, subject, recorder, plain, mapped, "vmap over vjp")


@register(
    "vjp-vjp",
    subject_kind="operator",
    statement="vjp of vjp gives what the backward of the backward gives.",
    level="full",
    applies=lambda target, subject: (
        transforms.applies_reverse(target, subject) if subject.info.supports_gradgrad else []
    ),
    capabilities=("functorch", "double_backward"),
)
def vjp_vjp(target: Target, subject: Subject, recorder: Recorder) -> None:
    def plain(function: transforms.Function, primals: transforms.Tensors) -> Any:
        with torch.enable_grad():
            inputs = [primal.detach().clone().requires_grad_() for primal in primals]
            outputs = function(*inputs)
            weights = transforms.directions(outputs, SEED)
            first = torch.autograd.grad(outputs, inputs, weights, create_graph=True, materialize_grads=True)
            kept = [one for one in first if one.requires_grad]
            noise = transforms.directions(first, SECOND)
            kept_noise = [weight for one, weight in zip(first, noise, strict=True) if one.requires_grad]
            if not kept:
                return [torch.zeros_like(primal) for primal in primals]
            second = torch.autograd.grad(kept, inputs, kept_noise, allow_unused=True)
        return transforms.detached(second, inputs)

    def twice(function: transforms.Function, primals: transforms.Tensors) -> Any:
        return transforms.func_vjp(lambda *inner: _func(function, list(inner)), primals, SECOND)

    check(target, subject, recorder, plain, twice, "vjp of vjp", order=2)
