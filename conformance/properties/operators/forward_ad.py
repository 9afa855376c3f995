"""Property: forward-mode derivatives in double precision equal the CPU's and agree with the backward."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.compare import compare_leaf_counts, compare_values, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import rule
from conformance.model.verdicts import Kind
from conformance.oracle.sensitivity import coarsest_dtype
from conformance.properties.operators import _gradients
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import (
    dtype_under_test,
    dtypes_of,
    has_fixed_derivative,
    unmodified_info,
)
from conformance.properties.shared.execution import WRITES_TWICE
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 4
LIMIT_IN_PLACE = 2
#: The largest allowed relative difference between the forward and the backward formula for one Jacobian.
#: Correct formulas differ only by float64 rounding; a wrong formula is off by percents.
PAIRING = 1e-5
#: Operators without a defined Jacobian, because several positions write to one element of the result.
_NO_JACOBIAN = frozenset({"as_strided_scatter"})


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if not subject.info.supports_forward_ad:
        return []
    if not has_fixed_derivative(subject) or subject.name in WRITES_TWICE:
        return []
    return dtypes_of(target, subject, ("float64", "complex128"))


def tangents_of(info: Any, op: Any, sample: Sample) -> list[torch.Tensor]:
    """Return the tangents of the outputs, for random tangents of the inputs.

    The tangent of an input depends only on the index of the input, so it is the same on every device.
    """
    positions = {
        id(tensor): position for position, tensor in enumerate(_gradients.differentiable_inputs(sample))
    }
    with warnings.catch_warnings(), forward_ad.dual_level():
        warnings.simplefilter("ignore")
        duals: dict[int, torch.Tensor] = {}

        def dual_leaf(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or id(leaf) not in positions:
                return leaf
            if id(leaf) not in duals:
                tangent = _gradients.random_values_like(leaf, 53 + positions[id(leaf)])
                duals[id(leaf)] = forward_ad.make_dual(leaf.detach(), tangent)  # type: ignore[no-untyped-call]
            return duals[id(leaf)]

        input, args, kwargs = trees.tree_map(dual_leaf, sample.arguments)
        wrapper = torch_testing_internals.gradcheck_wrapper(info)
        result = wrapper(op, input, *args, **kwargs)
        if sample.process is not None:
            result = sample.process(result)
        tangents = []
        for tensor in trees.tensors(result):
            if tensor.layout is not torch.strided or not (tensor.is_floating_point() or tensor.is_complex()):
                continue
            primal, tangent = forward_ad.unpack_dual(tensor)  # type: ignore[no-untyped-call]
            tangents.append((tangent if tangent is not None else torch.zeros_like(primal)).detach().clone())
        return tangents


@register(
    "forward-ad",
    subject_kind="operator",
    statement=(
        "Forward-mode tangents equal the CPU's tangents, also for the in-place form. The product of tangents "
        "and cotangents equals the product that the backward gives."
    ),
    documentation="autograd.html",
    level="training",
    applies=dtypes_to_check,
    capabilities=("forward_ad",),
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compare the device's forward-mode tangents with the CPU's tangents, and the CPU's tangents with the
    CPU's backward.
    """
    info, tested = unmodified_info(subject), subject.info
    for sample, copy in _gradients.differentiable_samples(target, subject, recorder, LIMIT):
        tangents = _compare_tangents(
            target, subject, recorder, sample, copy, info.op, tested.op, "the tangent"
        )
        if tangents is not None and info.supports_autograd and subject.name not in _NO_JACOBIAN:
            _check_forward_against_backward(recorder, subject, sample, tangents)
    reference, form = _gradients.in_place_form(info), _gradients.in_place_form(tested)
    if reference is None or form is None or not target.capable("inplace"):
        return
    for sample, copy in _gradients.differentiable_samples(target, subject, recorder, LIMIT_IN_PLACE):
        _compare_tangents(
            target, subject, recorder, sample, copy, reference, form, "the in-place form's tangent"
        )


def _compare_tangents(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    sample: Sample,
    copy: Sample,
    reference_op: _gradients.Operator,
    op: _gradients.Operator,
    label: str,
) -> list[torch.Tensor] | None:
    """Compare the tangents of the device and of the CPU, and return the CPU's tangents.

    The result is None if the device or the CPU has no tangents, or if the device and the CPU have different
    numbers of tangents.
    """
    applied = rule(subject.name, dtype_under_test(recorder), "backward")
    reference = _gradients.outcome_on_cpu(
        recorder,
        sample,
        functools.partial(tangents_of, unmodified_info(subject), reference_op, to_host(sample)),
    )
    tangents = _gradients.value_on_target(
        target,
        recorder,
        sample,
        functools.partial(tangents_of, subject.info, op, copy),
        reference,
        "forward-mode differentiation",
    )
    if tangents is None or not reference.ok:
        return None
    expected: list[torch.Tensor] = reference.value
    if not compare_leaf_counts(recorder, tangents, expected, label="the result", sample=sample.index):
        return None
    elements = max([1, *(t.numel() for t in sample.tensors())])
    for output_index, (actual_tangent, expected_tangent) in enumerate(zip(tangents, expected, strict=False)):
        compare_values(
            recorder,
            actual_tangent,
            expected_tangent,
            tolerance=applied.tolerance(
                expected_tangent.dtype,
                coarsest_dtype(sample, expected_tangent.dtype),
                elements=elements,
                precision=target.precision,
            ).widened(2),
            label=f"{label} of output {output_index}",
            sample=sample.index,
            sensitivity=torch.full(
                expected_tangent.shape, _gradients.largest_magnitude(expected_tangent), dtype=torch.float64
            ),
        )
    return expected


def _check_forward_against_backward(
    recorder: Recorder, subject: Subject, sample: Sample, tangents: list[torch.Tensor]
) -> None:
    """Check on the CPU that forward mode and backward agree: <cotangent, J v> equals <J^T cotangent, v>.

    Forward mode and the backward have separate formulas for the Jacobian J.
    """
    outcome = _gradients.first_derivatives_on_cpu(subject, recorder, sample)
    if not outcome.ok or len(outcome.value.outputs) != len(tangents):
        return
    derivative = outcome.value
    forward, size = 0.0, 0.0
    for cotangent, tangent in zip(derivative.cotangents, tangents, strict=False):
        product = (tangent * cotangent.conj()).real
        forward += float(product.sum())
        size += float(product.abs().sum())
    backward = 0.0
    for index, gradient in enumerate(derivative.gradients):
        if gradient is not None:
            direction = _gradients.random_float64_like(gradient, 53 + index).to(gradient.dtype)
            product = (gradient * direction.conj()).real
            backward += float(product.sum())
            size += float(product.abs().sum())
    if size != size or size == float("inf"):
        return
    message = (
        f"forward mode gives {forward!r} and the backward {backward!r} for the same product with the "
        "Jacobian."
    )
    fact(
        recorder, abs(forward - backward) <= PAIRING * size + 1e-12, Kind.VALUE, message, sample=sample.index
    )
