"""Function transforms of an operator (``torch.func``): the operator as a function, and references.

The result of a transform is compared with the CPU's result without it: a batch with one call after the other,
``vjp`` and ``jvp`` with the engine's backward and forward mode. So a fault of the CPU's own transforms shows
too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.calls import CallOutcome, attempt, attempt_on, one_line
from conformance.framework.compare import compare_metadata, compare_values, on_host, same_nesting
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import Tolerance, rule, unit_of
from conformance.oracle import relations
from conformance.oracle.sensitivity import coarsest
from conformance.properties.operators._gradients import derive, largest, noise, noise_for
from conformance.properties.operators._transformed_samples import ABOUT_MEMORY
from conformance.properties.shared.dtypes import (
    differentiable,
    dtype_under_test,
    dtypes_of,
    has_fixed_derivative,
    pristine,
)
from conformance.properties.shared.execution import WRITES_TWICE, declares_call, report_failed_call
from conformance.samples import sample_limit
from conformance.samples.copies import to_device, to_host
from conformance.samples.operators import Sample, samples_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: In double precision if a device has it, so that wrong rules stand out against rounding.
DTYPES = ("float64", "float32")
#: Samples of an operator; each is transformed several times.
LIMIT = 2
#: Elements of a batch.
BATCH = 3

Tensors = list[torch.Tensor]
Function = Callable[..., tuple[torch.Tensor, ...]]


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return one dtype of every operator that has floating arguments, and whose meaning is not
    their memory.
    """
    if getattr(subject.info, "is_factory_function", False) or not has_fixed_derivative(subject):
        return []
    if subject.name in WRITES_TWICE:
        return []
    return [] if subject.name in ABOUT_MEMORY else dtypes_of(target, subject, DTYPES)[:1]


def applies_reverse(target: Target, subject: Subject) -> Sequence[str]:
    """Return one dtype of every operator with a backward."""
    return [] if subject.name in ABOUT_MEMORY else differentiable(target, subject, DTYPES)[:1]


def applies_forward(target: Target, subject: Subject) -> Sequence[str]:
    """Return one dtype of every operator with a forward mode and a backward."""
    if not subject.info.supports_forward_ad or not has_fixed_derivative(subject):
        return []
    if subject.name in WRITES_TWICE:
        return []
    return applies_reverse(target, subject)


@dataclasses.dataclass
class Pure:
    """An operator on one sample as a function of its floating tensors, which returns floating tensors."""

    function: Function
    primals: Tensors


def differentiated(sample: Sample) -> list[bool]:
    """Return for each of a sample's tensors whether the database differentiates by it; all if it
    names none.
    """
    marked = [tensor.requires_grad for tensor in sample.tensors()]
    return marked if any(marked) else [True] * len(marked)


def pure(
    op: Callable[..., Any],
    sample: Sample,
    wrapper: Callable[..., Any] | None = None,
    among: Sequence[bool] | None = None,
) -> Pure:
    """Return the operator as a function of the distinct floating, strided tensors of a sample, in order.

    ``among`` says for each tensor of the sample whether it may be one of them.
    """
    primals: list[torch.Tensor] = []
    for place, tensor in enumerate(sample.tensors()):
        if among is not None and not among[place]:
            continue
        fits = tensor.layout is torch.strided and (tensor.is_floating_point() or tensor.is_complex())
        if fits and all(tensor is not known for known in primals):
            primals.append(tensor)

    def function(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        def fill(leaf: Any) -> Any:
            for place, known in enumerate(primals):
                if leaf is known:
                    return tensors[place]
            return leaf

        input, args, kwargs = trees.tree_map(fill, sample.arguments)
        result = op(input, *args, **kwargs) if wrapper is None else wrapper(op, input, *args, **kwargs)
        if sample.process is not None:
            result = sample.process(result)
        return tuple(
            leaf
            for leaf in trees.leaves(result)
            if isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex())
        )

    return Pure(function, [primal.detach() for primal in primals])


def cases(
    target: Target, subject: Subject, recorder: Recorder, *, gradients: bool = False
) -> Iterator[tuple[Sample, Pure, Pure]]:
    """Yield (sample, the CPU's function, the device's function) of samples with floating arguments, fixed
    values.
    """
    dtype = dtype_under_test(recorder)
    samples = samples_of(subject, dtype, requires_grad=gradients)
    recorder.samples(0, samples.available)
    info = pristine(subject)
    wrapper = torch_testing_internals.gradcheck_wrapper(info) if gradients else None
    for sample in samples.chosen(sample_limit.limit(LIMIT)):
        if relations.free_of_values(subject.name, sample):
            recorder.note(f"the values of sample {sample.index} are random or not initialised")
            recorder.compared(1)
            continue
        if not declares_call(target, recorder, sample, derive if gradients else None):
            continue
        among = differentiated(sample) if gradients else None
        plain = pure(info.op, to_host(sample), wrapper, among)
        copy = to_device(sample, target, recorder)
        if copy is None:
            continue
        if not plain.primals:
            recorder.note(f"sample {sample.index} has no floating tensor to transform by")
            recorder.compared(1)
            continue
        recorder.samples(1, 0)
        yield sample, plain, pure(subject.info.op, copy, wrapper, among)


def host(call: Callable[[], Any]) -> CallOutcome:
    """Return the outcome of a call on the CPU, warnings silenced."""
    with torch_testing_internals.quiet():
        return attempt(call)


def compare(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: Sample,
    call: Callable[[], Sequence[torch.Tensor]],
    plain: Callable[[Tensors], Sequence[torch.Tensor]],
    primals: Tensors,
    same: Callable[[], Any],
    label: str,
    *,
    size: float = 0.0,
) -> None:
    """Compare the transform's results on the device with the reference of the CPU, ``plain(primals)``.

    If the CPU refuses the transform too (``same``), nothing is demanded of the device; that is counted as one
    fact and noted. A sample without a reference counts as nothing. ``size`` is added to the magnitude, for
    derivatives that are the small difference of numbers of about that size. If that is not enough, so is the
    condition of the function: how far the reference moves when every input moves by half a unit.
    """
    expected = host(lambda: plain(primals))
    if expected.error is not None:
        recorder.note(
            f"{label} of sample {sample.index} has no reference on the CPU: {one_line(expected.error)}"
        )
        return
    with torch_testing_internals.quiet():
        outcome = attempt_on(target, call)
    if not outcome.ok:
        if host(same).ok:
            report_failed_call(target, recorder, sample, outcome, label)
        else:
            recorder.note(f"{label} of sample {sample.index} is refused by the CPU as well")
            recorder.compared(1)
        return
    got, want = list(outcome.value), list(expected.value)
    if not same_nesting(recorder, got, want, label=label, sample=sample.index):
        return
    dtype = dtype_under_test(recorder)
    applied = rule(subject.name, dtype, "backward")
    elements = max([1, *(t.numel() for t in sample.tensors())])
    for place, (value, reference) in enumerate(zip(got, want, strict=True)):
        name = f"part {place} of {label}"
        if not compare_metadata(
            recorder, value, reference, label=name, sample=sample.index, device=target.torch_device
        ):
            continue
        bound = applied.tolerance(
            reference.dtype, coarsest(sample, dtype), elements=elements, precision=target.precision
        )
        spread = torch.full(reference.shape, largest(reference) + size, dtype=torch.float64)
        if not agrees(value, reference, bound.widened(4), spread):
            spread = spread + conditioned(plain, primals, want, place)
        compare_values(
            recorder,
            value,
            reference,
            tolerance=bound.widened(4),
            label=name,
            sample=sample.index,
            spread=spread,
        )


def agrees(actual: torch.Tensor, expected: torch.Tensor, bound: Tolerance, spread: torch.Tensor) -> bool:
    """Return whether two results are close; nothing is recorded."""
    wide = torch.complex128 if actual.is_complex() or expected.is_complex() else torch.float64
    difference = host(lambda: on_host(actual).to(wide) - on_host(expected).to(wide))
    if not difference.ok:
        return False
    return bool((difference.value.abs() <= bound.allowed(spread)).all())


def conditioned(
    plain: Callable[[Tensors], Sequence[torch.Tensor]], primals: Tensors, want: Tensors, place: int
) -> torch.Tensor:
    """Return how far a part of the reference moves for inputs that are half a unit off.

    A float64 tensor in the shape of that part, in units of a relative change; 0 if it cannot be determined.
    """
    moved = []
    for number, primal in enumerate(primals):
        step = noise(primal, 83 + number).to(primal.dtype).sign() * unit_of(primal.dtype) / 2
        moved.append(primal * (1 + step))
    outcome = host(lambda: plain(moved))
    if not outcome.ok or outcome.value[place].shape != want[place].shape:
        return torch.zeros(want[place].shape, dtype=torch.float64)
    unit = unit_of(want[place].dtype)
    change = (outcome.value[place] - want[place]).detach().abs().to(torch.float64)
    change = torch.nan_to_num(change, nan=0.0, posinf=0.0, neginf=0.0)
    # An element on a jump says nothing about its neighbours; a smooth condition is shared by all.
    jumps = change > unit**0.5 * largest(want[place])
    smooth = largest(change[~jumps]) / unit
    return torch.where(jumps, change / unit, torch.full_like(change, smooth))


def natural_size(plain: Pure, order: int) -> float:
    """Return ``|f| / |x| ** order``: the size of a derivative of a function that is neither flat
    nor steep.
    """
    outcome = host(lambda: plain.function(*plain.primals))
    below = max((largest(x) for x in plain.primals), default=0.0)
    if not outcome.ok or not below:
        return 0.0
    return max((largest(y) for y in outcome.value), default=0.0) / below**order


def batch_of(primals: Tensors) -> Tensors:
    """Return each tensor three times in a new first dimension: as it is, and twice with its elements moved
    around.

    Elements stay in the operator's domain, since they are the same ones. A single element has nowhere to move
    and is made smaller; outside of the domain both sides give NaN.
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


def rows_of(batch: Tensors, row: int) -> Tensors:
    """Return one element of a batch of tensors."""
    return [tensor[row] for tensor in batch]


def stacked(rows: Sequence[Sequence[torch.Tensor]]) -> Tensors:
    """Return the results of one call after the other in the form of a batch."""
    return [torch.stack(parts) for parts in zip(*rows, strict=True)]


def directions(like: Sequence[torch.Tensor], seed: int) -> tuple[torch.Tensor, ...]:
    """Return noise of the form of some tensors, the same on every device."""
    return tuple(noise_for(t, seed + place) for place, t in enumerate(like))


def detached(tensors: Sequence[torch.Tensor | None], like: Sequence[torch.Tensor]) -> Tensors:
    """Return tensors without their graph; zeros in place of None."""
    return [
        torch.zeros_like(form) if tensor is None else tensor.detach()
        for tensor, form in zip(tensors, like, strict=True)
    ]


def dependent(outputs: Sequence[torch.Tensor], seed: int) -> tuple[Tensors, Tensors]:
    """Return the outputs that depend on an input, and the noise that belongs to each."""
    pairs = [
        (output, weight)
        for output, weight in zip(outputs, directions(outputs, seed), strict=True)
        if output.requires_grad
    ]
    return [output for output, _ in pairs], [weight for _, weight in pairs]


def engine_vjp(function: Function, primals: Sequence[torch.Tensor], seed: int) -> Tensors:
    """Return gradients of <noise, outputs> by the backward engine; zeros if nothing depends on an input."""
    with torch.enable_grad():
        inputs = [primal.detach().clone().requires_grad_() for primal in primals]
        outputs, weights = dependent(function(*inputs), seed)
        if not outputs:
            return [torch.zeros_like(primal) for primal in primals]
        gradients = torch.autograd.grad(outputs, inputs, weights, allow_unused=True)
    return detached(gradients, inputs)


def func_vjp(function: Function, primals: Sequence[torch.Tensor], seed: int) -> tuple[torch.Tensor, ...]:
    """Return the same by ``torch.func.vjp``."""
    pulled: Any = torch.func.vjp(function, *primals)
    outputs, pull = pulled
    gradients: tuple[torch.Tensor, ...] = pull(directions(outputs, seed))
    return gradients
