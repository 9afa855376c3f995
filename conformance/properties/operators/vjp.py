"""Properties of ``torch.func.vjp``: of vjp alone, and of its compositions with ``vmap`` and vjp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.operators import _func_transforms as transforms
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

SEED = 61
SECOND = 67

Transform = Callable[[transforms.Function, transforms.Tensors], Any]


def compare_transforms(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    reference_transform: Transform,
    tested_transform: Transform,
    label: str,
    *,
    order: int = 1,
) -> None:
    """Compare ``tested_transform`` of an operator on the device with ``reference_transform`` on the CPU.

    ``order`` is the order of the derivatives.
    """
    for sample, reference, tested in transforms.transformable_samples(
        target, subject, recorder, gradients=True
    ):

        def run_tested(tested: Any = tested) -> Any:
            return tested_transform(tested.function, tested.primals)

        def run_reference(primals: transforms.Tensors, reference: Any = reference) -> Any:
            return reference_transform(reference.function, primals)

        def run_tested_on_cpu(reference: Any = reference) -> Any:
            return tested_transform(reference.function, reference.primals)

        size = transforms.expected_derivative_size(reference, order)
        transforms.compare_transform(
            target,
            recorder,
            subject,
            sample,
            run_tested,
            run_reference,
            reference.primals,
            run_tested_on_cpu,
            label,
            size=size,
        )


def _autograd_vjp(function: transforms.Function, primals: transforms.Tensors) -> Any:
    return transforms.vjp_by_autograd_grad(function, primals, SEED)


def _func_vjp(function: transforms.Function, primals: transforms.Tensors) -> Any:
    return transforms.vjp_by_torch_func(function, primals, SEED)


@register(
    "vjp",
    subject_kind="operator",
    statement="torch.func.vjp gives the results of the backward.",
    documentation="generated/torch.func.vjp.html",
    level="full",
    applies=transforms.dtypes_for_reverse_mode,
    capabilities=("functorch", "autograd"),
)
@controlled_by_cpu
def check_vjp(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compare torch.func.vjp with the backward."""
    compare_transforms(target, subject, recorder, _autograd_vjp, _func_vjp, "the vjp")


def transform_each_row(
    transform: Transform, function: transforms.Function, primals: transforms.Tensors
) -> Any:
    """Return the results of separate calls of a transform, one for each element of a batch."""
    batch = transforms.batch_with_rolled_copies(primals)
    return transforms.stack_rows(
        [transform(function, transforms.row_of_batch(batch, row)) for row in range(transforms.BATCH)]
    )


def vmap_of_transform(
    transform: Transform, function: transforms.Function, primals: transforms.Tensors
) -> Any:
    """Return the result of ``vmap`` over a transform."""
    call = torch.vmap(lambda *row: tuple(transform(function, list(row))), randomness="same")
    return call(*transforms.batch_with_rolled_copies(primals))


def vmapped_function(function: transforms.Function) -> transforms.Function:
    """Return the function that computes ``vmap`` of a function, so that it can be transformed further."""
    return torch.vmap(function, randomness="same")


@register(
    "vmap-vjp",
    subject_kind="operator",
    statement="vmap over vjp gives the results of separate backward passes.",
    documentation="generated/torch.vmap.html",
    level="full",
    applies=transforms.dtypes_for_reverse_mode,
    capabilities=("functorch", "autograd"),
)
@controlled_by_cpu
def check_vmap_vjp(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compare vmap over torch.func.vjp with separate backward passes."""

    def reference_transform(function: transforms.Function, primals: transforms.Tensors) -> Any:
        return transform_each_row(_autograd_vjp, function, primals)

    def tested_transform(function: transforms.Function, primals: transforms.Tensors) -> Any:
        return vmap_of_transform(_func_vjp, function, primals)

    compare_transforms(target, subject, recorder, reference_transform, tested_transform, "vmap over vjp")


@register(
    "vjp-vmap",
    subject_kind="operator",
    statement="vjp of a batch gives the results of the backward through separate calls.",
    documentation="generated/torch.func.vjp.html",
    level="full",
    applies=transforms.dtypes_for_reverse_mode,
    capabilities=("functorch", "autograd"),
)
@controlled_by_cpu
def check_vjp_vmap(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compare torch.func.vjp of a function under vmap with the backward of separate calls of the function."""

    def calling_each_row(function: transforms.Function) -> transforms.Function:
        def call_each_row(*batch: torch.Tensor) -> Any:
            rows = [function(*transforms.row_of_batch(list(batch), row)) for row in range(transforms.BATCH)]
            return tuple(transforms.stack_rows(rows))

        return call_each_row

    def reference_transform(function: transforms.Function, primals: transforms.Tensors) -> Any:
        return _autograd_vjp(calling_each_row(function), transforms.batch_with_rolled_copies(primals))

    def tested_transform(function: transforms.Function, primals: transforms.Tensors) -> Any:
        return _func_vjp(vmapped_function(function), transforms.batch_with_rolled_copies(primals))

    compare_transforms(target, subject, recorder, reference_transform, tested_transform, "vjp of vmap")


#: Operators that torch's database declares twice differentiable, although torch raises an error for their
#: second derivative.
_ONLY_ONCE = frozenset({"nn.functional.ctc_loss"})


def _dtypes_for_second_derivatives(target: Target, subject: Subject) -> Any:
    if subject.name in _ONLY_ONCE or not subject.info.supports_gradgrad:
        return []
    return transforms.dtypes_for_reverse_mode(target, subject)


def _backward_of_backward(function: transforms.Function, primals: transforms.Tensors) -> Any:
    with torch.enable_grad():
        inputs = [primal.detach().clone().requires_grad_() for primal in primals]
        outputs, weights = transforms.differentiable_outputs_and_cotangents(function(*inputs), SEED)
        if not outputs:
            return [torch.zeros_like(primal) for primal in primals]
        first = torch.autograd.grad(outputs, inputs, weights, create_graph=True, materialize_grads=True)
        dependent = [gradient for gradient in first if gradient.requires_grad]
        cotangents = transforms.random_tensors_like(first, SECOND)
        dependent_noise = [
            weight for gradient, weight in zip(first, cotangents, strict=True) if gradient.requires_grad
        ]
        if not dependent:
            return [torch.zeros_like(primal) for primal in primals]
        second = torch.autograd.grad(dependent, inputs, dependent_noise, allow_unused=True)
    return transforms.detached_or_zeros(second, inputs)


def _func_vjp_of_vjp(function: transforms.Function, primals: transforms.Tensors) -> Any:
    return transforms.vjp_by_torch_func(lambda *inner: _func_vjp(function, list(inner)), primals, SECOND)


@register(
    "vjp-vjp",
    subject_kind="operator",
    statement="vjp of vjp gives the results of the backward of the backward.",
    documentation="generated/torch.func.vjp.html",
    level="full",
    applies=_dtypes_for_second_derivatives,
    capabilities=("functorch", "double_backward"),
)
@controlled_by_cpu
def check_vjp_vjp(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compare torch.func.vjp of torch.func.vjp with the backward of the backward."""
    compare_transforms(
        target, subject, recorder, _backward_of_backward, _func_vjp_of_vjp, "vjp of vjp", order=2
    )


@register(
    "vmap-vjp-vjp",
    subject_kind="operator",
    statement="vmap over vjp of vjp gives the results of separate backward passes of the backward.",
    documentation="generated/torch.vmap.html",
    level="full",
    applies=_dtypes_for_second_derivatives,
    capabilities=("functorch", "double_backward"),
)
@controlled_by_cpu
def check_vmap_vjp_vjp(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compare vmap over torch.func.vjp of torch.func.vjp with separate backward passes of the backward."""

    def reference_transform(function: transforms.Function, primals: transforms.Tensors) -> Any:
        return transform_each_row(_backward_of_backward, function, primals)

    def tested_transform(function: transforms.Function, primals: transforms.Tensors) -> Any:
        return vmap_of_transform(_func_vjp_of_vjp, function, primals)

    compare_transforms(
        target, subject, recorder, reference_transform, tested_transform, "vmap over vjp of vjp", order=2
    )
