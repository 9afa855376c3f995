"""Compare values and metadata. The functions count comparisons and record deviations in the recorder; they
never raise for a deviation.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import torch

from conformance.framework import trees
from conformance.framework.calls import attempt, one_line
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import EXACT, Tolerance
from conformance.model.verdicts import Basis, Kind

_WIDE_INTEGERS = tuple(
    getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name)
)


def fact(
    recorder: Recorder,
    holds: bool,
    kind: Kind,
    message: str,
    *,
    sample: int | None = None,
    basis: Basis | None = None,
) -> bool:
    """Count one compared fact, and record a failure of ``kind`` if ``holds`` is false. Return ``holds``."""
    recorder.compared(1)
    if not holds:
        recorder.fail(kind, message, sample=sample, basis=basis)
    return holds


def to_host_tensor(value: Any) -> torch.Tensor:
    """Return a strided CPU tensor with the same values.

    Sparse tensors are made dense, and conj and neg bits are applied. Shape and dtype are kept, except that
    complex32 becomes complex64. A number becomes a tensor without dimensions.
    """
    if not isinstance(value, torch.Tensor):
        return torch.as_tensor(value)
    tensor = value.detach()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    # The CPU has almost no kernels that compare or index complex32 tensors.
    return tensor.to(torch.complex64) if tensor.dtype == torch.complex32 else tensor


def in_indexable_dtype(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor, or its bits in a signed dtype if its dtype is uint16, uint32 or uint64. The CPU of
    older releases of torch does not index these dtypes.
    """
    if tensor.dtype not in _WIDE_INTEGERS:
        return tensor
    signed = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.dtype.itemsize]
    return tensor.contiguous().view(signed)


def _to_comparison_dtype(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor in a wide dtype that the CPU can compare: float64, complex128, int64 or bool."""
    if tensor.dtype == torch.bool:
        return tensor
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    if tensor.is_floating_point():
        return tensor.to(torch.float64)
    if tensor.dtype in _WIDE_INTEGERS and tensor.itemsize == 8:
        return tensor.contiguous().view(torch.int64)
    return tensor.to(torch.int64)


def compare_values(
    recorder: Recorder,
    actual: Any,
    expected: Any,
    *,
    tolerance: Tolerance = EXACT,
    label: str = "the result",
    sample: int | None = None,
    sensitivity: torch.Tensor | None = None,
    kind: Kind = Kind.VALUE,
    signed_zeros: bool = False,
    excused: torch.Tensor | None = None,
) -> bool:
    """Compare two tensors or numbers element by element, and return whether all elements agree.

    The elements are counted. A failure is recorded that describes the worst element.

    An element agrees if ``|actual - expected| <= tolerance.allowed(|expected| + sensitivity)``, computed in
    float64 or complex128. ``sensitivity`` is a float64 tensor that broadcasts to the shape of ``expected``.

    NaNs must be at the same positions and infinities must agree in sign. If the expected value of a complex
    element is not finite, the element must not be finite. If an expected value is beyond the range of the
    actual dtype, infinity is accepted. With ``signed_zeros`` the signs of zeros must agree too.

    A different shape is a failure of kind METADATA. A tensor that cannot be copied to the host is a failure
    of kind EXCEPTION. Elements that the mask ``excused`` selects count as agreeing.
    """
    fetched = attempt(lambda: to_host_tensor(actual))
    if not fetched.ok:
        recorder.compared(1)
        assert fetched.error is not None
        recorder.fail(Kind.EXCEPTION, f"reading {label} raised {one_line(fetched.error)}", sample=sample)
        return False
    actual_host, expected_host = fetched.value, to_host_tensor(expected)
    if actual_host.shape != expected_host.shape:
        recorder.compared(1)
        recorder.fail(
            Kind.METADATA,
            f"{label} has shape {list(actual_host.shape)}, expected {list(expected_host.shape)}.",
            sample=sample,
        )
        return False
    recorder.compared(actual_host.numel())
    if actual_host.numel() == 0:
        return True
    if signed_zeros and actual_host.is_complex() and expected_host.is_complex():
        actual_host, expected_host = (
            torch.view_as_real(actual_host),
            torch.view_as_real(expected_host),
        )  # compare the signs of the real and the imaginary part separately
    floating = (
        actual_host.is_floating_point()
        or actual_host.is_complex()
        or expected_host.is_floating_point()
        or expected_host.is_complex()
    )
    if not floating:
        return _compare_discrete(recorder, actual_host, expected_host, label, sample, kind)
    if (
        actual_host.dtype == expected_host.dtype
        and not signed_zeros
        and torch.equal(actual_host, expected_host)
    ):
        return True
    return _compare_floating(
        recorder,
        actual_host,
        expected_host,
        tolerance,
        label,
        sample,
        sensitivity,
        kind,
        signed_zeros,
        excused,
    )


def _compare_discrete(
    recorder: Recorder,
    actual: torch.Tensor,
    expected: torch.Tensor,
    label: str,
    sample: int | None,
    kind: Kind,
) -> bool:
    actual_wide, expected_wide = _to_comparison_dtype(actual), _to_comparison_dtype(expected)
    if actual_wide.dtype != expected_wide.dtype:
        actual_wide, expected_wide = actual_wide.to(torch.int64), expected_wide.to(torch.int64)
    if torch.equal(actual_wide, expected_wide):
        return True
    wrong = actual_wide != expected_wide
    index = wrong.nonzero()[0].tolist()
    position = tuple(index)
    recorder.fail(
        kind,
        f"{label} is {actual_wide[position].item()} at {index}, expected {expected_wide[position].item()} "
        f"({int(wrong.sum())} of {actual_wide.numel()} elements differ; all must be equal).",
        sample=sample,
    )
    return False


@dataclasses.dataclass
class _FloatingComparison:
    """Two floating tensors in float64 or complex128, element by element."""

    actual: torch.Tensor
    expected: torch.Tensor
    allowed: torch.Tensor
    distance: torch.Tensor
    agrees: torch.Tensor


def _floating_comparison(
    actual: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance, sensitivity: torch.Tensor | None
) -> _FloatingComparison:
    actual_wide, expected_wide = _to_comparison_dtype(actual), _to_comparison_dtype(expected)
    if actual_wide.is_complex() or expected_wide.is_complex():
        actual_wide, expected_wide = actual_wide.to(torch.complex128), expected_wide.to(torch.complex128)
    else:
        actual_wide, expected_wide = actual_wide.to(torch.float64), expected_wide.to(torch.float64)
    if tolerance.exact and actual.dtype != expected.dtype and actual.is_floating_point():
        expected_wide = expected.to(actual.dtype).to(torch.float64)
    size = expected_wide.abs()
    allowed = tolerance.allowed(size) if sensitivity is None else tolerance.allowed(size + sensitivity)
    distance = (actual_wide - expected_wide).abs()
    agrees = ((distance <= allowed) & expected_wide.isfinite()) | (
        actual_wide == expected_wide
    )  # an infinite tolerance must not accept finite values
    if not bool(agrees.all()):
        agrees |= _agrees_outside_range(actual_wide, expected_wide, actual.dtype, allowed)
    return _FloatingComparison(actual_wide, expected_wide, allowed, distance, agrees)


class ToleranceExcess(NamedTuple):
    """The error of a tensor relative to a tolerance.

    ``factor`` is the largest quotient of error and allowed error, at least 1. ``not_finite`` is a mask of the
    deviating elements without a finite quotient: wrong NaNs and infinities, and elements with an allowed
    error of 0.
    """

    factor: float
    not_finite: torch.Tensor


def excess_over_tolerance(
    actual: torch.Tensor,
    expected: torch.Tensor,
    *,
    tolerance: Tolerance,
    sensitivity: torch.Tensor | None = None,
) -> ToleranceExcess:
    """Return by which factor the error of a host tensor exceeds a tolerance."""
    comparison = _floating_comparison(actual, expected, tolerance, sensitivity)
    quotient = comparison.distance / comparison.allowed
    not_finite = ~comparison.agrees & ~quotient.isfinite()
    counted = quotient[~comparison.agrees & ~not_finite]
    return ToleranceExcess(max(1.0, float(counted.max())) if counted.numel() else 1.0, not_finite)


def _compare_floating(
    recorder: Recorder,
    actual: torch.Tensor,
    expected: torch.Tensor,
    tolerance: Tolerance,
    label: str,
    sample: int | None,
    sensitivity: torch.Tensor | None,
    kind: Kind,
    signed_zeros: bool,
    excused: torch.Tensor | None,
) -> bool:
    comparison = _floating_comparison(actual, expected, tolerance, sensitivity)
    actual_wide, expected_wide = comparison.actual, comparison.expected
    allowed, distance, agrees = comparison.allowed, comparison.distance, comparison.agrees
    if signed_zeros and not actual_wide.is_complex():
        agrees &= ~(
            (actual_wide == 0)
            & (expected_wide == 0)
            & (torch.signbit(actual_wide) != torch.signbit(expected_wide))
        )
    if excused is not None:
        agrees |= excused
    if bool(agrees.all()):
        return True
    excess = torch.where(agrees, torch.full_like(distance, -1.0), distance / allowed.clamp_min(1e-300))
    excess = torch.nan_to_num(excess, nan=float("inf"))
    flat = int(excess.flatten().argmax())
    position = _unravel_index(flat, actual.shape)
    recorder.fail(
        kind,
        f"{label} is {actual_wide[position].item()!r} at {list(position)}, "
        f"expected {expected_wide[position].item()!r} "
        f"(allowed difference {float(allowed[position]):.3g}, found {float(distance[position]):.3g}; "
        f"{int((~agrees).sum())} of {agrees.numel()} elements are wrong).",
        sample=sample,
    )
    return False


def _agrees_outside_range(
    actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype, allowed: torch.Tensor
) -> torch.Tensor:
    """Return a mask of the elements that agree although their difference cannot be compared with the
    tolerance: NaNs, infinities, and values out of range.
    """
    if actual.is_complex():
        limit = torch.finfo(dtype).max if dtype.is_complex or dtype.is_floating_point else float("inf")
        outside = expected.abs() + allowed > limit
        return ~torch.isfinite(actual) & (~torch.isfinite(expected) | outside)
    both_nan = torch.isnan(actual) & torch.isnan(expected)
    if not dtype.is_floating_point:
        return both_nan
    limit = float(torch.finfo(dtype).max)
    same_sign = torch.sign(actual) == torch.sign(expected)
    overflow = same_sign & torch.isinf(actual) & (expected.abs() + allowed > limit)
    finite = expected.isfinite()  # for a finite value out of range, the largest number is accepted too
    beyond = (
        same_sign
        & finite
        & (expected.abs() > limit)
        & (actual.abs() >= limit * (1 - float(torch.finfo(dtype).eps)))
    )
    return both_nan | overflow | beyond


def _unravel_index(flat: int, shape: torch.Size) -> tuple[int, ...]:
    position: list[int] = []
    for size in reversed(shape):
        position.append(flat % size)
        flat //= size
    return tuple(reversed(position))


def compare_exact(
    recorder: Recorder, actual: Any, expected: Any, *, label: str = "the result", sample: int | None = None
) -> bool:
    """Compare elements bit for bit, except for the payload of NaNs and the sign of zeros."""
    return compare_values(recorder, actual, expected, tolerance=EXACT, label=label, sample=sample)


def significant_strides(tensor: torch.Tensor) -> list[int]:
    """Return the strides of the dimensions that have several elements.

    Strides of dimensions of size 1 or 0, and of tensors without elements, have no effect.
    """
    if not tensor.numel():
        return []
    return [step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def metadata(tensor: torch.Tensor, *, stride: bool = False) -> dict[str, Any]:
    """Return the metadata to compare: ``shape``, ``dtype``, ``layout`` and, with ``stride``, ``strides``."""
    fields: dict[str, Any] = {"shape": list(tensor.shape), "dtype": tensor.dtype, "layout": tensor.layout}
    if stride and tensor.layout is torch.strided:
        fields["strides"] = significant_strides(tensor)
    return fields


def compare_metadata(
    recorder: Recorder,
    actual: Any,
    expected: Any,
    *,
    label: str = "the result",
    sample: int | None = None,
    stride: bool = False,
    device: torch.device | None = None,
    dtype: bool = True,
) -> bool:
    """Compare shape, dtype, layout and, if requested, strides and device. Return whether all agree.

    Strides are compared only if the target declares them.

    Each field counts as one fact. Strides of dimensions of size one and of empty tensors are not compared.
    For values other than tensors the types are compared; all types of numbers are equivalent.
    """
    stride = stride and recorder.compares_strides
    if not isinstance(expected, torch.Tensor):
        same = type(actual) is type(expected) or (
            isinstance(actual, (int, float, complex)) and isinstance(expected, (int, float, complex))
        )
        text = f"{label} is a {type(actual).__name__}, expected a {type(expected).__name__}."
        return fact(recorder, same, Kind.METADATA, text, sample=sample)
    if not isinstance(actual, torch.Tensor):
        text = f"{label} is a {type(actual).__name__}, expected a tensor."
        return fact(recorder, False, Kind.METADATA, text, sample=sample)
    if not stride and _same_metadata(actual, expected, device, dtype):
        recorder.compared(2 + dtype + (device is not None))
        return True
    agree = True
    expected_fields, actual_fields = metadata(expected, stride=stride), metadata(actual, stride=stride)
    for field, value in expected_fields.items():
        if field == "dtype" and not dtype:
            continue
        kind = Kind.DTYPE if field == "dtype" else Kind.METADATA
        text = f"{label} has {field} {actual_fields.get(field)}, expected {value}."
        agree &= fact(recorder, actual_fields.get(field) == value, kind, text, sample=sample)
    if device is not None:
        same = _is_on_device(actual, device)
        text = f"{label} is on device {actual.device}, expected {device}."
        agree &= fact(recorder, same, Kind.METADATA, text, sample=sample)
    return agree


def _same_metadata(
    actual: torch.Tensor, expected: torch.Tensor, device: torch.device | None, dtype: bool
) -> bool:
    """Return whether all metadata but the strides agree."""
    return (
        actual.shape == expected.shape
        and actual.layout == expected.layout
        and (not dtype or actual.dtype == expected.dtype)
        and (device is None or _is_on_device(actual, device))
    )


def _is_on_device(tensor: torch.Tensor, device: torch.device) -> bool:
    return tensor.device.type == device.type and device.index in (None, tensor.device.index)


def compare_leaf_counts(
    recorder: Recorder, actual: Any, expected: Any, *, label: str = "the result", sample: int | None = None
) -> bool:
    """Compare the numbers of leaves of two trees, and return whether they are equal."""
    actual_count, expected_count = len(list(trees.leaves(actual))), len(list(trees.leaves(expected)))
    text = f"{label} has {actual_count} parts, expected {expected_count}."
    return fact(recorder, actual_count == expected_count, Kind.METADATA, text, sample=sample)


def same_bits(left: torch.Tensor, right: torch.Tensor, *, zeros: bool = False) -> bool:
    """Return whether two host tensors with the same shape and dtype are equal. NaNs are equal if their bits
    are equal. With ``zeros`` the signs of zeros must agree too.
    """
    left, right = left.resolve_conj().resolve_neg(), right.resolve_conj().resolve_neg()
    if left.dtype == torch.complex32:
        left, right = torch.view_as_real(left), torch.view_as_real(right)
    if not zeros and torch.equal(left, right):
        return True
    if not (left.is_floating_point() or left.is_complex()) or left.numel() == 0:
        return zeros and torch.equal(left, right)
    left_flat, right_flat = left.contiguous().view(-1), right.contiguous().view(-1)
    return torch.equal(left_flat.view(torch.uint8), right_flat.view(torch.uint8))
