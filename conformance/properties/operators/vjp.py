"""Vector-Jacobian products by torch.func: alone, of themselves, in batches and of batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.operators import _func_transforms as transforms
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

SEED = 61
SECOND = 67

Transform = Callable[[transforms.Function, transforms.Tensors], Any]


def check(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    plain: Transform,
    transformed: Transform,
    label: str,
    *,
    order: int = 1,
) -> None:
    """Compare a transform of an operator on the device with ``plain`` on the CPU; ``order`` is that of
    derivatives.
    """
    for sample, reference, tested in transforms.cases(target, subject, recorder, gradients=True):

        def call(tested: Any = tested) -> Any:
            return transformed(tested.function, tested.primals)

        def expected(primals: transforms.Tensors, reference: Any = reference) -> Any:
            return plain(reference.function, primals)

        def same(reference: Any = reference) -> Any:
            return transformed(reference.function, reference.primals)

        size = transforms.natural_size(reference, order)
        transforms.compare(
            target, recorder, subject, sample, call, expected, reference.primals, same, label, size=size
        )


def _engine(function: transforms.Function, primals: transforms.Tensors) -> Any:
    return transforms.engine_vjp(function, primals, SEED)


def _func(function: transforms.Function, primals: transforms.Tensors) -> Any:
    return transforms.func_vjp(function, primals, SEED)


@register(
    "vjp",
    subject_kind="operator",
    statement="torch.func.vjp gives what the backward gives.",
    documentation="generated/torch.func.vjp.html",
    level="full",
    applies=transforms.applies_reverse,
    capabilities=("functorch", "autograd"),
)
def vjp(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check torch.func.vjp."""
    check(target, subject, recorder, _engine, _func, "the vjp")


def one_by_one(transform: Transform, function: transforms.Function, primals: transforms.Tensors) -> Any:
    """Return the results of a transform for each element of a batch, one after the other."""
    batch = transforms.batch_of(primals)
    return transforms.stacked(
        [transform(function, transforms.rows_of(batch, row)) for row in range(transforms.BATCH)]
    )


def mapped(transform: Transform, function: transforms.Function, primals: transforms.Tensors) -> Any:
    """Return the result of ``vmap`` over a transform."""
    call = torch.vmap(lambda *row: tuple(transform(function, list(row))), randomness="same")
    return call(*transforms.batch_of(primals))


def of_a_batch(function: transforms.Function) -> transforms.Function:
    """Return ``vmap`` of a function, as a function that can be transformed."""
    return torch.vmap(function, randomness="same")


@register(
    "vmap-vjp",
    subject_kind="operator",
    statement="vmap over vjp gives what one backward after the other gives.",
    documentation="generated/torch.func.vjp.html",
    level="full",
    applies=transforms.applies_reverse,
    capabilities=("functorch", "autograd"),
)
def vmap_vjp(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check vmap over torch.func.vjp."""

    def plain(function: transforms.Function, primals: transforms.Tensors) -> Any:
        return one_by_one(_engine, function, primals)

    def transformed(function: transforms.Function, primals: transforms.Tensors) -> Any:
        return mapped(_func, function, primals)

    check(target, subject, recorder, plain, transformed, "vmap over vjp")


@register(
    "vjp-vmap",
    subject_kind="operator",
    statement="vjp of a batch gives what the backward through one call after the other gives.",
    documentation="generated/torch.func.vjp.html",
    level="full",
    applies=transforms.applies_reverse,
    capabilities=("functorch", "autograd"),
)
def vjp_vmap(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check torch.func.vjp of vmap."""

    def looped(function: transforms.Function) -> transforms.Function:
        def call(*batch: torch.Tensor) -> Any:
            rows = [function(*transforms.rows_of(list(batch), row)) for row in range(transforms.BATCH)]
            return tuple(transforms.stacked(rows))

        return call

    def plain(function: transforms.Function, primals: transforms.Tensors) -> Any:
        return _engine(looped(function), transforms.batch_of(primals))

    def transformed(function: transforms.Function, primals: transforms.Tensors) -> Any:
        return _func(of_a_batch(function), transforms.batch_of(primals))

    check(target, subject, recorder, plain, transformed, "vjp of vmap")


#: Operators that are twice differentiable by the database, but not by torch's own error message.
_ONLY_ONCE = frozenset({"nn.functional.ctc_loss"})


def _with_second(target: Target, subject: Subject) -> Any:
    if subject.name in _ONLY_ONCE or not subject.info.supports_gradgrad:
        return []
    return transforms.applies_reverse(target, subject)


def _backward_of_backward(function: transforms.Function, primals: transforms.Tensors) -> Any:
    with torch.enable_grad():
        inputs = [primal.detach().clone().requires_grad_() for primal in primals]
        outputs, weights = transforms.dependent(function(*inputs), SEED)
        if not outputs:
            return [torch.zeros_like(primal) for primal in primals]
        first = torch.autograd.grad(outputs, inputs, weights, create_graph=True, materialize_grads=True)
        kept = [gradient for gradient in first if gradient.requires_grad]
        noise = transforms.directions(first, SECOND)
        kept_noise = [weight for gradient, weight in zip(first, noise, strict=True) if gradient.requires_grad]
        if not kept:
            return [torch.zeros_like(primal) for primal in primals]
        second = torch.autograd.grad(kept, inputs, kept_noise, allow_unused=True)
    return transforms.detached(second, inputs)


def _func_twice(function: transforms.Function, primals: transforms.Tensors) -> Any:
    return transforms.func_vjp(lambda *inner: _func(function, list(inner)), primals, SECOND)


@register(
    "vjp-vjp",
    subject_kind="operator",
    statement="vjp of vjp gives what the backward of the backward gives.",
    documentation="generated/torch.func.vjp.html",
    level="full",
    applies=_with_second,
    capabilities=("functorch", "double_backward"),
)
def vjp_vjp(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check torch.func.vjp of torch.func.vjp."""
    check(target, subject, recorder, _backward_of_backward, _func_twice, "vjp of vjp", order=2)


@register(
    "vmap-vjp-vjp",
    subject_kind="operator",
    statement="vmap over vjp of vjp gives what one backward of a backward after the other gives.",
    documentation="generated/torch.func.vjp.html",
    level="full",
    applies=_with_second,
    capabilities=("functorch", "double_backward"),
)
def vmap_vjp_vjp(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check vmap over torch.func.vjp of torch.func.vjp."""

    def plain(function: transforms.Function, primals: transforms.Tensors) -> Any:
        return one_by_one(_backward_of_backward, function, primals)

    def transformed(function: transforms.Function, primals: transforms.Tensors) -> Any:
        return mapped(_func_twice, function, primals)

    check(target, subject, recorder, plain, transformed, "vmap over vjp of vjp", order=2)
