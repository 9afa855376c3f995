"""An ``--extra`` module: a vendor's operator ``vendor::scaled_swish`` with two properties and a reference.

Run it with ``conformance run --target cpu --extra scaled_swish`` in the folder of this file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import torch

from conformance.extension import (
    Kind,
    Recorder,
    Target,
    Tolerance,
    add_subjects,
    attempt_on,
    cases,
    compare_metadata,
    compare_values,
    fact,
    register,
    report_error,
    unit_of,
)

# In reality the vendor's package defines the operator. This definition makes the example run on any device.
torch.library.define("vendor::scaled_swish", "(Tensor x, float scale) -> Tensor")


@torch.library.impl("vendor::scaled_swish", "CompositeExplicitAutograd")
def scaled_swish(x: torch.Tensor, scale: float) -> torch.Tensor:
    """Return ``x * sigmoid(scale * x)``, elementwise, in the dtype of ``x``."""
    return x * torch.sigmoid(scale * x)


@dataclasses.dataclass(frozen=True)
class VendorOperator:
    """A subject: its name is the middle part of result ids such as ``vendor-value/scaled_swish@float32``."""

    name: str
    kind: str = "vendor"


@dataclasses.dataclass(frozen=True)
class Sample:
    """The arguments of one call: the tensor, on the CPU, and the scale."""

    x: torch.Tensor
    scale: float


def samples(dtype: torch.dtype, seed: int) -> Iterator[Sample]:
    """Yield samples made from a seed: contiguous, transposed, without elements, and far from zero."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(8, 5, generator=generator)
    yield Sample(values.to(dtype), 1.0)
    yield Sample(values.to(dtype).t(), 0.5)
    yield Sample(torch.empty(0, 3, dtype=dtype), 1.0)
    yield Sample((values * 30).to(dtype), -2.0)


def reference(sample: Sample) -> torch.Tensor:
    """Return the reference: the formula in float64, without the operator under test."""
    x = sample.x.double()
    return x / (1 + torch.exp(-sample.scale * x))


def floating(target: Target, subject: VendorOperator) -> Sequence[str]:
    """Return the dtypes for which a result exists: the floating dtypes that the target declares."""
    return [name for name in ("float32", "float16", "bfloat16") if target.declares(name)]


def calls(
    target: Target, subject: VendorOperator, recorder: Recorder
) -> Iterator[tuple[int, Sample, torch.Tensor, torch.Tensor]]:
    """Yield each sample with its index, its copy on the device, and the result; record errors."""
    for number, sample in enumerate(samples(getattr(torch, recorder.id.dtype), recorder.seed)):
        # Copy even if the target is the CPU, because the operator must not write to the sample.
        x = sample.x.to(target.device, copy=True)
        outcome = attempt_on(target, lambda x=x, scale=sample.scale: torch.ops.vendor.scaled_swish(x, scale))
        if outcome.error is None:
            yield number, sample, x, outcome.value
        else:
            report_error(target, recorder, outcome.error, label=subject.name, sample=number)


@register(
    "vendor-value",
    subject_kind="vendor",
    statement="Results equal the formula in float64, within eight units of the value and its sensitivity.",
    level="core",
    applies=floating,
    smoke=True,
)
def check_value(target: Target, subject: VendorOperator, recorder: Recorder) -> None:
    """Compare the results of the operator on the device with the reference."""
    for number, sample, _, result in calls(target, subject, recorder):
        dtype = sample.x.dtype
        compare_metadata(recorder, result, sample.x, label=subject.name, sample=number)
        # The result has two rounded factors, and exp() may be off by some units. The sensitivity covers the
        # rounding of the argument of exp().
        bound = Tolerance(relative=8 * unit_of(dtype), floor=8 * float(torch.finfo(dtype).tiny))
        sensitivity = (sample.x.double() * sample.scale).abs() * reference(sample).abs()
        compare_values(
            recorder, result, reference(sample), tolerance=bound, sensitivity=sensitivity, sample=number
        )


@register(
    "vendor-leaves-input",
    subject_kind="vendor",
    statement="The operator does not write to its input.",
    level="core",
    applies=floating,
)
def check_leaves_input(target: Target, subject: VendorOperator, recorder: Recorder) -> None:
    """Compare the elements of the input after the call with the elements before the call."""
    for number, sample, x, _ in calls(target, subject, recorder):
        fact(recorder, torch.equal(x.cpu(), sample.x), Kind.STATE, "the input was written to", sample=number)


add_subjects("vendor", [VendorOperator("scaled_swish")], smoke=["scaled_swish"])

#: One pytest item for each property of each subject of the kind.
test_vendor = cases("vendor")
