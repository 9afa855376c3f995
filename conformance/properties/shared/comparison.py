"""Comparison of the outputs of an operator on a target with its reference."""

from __future__ import annotations

import functools
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.calls import attempt, one_line
from conformance.framework.compare import (
    compare_leaf_counts,
    compare_metadata,
    compare_values,
    on_host,
    same_bits,
)
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import EXACT, Rule, Tolerance, rule
from conformance.model.verdicts import Kind
from conformance.oracle import relations
from conformance.oracle.reference import Reference
from conformance.oracle.relations import Equation
from conformance.properties.shared.dtypes import dtype_under_test
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def tolerance_for(
    target: Target,
    tolerance_rule: Rule,
    output_dtype: torch.dtype,
    computed_dtype: torch.dtype,
    elements: int,
    *,
    peer: bool,
) -> Tolerance:
    """Return the tolerance of one output tensor.

    It is twice as wide if ``peer`` is set: the reference then has no more digits than the output, and the
    same error.
    """
    bound = tolerance_rule.tolerance(
        output_dtype, computed_dtype, elements=elements, precision=target.precision
    )
    return bound.widened(2) if peer else bound


def compare_outputs(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: Sample,
    actual: Any,
    reference: Reference,
    *,
    label: str = "the result",
    check_strides: bool = False,
    check_dtypes: bool = True,
    check_device: bool = True,
    accept_same_bits: bool = False,
    dtype: torch.dtype | None = None,
) -> bool:
    """Compare a result of the device with the reference: nesting, metadata, then values or relations.

    ``sample`` holds the arguments on the CPU. ``check_dtypes`` and ``check_device`` switch the comparison of
    dtypes and of the device. ``dtype`` is the dtype of the call, by default that of the recorded result. With
    ``accept_same_bits``, outputs that equal the CPU's bits agree without the high-precision values, which
    cost several calls. Use it for properties that are not about precision.

    Return True if everything agrees.
    """
    if dtype is None:
        dtype = dtype_under_test(recorder)
    index = sample.index
    if not compare_leaf_counts(recorder, actual, reference.outputs, label=label, sample=index):
        return False
    actual_leaves, reference_leaves = list(trees.leaves(actual)), list(trees.leaves(reference.outputs))
    agrees = True
    unspecified = relations.unspecified_outputs(subject.name, sample)
    device = target.torch_device if check_device and _belongs_on_device(subject, sample) else None
    for number, (value, base) in enumerate(zip(actual_leaves, reference_leaves, strict=False)):
        if number in unspecified:
            continue
        name = label if len(actual_leaves) == 1 else f"part {number} of {label}"
        accumulated = (
            number in relations.saved_statistics(subject.name)
            and base.dtype in (torch.bfloat16, torch.float16)
            and isinstance(value, torch.Tensor)
            and value.dtype == torch.float32
        )
        agrees &= compare_metadata(
            recorder,
            value,
            base,
            label=name,
            sample=index,
            stride=check_strides,
            device=device,
            dtype=check_dtypes and not accumulated,
        )
    if not agrees or relations.has_unspecified_values(subject.name, sample):
        return agrees
    if accept_same_bits and not target.is_cpu and _have_same_bits(recorder, actual_leaves, reference_leaves):
        return True
    tolerance_rule = rule(subject.name, dtype)
    high_precision_leaves = list(trees.leaves(reference.high_precision))
    widen = not reference.has_high_precision
    relation = relations.relation_of(subject.name)
    if relation is not None:
        equations = _equations_of_relation(target, recorder, relation, actual, reference, sample, label)
        if equations is False:
            return False
        if equations is not None:
            agreements = [
                _compare_equation(target, recorder, tolerance_rule, dtype, reference, equation, label, index)
                for equation in equations
            ]
            return all(agreements)
    sensitivities = iter(reference.sensitivity)
    for number, (value, exact, base) in enumerate(
        zip(actual_leaves, high_precision_leaves, reference_leaves, strict=False)
    ):
        name = label if len(actual_leaves) == 1 else f"part {number} of {label}"
        if isinstance(base, torch.Tensor):
            sensitivity = next(sensitivities, None)
            bound = tolerance_for(
                target, tolerance_rule, base.dtype, reference.coarsest_dtype, reference.elements, peer=widen
            )
            expected = (
                base if tolerance_rule.exact or not (base.is_floating_point() or base.is_complex()) else exact
            )
        elif isinstance(base, (float, complex)) and not tolerance_rule.exact:
            sensitivity = None
            bound = tolerance_for(
                target, tolerance_rule, dtype, reference.coarsest_dtype, reference.elements, peer=widen
            )
            expected = exact
        elif isinstance(base, (bool, int, float, complex)):
            sensitivity, bound, expected = None, EXACT, base
        else:
            recorder.compared(1)
            if value != base:
                recorder.fail(Kind.VALUE, f"{name} is {value!r}, expected {base!r}.", sample=index)
                agrees = False
            continue
        if number not in unspecified:
            agrees &= compare_values(
                recorder, value, expected, tolerance=bound, label=name, sample=index, sensitivity=sensitivity
            )
    return agrees


def _have_same_bits(recorder: Recorder, actual: list[Any], expected: list[Any]) -> bool:
    for value, base in zip(actual, expected, strict=True):
        if not isinstance(base, torch.Tensor) or not isinstance(value, torch.Tensor):
            return False
        fetched = attempt(functools.partial(on_host, value))
        if not fetched.ok or fetched.value.dtype != base.dtype or not same_bits(fetched.value, on_host(base)):
            return False
    recorder.compared(sum(base.numel() for base in expected))
    return True


def _belongs_on_device(subject: Subject, sample: Sample) -> bool:
    """Return whether the result must be on the device.

    The device argument of the call decides, or else its tensors. Factories return a tensor on the default
    device, whatever tensors they get.
    """
    if any(isinstance(leaf, torch.device) or leaf == "cpu" for leaf in _not_tensors(sample)):
        return True
    return not is_factory(subject) and bool(sample.tensors())


def is_factory(subject: Subject) -> bool:
    """Return whether the operator creates its result on the default device."""
    return getattr(subject.info, "is_factory_function", False) or subject.info.name in _FACTORIES


_FACTORIES = frozenset({"arange", "linspace", "logspace", "full", "eye", "scalar_tensor"})


def _not_tensors(sample: Sample) -> list[Any]:
    return [leaf for leaf in trees.leaves(sample.arguments) if isinstance(leaf, (torch.device, str))]


def _equations_of_relation(
    target: Target,
    recorder: Recorder,
    relation: Any,
    actual: Any,
    reference: Reference,
    sample: Sample,
    label: str,
) -> Any:
    def host(leaf: Any) -> Any:
        return on_host(leaf) if isinstance(leaf, torch.Tensor) else leaf

    def make() -> list[Equation] | None:
        with torch.no_grad():
            equations = relation(trees.tree_map(host, actual), reference.high_precision, sample)
            return None if equations is None else list(equations)

    outcome = attempt(make)
    if outcome.ok:
        return outcome.value
    assert outcome.error is not None
    recorder.compared(1)
    recorder.fail(
        Kind.VALUE,
        f"computing the required relation from {label} raised {one_line(outcome.error)}",
        sample=sample.index,
    )
    return False


def _compare_equation(
    target: Target,
    recorder: Recorder,
    tolerance_rule: Rule,
    dtype: torch.dtype,
    reference: Reference,
    equation: Equation,
    label: str,
    index: int,
) -> bool:
    bound = EXACT
    if not equation.exact:
        bound = tolerance_for(target, tolerance_rule, dtype, dtype, reference.elements, peer=True)
    sensitivity = (
        torch.full(equation.expected.shape, equation.scale, dtype=torch.float64) if equation.scale else None
    )
    return compare_values(
        recorder,
        equation.actual,
        equation.expected,
        tolerance=bound,
        label=f"{equation.label} of {label}",
        sample=index,
        sensitivity=sensitivity,
    )
