"""Compute the derivatives of operators on a device and on the CPU, and compare them."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.calls import CallOutcome, attempt, attempt_on, one_line
from conformance.framework.compare import compare_values
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import rule, unit_of
from conformance.oracle import relations
from conformance.oracle.reference import written_tensors
from conformance.oracle.sensitivity import coarsest_dtype
from conformance.properties.shared import argument_integrity as arguments
from conformance.properties.shared.argument_integrity import storage_or_element_bytes
from conformance.properties.shared.dtypes import dtype_under_test, unmodified_info
from conformance.properties.shared.execution import (
    copy_sample_to_device,
    report_failed_call,
    target_declares_call,
)
from conformance.samples import sample_limit
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample, samples_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

Operator = Callable[..., Any]


@dataclasses.dataclass
class Derivative:
    """The outputs of a call, their cotangents, the inputs, and the gradient for each input.

    ``before`` holds the bytes of outputs and cotangents before the backward pass. If the outputs are
    derivatives themselves, they may be small differences of large numbers: ``scale`` is the size of these
    numbers (:func:`expected_gradient_size`).
    """

    outputs: list[torch.Tensor]
    cotangents: list[torch.Tensor]
    inputs: list[torch.Tensor]
    gradients: list[torch.Tensor | None]
    before: list[bytes] = dataclasses.field(default_factory=list)
    scale: float = 0.0
    #: The indices of the argument tensors that the call wrote. Only :func:`first_derivatives_on_cpu` sets
    #: them.
    written: frozenset[int] = frozenset()


def differentiable_inputs(sample: Sample) -> list[torch.Tensor]:
    """Return the distinct strided tensors of a sample that require grad."""
    inputs: dict[int, torch.Tensor] = {}
    for tensor in sample.tensors():
        if tensor.requires_grad and tensor.layout is torch.strided:
            inputs[id(tensor)] = tensor
    return list(inputs.values())


def random_values_like(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    """Return normally distributed values in the shape and dtype, and on the device, of a tensor.

    The values are rounded to the dtype on the host, because some devices do not support float64.
    """
    return random_float64_like(tensor, seed).to(tensor.dtype).to(tensor.device)


def random_float64_like(like: torch.Tensor, seed: int) -> torch.Tensor:
    """Return normally distributed values on the host, in the shape of ``like``, in float64 or complex128."""
    generator = torch.Generator().manual_seed(seed)
    dtype = torch.complex128 if like.is_complex() else torch.float64
    return torch.randn(like.shape, generator=generator, dtype=dtype)


def differentiable_outputs(info: Any, op: Operator, sample: Sample) -> list[torch.Tensor]:
    """Return the differentiable outputs of ``op``, called in the gradcheck wrapper of torch's database."""
    wrapper = torch_testing_internals.gradcheck_wrapper(info)
    result = wrapper(op, sample.input, *sample.args, **sample.kwargs)
    if sample.process is not None:
        result = sample.process(result)
    return [
        t
        for t in trees.tensors(result)
        if t.requires_grad and (t.is_floating_point() or t.is_complex()) and t.layout is torch.strided
    ]


def called_on_clone(form: Operator) -> Operator:
    """Return a function that clones its input and calls an in-place form on the clone.

    The input itself must not be written, because it is a leaf that requires grad.
    """

    def call_on_clone(input: Any, *args: Any, **kwargs: Any) -> Any:
        return form(input.clone(), *args, **kwargs)

    return call_on_clone


def in_place_form(info: Any) -> Operator | None:
    """Return a function that applies the differentiable in-place form of an operator to a clone of its input.

    The result is None if the operator has no such form.
    """
    if not info.supports_inplace_autograd or not callable(info.inplace_variant):
        return None
    return called_on_clone(info.inplace_variant)


def differentiate(
    info: Any, op: Operator, sample: Sample, *, create_graph: bool = False, record_bytes: bool = False
) -> Derivative:
    """Return the reverse-mode derivative for random cotangents, which are the same on every device.

    With ``record_bytes``, the derivative contains the bytes that :func:`check_unchanged_by_backward` needs.
    """
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore")
        inputs = differentiable_inputs(sample)
        outputs = differentiable_outputs(info, op, sample)
        cotangents = [random_values_like(t, 17 + index) for index, t in enumerate(outputs)]
        if not outputs or not inputs:
            return Derivative(outputs, cotangents, inputs, [])
        before = (
            [storage_or_element_bytes(tensor) for tensor in [*outputs, *cotangents]] if record_bytes else []
        )
        gradients = torch.autograd.grad(
            outputs, inputs, cotangents, allow_unused=True, create_graph=create_graph
        )
        return Derivative(outputs, cotangents, inputs, list(gradients), before)


def check_unchanged_by_backward(
    recorder: Recorder, sample: Sample, copy: Sample, derivative: Derivative, written: frozenset[int]
) -> None:
    """Check that a backward pass changed no outputs, no cotangents and no arguments except ``written``.

    ``derivative`` must be the result of :func:`differentiate` with ``record_bytes``.
    """
    arguments.check_unwritten_arguments(recorder, sample, copy, written, label="the backward")
    arguments.check_unchanged_bytes(
        recorder,
        derivative.before,
        [*derivative.outputs, *derivative.cotangents],
        "the backward has changed an output or an incoming gradient: tensor",
        sample.index,
    )


def second_derivatives(info: Any, op: Operator, sample: Sample) -> Derivative:
    """Return the gradients, for the inputs, of the inner product of noise and the first gradients.

    The derivative has no gradients if no first gradient depends on an input.
    """
    derivative = differentiate(info, op, sample, create_graph=True)
    first = [g for g in derivative.gradients if g is not None and g.requires_grad]
    if not first:
        return Derivative([], [], derivative.inputs, [])
    weights = [random_values_like(g, 29 + index) for index, g in enumerate(first)]
    gradients = torch.autograd.grad(first, derivative.inputs, weights, allow_unused=True)
    scale = expected_gradient_size(derivative)
    return Derivative(first, weights, derivative.inputs, list(gradients), scale=scale)


def compute_first_and_second_gradients(info: Any, sample: Sample) -> None:
    """Compute first and second gradients of an operator, so that the caller can collect their dtypes."""
    with torch.enable_grad():
        inputs, outputs = differentiable_inputs(sample), differentiable_outputs(info, info.op, sample)
        ones = [torch.ones_like(output) for output in outputs]
        gradients = torch.autograd.grad(outputs, inputs, ones, allow_unused=True, create_graph=True)
        first = [g for g in gradients if g is not None and g.requires_grad]
        if first:
            torch.autograd.grad(first, inputs, [torch.ones_like(g) for g in first], allow_unused=True)


def differentiable_samples(
    target: Target, subject: Subject, recorder: Recorder, limit: int
) -> Iterator[tuple[Sample, Sample]]:
    """Yield (sample on the CPU, copy on the device) for each sample that can be differentiated.

    These samples have inputs that require grad, and specified result values.
    """
    dtype = dtype_under_test(recorder)
    samples = samples_of(subject, dtype, requires_grad=True)
    recorder.samples(0, samples.available)
    for sample in samples.chosen(sample_limit.limit(limit)):
        if relations.is_only_metadata_specified(subject.name, sample):
            recorder.note(f"the values of sample {sample.index} are random or not initialised")
            recorder.compared(1)
            continue
        if not differentiable_inputs(sample) or not target_declares_call(
            target, recorder, sample, compute_first_and_second_gradients
        ):
            continue
        copy = copy_sample_to_device(target, recorder, sample)
        if copy is not None:
            recorder.samples(1, 0)
            yield sample, copy


def value_on_target(
    target: Target,
    recorder: Recorder,
    sample: Sample,
    call: Callable[[], Any],
    reference: CallOutcome,
    label: str,
) -> Any:
    """Return the value of ``call`` on the device, or None if the call raises an error.

    The error is recorded, unless the CPU's outcome ``reference`` is an error too.
    """
    outcome = attempt_on(target, call)
    if outcome.ok:
        return outcome.value
    if reference.ok:
        report_failed_call(target, recorder, sample, outcome, label)
    else:
        recorder.compared(1)  # the device and the CPU raise errors
    return None


def outcome_on_cpu(recorder: Recorder, sample: Sample, call: Callable[[], Any]) -> CallOutcome:
    """Run a call on the CPU with a seeded generator, and return the outcome.

    If the call raises an error, record a note, because the device's result cannot be compared.
    """
    with torch_testing_internals.torch_seeded(sample.index), torch_testing_internals.silence_warnings():
        outcome = attempt(call)
    if not outcome.ok:
        assert outcome.error is not None
        recorder.note(f"sample {sample.index} has no reference: the CPU raised {one_line(outcome.error)}")
    return outcome


def compare_gradients(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: Sample,
    actual: list[torch.Tensor | None],
    expected: list[torch.Tensor | None],
    *,
    label: str,
    sensitivities: list[torch.Tensor | None] | None = None,
    size: float = 0.0,
) -> bool:
    """Compare gradients, with the tolerance of the largest element for every element of a gradient.

    ``sensitivities`` are float64 tensors of the gradients' shapes, or None. If a function is constant along a
    direction, its gradient is a small difference of large numbers. The tolerance therefore grows with
    ``size``, the size of these numbers. A gradient of None is equal to zeros.
    """
    dtype = dtype_under_test(recorder)
    applied = rule(subject.name, dtype, "backward")
    # An input of a coarser dtype, such as weights, limits the precision.
    computed = coarsest_dtype(sample, dtype)
    count = max([1, *(t.numel() for t in sample.tensors())])
    agrees = True
    for index, (actual_gradient, expected_gradient) in enumerate(zip(actual, expected, strict=False)):
        if expected_gradient is None and actual_gradient is None:
            recorder.compared(1)
            continue
        if actual_gradient is None:
            actual_gradient = torch.zeros_like(expected_gradient)  # type: ignore[arg-type]
        if expected_gradient is None:
            expected_gradient = torch.zeros(actual_gradient.shape, dtype=actual_gradient.dtype)
        bound = applied.tolerance(
            actual_gradient.dtype, computed, elements=count, precision=target.precision
        ).widened(2)
        sensitivity = torch.full(
            expected_gradient.shape, largest_magnitude(expected_gradient) + size, dtype=torch.float64
        )
        if sensitivities is not None and sensitivities[index] is not None:
            sensitivity = sensitivity + sensitivities[index]  # type: ignore[operator]
        agrees &= compare_values(
            recorder,
            actual_gradient,
            expected_gradient,
            tolerance=bound,
            label=f"{label} with respect to differentiable input {index}",
            sample=sample.index,
            sensitivity=sensitivity,
        )
    return agrees


def largest_magnitude(tensor: torch.Tensor) -> float:
    """Return the largest finite magnitude in a tensor; 0.0 if no element is finite."""
    if tensor.numel() == 0:
        return 0.0
    sizes = tensor.detach().abs().to(torch.float64)
    return float(torch.nan_to_num(sizes, nan=0.0, posinf=0.0, neginf=0.0).max())


def expected_gradient_size(derivative: Derivative, *, logarithmic: bool = False) -> float:
    """Return ``|cotangent| * |f| / |x|``: the size of the gradient if the function is neither flat nor steep.

    With ``logarithmic``, return ``|cotangent| * |f|``, the size for an operator that returns a logarithm. The
    backward pass of such an operator takes the exponential of the stored result, so a relative error of the
    result becomes an absolute error of the exponent.
    """
    above = max(
        (
            largest_magnitude(c) * max(largest_magnitude(o), derivative.scale)
            for c, o in zip(derivative.cotangents, derivative.outputs, strict=False)
        ),
        default=0.0,
    )
    below = max((largest_magnitude(x) for x in derivative.inputs), default=0.0)
    if logarithmic:
        return above
    return above / below if below else 0.0


def directional_derivatives(info: Any, sample: Sample, derivative: Derivative) -> tuple[float, float, float]:
    """Return (numerical derivative, analytic derivative, uncertainty) along a random direction, on the CPU.

    The differentiated function is the inner product of cotangents and outputs. The numerical derivative is a
    central difference. The uncertainty is the error of this difference from the rounding of the outputs.
    """
    directions = [random_float64_like(t, 41 + index).to(t.dtype) for index, t in enumerate(derivative.inputs)]
    step = 1e-6
    totals, size = [], 0.0
    for sign in (1, -1):
        moved = to_host(sample)
        with torch.no_grad():
            for tensor, direction in zip(differentiable_inputs(moved), directions, strict=False):
                tensor.add_(direction, alpha=sign * step)
        with (
            torch_testing_internals.torch_seeded(sample.index),
            torch.enable_grad(),
            torch_testing_internals.silence_warnings(),
        ):
            outputs = differentiable_outputs(info, info.op, moved)
        total = 0.0
        for output, cotangent in zip(outputs, derivative.cotangents, strict=False):
            product = (output.detach() * cotangent.conj()).real
            total += float(product.sum())
            size += float(product.abs().sum()) * unit_of(output.dtype)
        totals.append(total)
    analytic = 0.0
    for gradient, direction in zip(derivative.gradients, directions, strict=False):
        if gradient is not None:
            analytic += float((gradient.detach() * direction.conj()).real.sum())
    return (totals[0] - totals[1]) / (2 * step), analytic, 8 * size / step


def first_derivatives_on_cpu(subject: Subject, recorder: Recorder, sample: Sample) -> CallOutcome:
    """Compute first derivatives on the CPU in the sample's dtype, and return the outcome."""
    info = unmodified_info(subject)
    host = to_host(sample)
    outcome = outcome_on_cpu(recorder, sample, lambda: differentiate(info, info.op, host))
    if outcome.ok:
        outcome.value.written = written_tensors(sample, host)
    return outcome
