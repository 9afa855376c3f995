"""Property: pointwise overloads are accurate for arguments of every magnitude, relative to the result."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis
from conformance.oracle.reference import CallForm
from conformance.properties.overloads._call_forms import check_call
from conformance.properties.overloads._modified_calls import reference_of_modified_call, with_mapped_tensors
from conformance.properties.overloads._references import OverloadReference, dtypes_for_property, references
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.handmade_calls.calls import TensorMaker
from conformance.samples.operators import dtype_name, dtype_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Number of elements of each call.
_COUNT = 256
#: The binary logarithms of the least and the largest magnitude. exp(80) is finite in float32. In float16, the
#: least magnitude is larger, so that few results are subnormal.
_LEAST, _LEAST_IN_FLOAT16, _LARGEST = -20.0, -12.0, 6.3
#: Overloads whose pages promise accurate results of small arguments.
_ACCURATE_BY_DOCUMENTATION = frozenset({"expm1", "log1p"})
#: Overloads whose pages define them by an expression that loses the digits of small results: log(1 + exp(x)),
#: x * tanh(log(1 + exp(x))), a - b * floor(a / b).
_NOT_RELATIVE = frozenset({"softplus", "softplus_backward", "mish", "mish_backward", "remainder"})


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the floating dtypes in which the property checks the overload."""
    if not subject.info.pointwise or "polynomial" in subject.name or base_name(subject.name) in _NOT_RELATIVE:
        return []
    names = dtypes_for_property("overload-magnitudes", target, subject)
    return [name for name in names if dtype_of(name).is_floating_point and dtype_of(name).itemsize > 1]


@register(
    "overload-magnitudes",
    subject_kind="overload",
    statement=(
        "For arguments from 2^-20 (in float16, 2^-12) to 80, the error is small relative to the result, "
        "however small the result is."
    ),
    documentation="notes/numerical_accuracy.html",
    basis="parity",
    ground="Except for expm1 and log1p, no page bounds the relative error of small results",
    level="core",
    applies=dtypes_to_check,
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the function on random magnitudes of both signs and compare with the reference."""
    recorder.allow_nothing_compared("the CPU rejects the calls with random magnitudes")
    is_documented = base_name(subject.name) in _ACCURATE_BY_DOCUMENTATION
    for reference in references(target, subject, recorder, 1):
        changed = _with_random_magnitudes(reference)
        if changed is not None:
            with recorder.with_basis(Basis.DOCUMENTED if is_documented else recorder.basis):
                check_call(target, recorder, changed, CallForm.FUNCTION)


def _with_random_magnitudes(reference: OverloadReference) -> OverloadReference | None:
    """Return the reference of the call on ``_COUNT`` random magnitudes; None if the CPU rejects the call."""
    make = TensorMaker(f"magnitudes of {reference.subject.name}", dtype_name(reference.dtype))
    enlarged = (
        next((e.enlarge_sample(_COUNT) for e in reference.enlargements if e.grows), None) or reference.sample
    )

    def random_magnitudes(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        low = _LEAST_IN_FLOAT16 if tensor.dtype == torch.float16 else _LEAST
        exponents = make.uniform(*tensor.shape, low=low, high=_LARGEST)
        signs = make.mask(*tensor.shape) * 2 - 1
        return (signs * exponents.exp2()).to(tensor.dtype)

    return reference_of_modified_call(reference, with_mapped_tensors(enlarged, random_magnitudes))
