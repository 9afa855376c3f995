"""Function transforms (``torch.func``) of operators, and their references.

The result of a transform is compared with a result that the CPU computes without the transform. The reference
of ``vmap`` is the result of separate calls. The references of ``vjp`` and ``jvp`` are the results of the
backward and forward mode of autograd. The comparison therefore also detects bugs of the CPU's transforms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.calls import CallOutcome, attempt, attempt_on, one_line
from conformance.framework.compare import (
    compare_leaf_counts,
    compare_metadata,
    compare_values,
    to_host_tensor,
)
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import Tolerance, rule, unit_of
from conformance.oracle import relations
from conformance.oracle.sensitivity import coarsest_dtype
from conformance.properties.operators._gradients import (
    compute_first_and_second_gradients,
    largest_magnitude,
    random_float64_like,
    random_values_like,
)
from conformance.properties.operators._transformed_samples import DEFINED_BY_MEMORY
from conformance.properties.shared.dtypes import (
    differentiable_dtypes,
    dtype_under_test,
    dtypes_of,
    has_fixed_derivative,
    unmodified_info,
)
from conformance.properties.shared.execution import WRITES_TWICE, report_failed_call, target_declares_call
from conformance.samples import sample_limit
from conformance.samples.copies import to_device, to_host
from conformance.samples.operators import Sample, samples_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: An operator is checked in the first of these dtypes that it supports. In double precision, wrong derivative
#: rules stand out against rounding errors.
DTYPES = ("float64", "float32")
#: The maximum number of checked samples of an operator. It is small, because each sample is transformed
#: several times.
LIMIT = 2
#: The number of elements in a batch.
BATCH = 3

Tensors = list[torch.Tensor]
Function = Callable[..., tuple[torch.Tensor, ...]]


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return a list with the dtype in which the property checks the operator; empty if it does not apply.

    Factories, and operators whose result depends on more than the values of arguments, are excluded.
    """
    if getattr(subject.info, "is_factory_function", False) or not has_fixed_derivative(subject):
        return []
    if subject.name in WRITES_TWICE:
        return []
    return [] if subject.name in DEFINED_BY_MEMORY else dtypes_of(target, subject, DTYPES)[:1]


def dtypes_for_reverse_mode(target: Target, subject: Subject) -> Sequence[str]:
    """Return a list with one dtype if the operator has a backward, else an empty list."""
    return [] if subject.name in DEFINED_BY_MEMORY else differentiable_dtypes(target, subject, DTYPES)[:1]


def dtypes_for_forward_mode(target: Target, subject: Subject) -> Sequence[str]:
    """Return a list with one dtype if the operator has forward mode and a backward, else an empty list."""
    if not subject.info.supports_forward_ad or not has_fixed_derivative(subject):
        return []
    if subject.name in WRITES_TWICE:
        return []
    return dtypes_for_reverse_mode(target, subject)


@dataclasses.dataclass
class TensorFunction:
    """An operator and a sample as a function from floating tensors to floating tensors.

    ``primals`` are the tensors of the sample that the arguments of the function replace.
    """

    function: Function
    primals: Tensors


def which_tensors_are_differentiated(sample: Sample) -> list[bool]:
    """Return, for each tensor of a sample, whether torch's database requires a gradient for the tensor.

    If no tensor of the sample requires grad, all entries are True.
    """
    marked = [tensor.requires_grad for tensor in sample.tensors()]
    return marked if any(marked) else [True] * len(marked)


def as_tensor_function(
    op: Callable[..., Any],
    sample: Sample,
    wrapper: Callable[..., Any] | None = None,
    differentiable: Sequence[bool] | None = None,
) -> TensorFunction:
    """Return the operator as a function of the distinct floating, strided tensors of a sample.

    ``differentiable`` has a bool for each tensor of the sample: True if the tensor may be an argument of the
    function.
    """
    primals: list[torch.Tensor] = []
    for index, tensor in enumerate(sample.tensors()):
        if differentiable is not None and not differentiable[index]:
            continue
        fits = tensor.layout is torch.strided and (tensor.is_floating_point() or tensor.is_complex())
        if fits and all(tensor is not primal for primal in primals):
            primals.append(tensor)

    def call_with_tensors(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        def replace_primal(leaf: Any) -> Any:
            for index, primal in enumerate(primals):
                if leaf is primal:
                    return tensors[index]
            return leaf

        input, args, kwargs = trees.tree_map(replace_primal, sample.arguments)
        result = op(input, *args, **kwargs) if wrapper is None else wrapper(op, input, *args, **kwargs)
        if sample.process is not None:
            result = sample.process(result)
        return tuple(
            leaf
            for leaf in trees.leaves(result)
            if isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex())
        )

    return TensorFunction(call_with_tensors, [primal.detach() for primal in primals])


def transformable_samples(
    target: Target, subject: Subject, recorder: Recorder, *, gradients: bool = False
) -> Iterator[tuple[Sample, TensorFunction, TensorFunction]]:
    """Yield (sample, function on the CPU, function on the device) for each sample that can be transformed.

    These samples have floating arguments and specified result values.
    """
    dtype = dtype_under_test(recorder)
    samples = samples_of(subject, dtype, requires_grad=gradients)
    recorder.samples(0, samples.available)
    info = unmodified_info(subject)
    wrapper = torch_testing_internals.gradcheck_wrapper(info) if gradients else None
    for sample in samples.chosen(sample_limit.limit(LIMIT)):
        if relations.is_only_metadata_specified(subject.name, sample):
            recorder.note(f"the values of sample {sample.index} are random or not initialised")
            recorder.compared(1)
            continue
        if not target_declares_call(
            target, recorder, sample, compute_first_and_second_gradients if gradients else None
        ):
            continue
        differentiable = which_tensors_are_differentiated(sample) if gradients else None
        cpu_function = as_tensor_function(info.op, to_host(sample), wrapper, differentiable)
        copy = to_device(sample, target, recorder)
        if copy is None:
            continue
        if not cpu_function.primals:
            recorder.note(f"sample {sample.index} has no floating tensor, so it cannot be transformed")
            recorder.compared(1)
            continue
        recorder.samples(1, 0)
        yield sample, cpu_function, as_tensor_function(subject.info.op, copy, wrapper, differentiable)


def cpu_outcome(call: Callable[[], Any]) -> CallOutcome:
    """Run a call on the CPU with warnings silenced, and return the outcome."""
    with torch_testing_internals.silence_warnings():
        return attempt(call)


def compare_transform(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: Sample,
    call: Callable[[], Sequence[torch.Tensor]],
    reference_function: Callable[[Tensors], Sequence[torch.Tensor]],
    primals: Tensors,
    cpu_transform: Callable[[], Any],
    label: str,
    *,
    size: float = 0.0,
) -> None:
    """Compare the results of a transform on the device with ``reference_function(primals)`` on the CPU.

    If ``reference_function`` raises an error, nothing is compared. If the device rejects the transform and
    the CPU rejects ``cpu_transform`` too, the rejection is noted and counts as a comparison.

    Derivatives may be small differences of large numbers. The tolerance therefore grows with ``size``, the
    size of these numbers. If the results still differ, it also grows with the movement of the reference when
    every input moves by half a unit.
    """
    expected = cpu_outcome(lambda: reference_function(primals))
    if expected.error is not None:
        recorder.note(
            f"{label} of sample {sample.index} has no reference on the CPU: {one_line(expected.error)}"
        )
        return
    with torch_testing_internals.silence_warnings():
        outcome = attempt_on(target, call)
    if not outcome.ok:
        if cpu_outcome(cpu_transform).ok:
            report_failed_call(target, recorder, sample, outcome, label)
        else:
            recorder.note(f"not checked: the CPU rejects {label} of sample {sample.index} as well")
            recorder.compared(1)
        return
    actual, expected_results = list(outcome.value), list(expected.value)
    if not compare_leaf_counts(recorder, actual, expected_results, label=label, sample=sample.index):
        return
    dtype = dtype_under_test(recorder)
    applied = rule(subject.name, dtype, "backward")
    elements = max([1, *(t.numel() for t in sample.tensors())])
    for output_index, (value, reference) in enumerate(zip(actual, expected_results, strict=True)):
        name = f"part {output_index} of {label}"
        if not compare_metadata(
            recorder, value, reference, label=name, sample=sample.index, device=target.torch_device
        ):
            continue
        bound = applied.tolerance(
            reference.dtype, coarsest_dtype(sample, dtype), elements=elements, precision=target.precision
        )
        sensitivity = torch.full(reference.shape, largest_magnitude(reference) + size, dtype=torch.float64)
        if not is_close(value, reference, bound.widened(4), sensitivity):
            sensitivity = sensitivity + reference_sensitivity(
                reference_function, primals, expected_results, output_index
            )
        compare_values(
            recorder,
            value,
            reference,
            tolerance=bound.widened(4),
            label=name,
            sample=sample.index,
            sensitivity=sensitivity,
        )


def is_close(
    actual: torch.Tensor, expected: torch.Tensor, bound: Tolerance, sensitivity: torch.Tensor
) -> bool:
    """Return whether two results are within a tolerance, without recording anything."""
    wide = torch.complex128 if actual.is_complex() or expected.is_complex() else torch.float64
    difference = cpu_outcome(lambda: to_host_tensor(actual).to(wide) - to_host_tensor(expected).to(wide))
    if not difference.ok:
        return False
    return bool((difference.value.abs() <= bound.allowed(sensitivity)).all())


def reference_sensitivity(
    reference_function: Callable[[Tensors], Sequence[torch.Tensor]],
    primals: Tensors,
    reference_results: Tensors,
    output_index: int,
) -> torch.Tensor:
    """Return how far one output of the reference moves if the inputs move by half a rounding unit.

    The result is a float64 tensor of the output's shape: the change divided by the rounding unit of the
    output's dtype. The result is zero if the CPU rejects the moved inputs.
    """
    moved_primals = []
    for number, primal in enumerate(primals):
        step = random_float64_like(primal, 83 + number).to(primal.dtype).sign() * unit_of(primal.dtype) / 2
        moved_primals.append(primal * (1 + step))
    outcome = cpu_outcome(lambda: reference_function(moved_primals))
    if not outcome.ok or outcome.value[output_index].shape != reference_results[output_index].shape:
        return torch.zeros(reference_results[output_index].shape, dtype=torch.float64)
    unit = unit_of(reference_results[output_index].dtype)
    change = (outcome.value[output_index] - reference_results[output_index]).detach().abs().to(torch.float64)
    change = torch.nan_to_num(change, nan=0.0, posinf=0.0, neginf=0.0)
    # If the function jumps at an element, the change is the sensitivity of this element only. All other
    # elements get one common sensitivity: the largest change without a jump.
    jumps = change > unit**0.5 * largest_magnitude(reference_results[output_index])
    smooth = largest_magnitude(change[~jumps]) / unit
    return torch.where(jumps, change / unit, torch.full_like(change, smooth))


def expected_derivative_size(tensor_function: TensorFunction, order: int) -> float:
    """Return the expected magnitude of derivatives of this order: ``|f| / |x| ** order``.

    ``|f|`` and ``|x|`` are the largest magnitudes. A power of x has derivatives of about this magnitude. The
    derivatives of a flat function are smaller, the derivatives of a steep function are larger. Return 0 if
    the function fails on the CPU or all inputs are 0.
    """
    outcome = cpu_outcome(lambda: tensor_function.function(*tensor_function.primals))
    below = max((largest_magnitude(x) for x in tensor_function.primals), default=0.0)
    if not outcome.ok or not below:
        return 0.0
    return max((largest_magnitude(y) for y in outcome.value), default=0.0) / below**order


def batch_with_rolled_copies(primals: Tensors) -> Tensors:
    """Return each tensor three times in a new first dimension: unchanged, and twice with rolled elements.

    Rolled elements have the same values, so they stay in the operator's domain. The element of a tensor with
    one element is reduced instead. If it leaves the domain, both the device and the CPU return NaN.
    """
    batch = []
    for tensor in primals:
        flat = tensor.reshape(-1)
        if flat.numel() == 1:
            rows = [flat * (1 - step / 8) for step in range(BATCH)]
        else:
            rows = [flat] + [flat.roll(step) for step in range(1, BATCH)]
        batch.append(torch.stack(rows).reshape(BATCH, *tensor.shape))
    return batch


def row_of_batch(batch: Tensors, row: int) -> Tensors:
    """Return one element of a batch: row ``row`` of each tensor."""
    return [tensor[row] for tensor in batch]


def stack_rows(rows: Sequence[Sequence[torch.Tensor]]) -> Tensors:
    """Return the results of separate calls, stacked into a batch."""
    return [torch.stack(parts) for parts in zip(*rows, strict=True)]


def random_tensors_like(like: Sequence[torch.Tensor], seed: int) -> tuple[torch.Tensor, ...]:
    """Return random tensors with the shapes, dtypes and devices of ``like``.

    The values are the same on every device.
    """
    return tuple(random_values_like(t, seed + index) for index, t in enumerate(like))


def detached_or_zeros(tensors: Sequence[torch.Tensor | None], like: Sequence[torch.Tensor]) -> Tensors:
    """Return the tensors without their autograd graphs, with zeros in place of None."""
    return [
        torch.zeros_like(form) if tensor is None else tensor.detach()
        for tensor, form in zip(tensors, like, strict=True)
    ]


def differentiable_outputs_and_cotangents(
    outputs: Sequence[torch.Tensor], seed: int
) -> tuple[Tensors, Tensors]:
    """Return the outputs that depend on an input, and a noise tensor for each of these outputs."""
    pairs = [
        (output, weight)
        for output, weight in zip(outputs, random_tensors_like(outputs, seed), strict=True)
        if output.requires_grad
    ]
    return [output for output, _ in pairs], [weight for _, weight in pairs]


def vjp_by_autograd_grad(function: Function, primals: Sequence[torch.Tensor], seed: int) -> Tensors:
    """Return the gradients of the inner product of noise and outputs, from ``torch.autograd.grad``.

    The gradients are zero if no output depends on an input.
    """
    with torch.enable_grad():
        inputs = [primal.detach().clone().requires_grad_() for primal in primals]
        outputs, weights = differentiable_outputs_and_cotangents(function(*inputs), seed)
        if not outputs:
            return [torch.zeros_like(primal) for primal in primals]
        gradients = torch.autograd.grad(outputs, inputs, weights, allow_unused=True)
    return detached_or_zeros(gradients, inputs)


def vjp_by_torch_func(
    function: Function, primals: Sequence[torch.Tensor], seed: int
) -> tuple[torch.Tensor, ...]:
    """Return the gradients of the inner product of noise and outputs, from ``torch.func.vjp``."""
    pulled: Any = torch.func.vjp(function, *primals)
    outputs, pull = pulled
    gradients: tuple[torch.Tensor, ...] = pull(random_tensors_like(outputs, seed))
    return gradients
