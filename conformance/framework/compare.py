"""Comparators that count and report. None of them asserts, and none raises for a deviation of the target."""

from __future__ import annotations

from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.calls import attempt, one_line
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import EXACT, Tolerance
from conformance.model.verdicts import Kind

_WIDE_INTEGERS = tuple(
    getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name)
)


def fact(recorder: Recorder, holds: bool, kind: Kind, message: str, *, sample: int | None = None) -> bool:
    """Count one fact and record a failure of ``kind`` if it does not hold; return whether it holds."""
    recorder.compared(1)
    if not holds:
        recorder.fail(kind, message, sample=sample)
    return holds


def on_host(value: Any) -> torch.Tensor:
    """Return a strided CPU tensor with the same values: off the device, dense, conj and neg bits applied.

    Shape and dtype stay, but complex32 becomes complex64; a number becomes a tensor without dimensions.
    """
    if not isinstance(value, torch.Tensor):
        return torch.as_tensor(value)
    tensor = value.detach()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    # The CPU can store half precision complex numbers, but hardly compare or index them.
    return tensor.to(torch.complex64) if tensor.dtype == torch.complex32 else tensor


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values in a dtype in which the CPU can compare: float64, complex128, int64 or bool."""
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
    spread: torch.Tensor | None = None,
    kind: Kind = Kind.VALUE,
    signed_zeros: bool = False,
) -> bool:
    """Compare the elements of two tensors or numbers, counted; a failure names the worst element.

    An element agrees if ``|actual - expected| <= tolerance.allowed(|expected| + spread)``, all in float64 or
    complex128; ``spread`` is a float64 tensor that broadcasts to the shape of ``expected``. NaNs must be at
    the same places and infinities must agree in sign (a complex element that is expected not to be finite
    must not be finite). An expected value beyond the range of the actual dtype may come as infinity.
    ``signed_zeros`` asks that zeros agree in sign too. Another shape is a failure of kind METADATA, and a
    device that cannot be read one of kind EXCEPTION. Returns whether all elements agree.
    """
    fetched = attempt(lambda: on_host(actual))
    if not fetched.ok:
        recorder.compared(1)
        assert fetched.error is not None
        recorder.fail(Kind.EXCEPTION, f"reading {label} raised {one_line(fetched.error)}", sample=sample)
        return False
    got, want = fetched.value, on_host(expected)
    if got.shape != want.shape:
        recorder.compared(1)
        recorder.fail(
            Kind.METADATA,
            f"{label} has shape {list(got.shape)}, expected {list(want.shape)}.",
            sample=sample,
        )
        return False
    recorder.compared(got.numel())
    if got.numel() == 0:
        return True
    if signed_zeros and got.is_complex() and want.is_complex():
        got, want = torch.view_as_real(got), torch.view_as_real(want)  # each part has a sign
    floating = got.is_floating_point() or got.is_complex() or want.is_floating_point() or want.is_complex()
    if not floating:
        return _compare_discrete(recorder, got, want, label, sample, kind)
    if got.dtype == want.dtype and not signed_zeros and torch.equal(got, want):
        return True
    return _compare_floating(recorder, got, want, tolerance, label, sample, spread, kind, signed_zeros)


def _compare_discrete(
    recorder: Recorder, got: torch.Tensor, want: torch.Tensor, label: str, sample: int | None, kind: Kind
) -> bool:
    a, e = _wide(got), _wide(want)
    if a.dtype != e.dtype:
        a, e = a.to(torch.int64), e.to(torch.int64)
    if torch.equal(a, e):
        return True
    wrong = a != e
    index = wrong.nonzero()[0].tolist()
    position = tuple(index)
    recorder.fail(
        kind,
        f"{label} is {a[position].item()} at {index}, expected {e[position].item()} "
        f"({int(wrong.sum())} of {a.numel()} elements differ, none may).",
        sample=sample,
    )
    return False


def _compare_floating(
    recorder: Recorder,
    got: torch.Tensor,
    want: torch.Tensor,
    tolerance: Tolerance,
    label: str,
    sample: int | None,
    spread: torch.Tensor | None,
    kind: Kind,
    signed_zeros: bool,
) -> bool:
    a, e = _wide(got), _wide(want)
    if a.is_complex() or e.is_complex():
        a, e = a.to(torch.complex128), e.to(torch.complex128)
    else:
        a, e = a.to(torch.float64), e.to(torch.float64)
    if tolerance.exact and got.dtype != want.dtype and got.is_floating_point():
        e = want.to(got.dtype).to(torch.float64)
    size = e.abs()
    allowed = tolerance.allowed(size) if spread is None else tolerance.allowed(size + spread)
    distance = (a - e).abs()
    good = ((distance <= allowed) & e.isfinite()) | (a == e)  # nothing is near infinity
    if not bool(good.all()):
        good |= _special(a, e, got.dtype, allowed)
    if signed_zeros and not a.is_complex():
        good &= ~((a == 0) & (e == 0) & (torch.signbit(a) != torch.signbit(e)))
    if bool(good.all()):
        return True
    excess = torch.where(good, torch.full_like(distance, -1.0), distance / allowed.clamp_min(1e-300))
    excess = torch.nan_to_num(excess, nan=float("inf"))
    flat = int(excess.flatten().argmax())
    position = _unravel(flat, got.shape)
    recorder.fail(
        kind,
        f"{label} is {a[position].item()!r} at {list(position)}, expected {e[position].item()!r} "
        f"(allowed difference {float(allowed[position]):.3g}, found {float(distance[position]):.3g}; "
        f"{int((~good).sum())} of {good.numel()} elements are wrong).",
        sample=sample,
    )
    return False


def _special(a: torch.Tensor, e: torch.Tensor, dtype: torch.dtype, allowed: torch.Tensor) -> torch.Tensor:
    """Mark elements that agree although their difference says nothing: NaN, infinity, values out of range."""
    if a.is_complex():
        limit = torch.finfo(dtype).max if dtype.is_complex or dtype.is_floating_point else float("inf")
        outside = e.abs() + allowed > limit
        return ~torch.isfinite(a) & (~torch.isfinite(e) | outside)
    both_nan = torch.isnan(a) & torch.isnan(e)
    if not dtype.is_floating_point:
        return both_nan
    limit = float(torch.finfo(dtype).max)
    same_sign = torch.sign(a) == torch.sign(e)
    overflow = same_sign & torch.isinf(a) & (e.abs() + allowed > limit)
    finite = e.isfinite()  # what is beyond the range may come as the largest number, infinity may not
    beyond = same_sign & finite & (e.abs() > limit) & (a.abs() >= limit * (1 - float(torch.finfo(dtype).eps)))
    return both_nan | overflow | beyond


def _unravel(flat: int, shape: torch.Size) -> tuple[int, ...]:
    position: list[int] = []
    for size in reversed(shape):
        position.append(flat % size)
        flat //= size
    return tuple(reversed(position))


def compare_exact(
    recorder: Recorder, actual: Any, expected: Any, *, label: str = "the result", sample: int | None = None
) -> bool:
    """Compare elements bit for bit, apart from the payload of NaNs and the sign of zeros."""
    return compare_values(recorder, actual, expected, tolerance=EXACT, label=label, sample=sample)


def metadata(tensor: torch.Tensor, *, stride: bool = False) -> dict[str, Any]:
    """Return the metadata that is compared: ``shape``, ``dtype``, ``layout`` and, with ``stride``,
    ``strides``.
    """
    words: dict[str, Any] = {"shape": list(tensor.shape), "dtype": tensor.dtype, "layout": tensor.layout}
    if stride and tensor.layout is torch.strided:
        # The stride of a dimension of size one, or of a tensor without elements, moves nothing.
        words["strides"] = (
            [step for size, step in zip(tensor.shape, tensor.stride(), strict=False) if size > 1]
            if tensor.numel()
            else []
        )
    return words


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
    """Compare shape, dtype, layout, optionally strides, and the device if one is named.

    Strides of dimensions of size one and of tensors without elements are not compared. Counts one fact per
    word. Values that are not tensors are compared by type, numbers of any type with each other.
    """
    if not isinstance(expected, torch.Tensor):
        same = type(actual) is type(expected) or (
            isinstance(actual, (int, float, complex)) and isinstance(expected, (int, float, complex))
        )
        text = f"{label} is a {type(actual).__name__}, expected a {type(expected).__name__}."
        return fact(recorder, same, Kind.METADATA, text, sample=sample)
    if not isinstance(actual, torch.Tensor):
        text = f"{label} is a {type(actual).__name__}, expected a tensor."
        return fact(recorder, False, Kind.METADATA, text, sample=sample)
    if not stride and _alike(actual, expected, device, dtype):
        recorder.compared(2 + dtype + (device is not None))
        return True
    good = True
    want, got = metadata(expected, stride=stride), metadata(actual, stride=stride)
    for word, value in want.items():
        if word == "dtype" and not dtype:
            continue
        kind = Kind.DTYPE if word == "dtype" else Kind.METADATA
        text = f"{label} has {word} {got.get(word)}, expected {value}."
        good &= fact(recorder, got.get(word) == value, kind, text, sample=sample)
    if device is not None:
        same = _is_on(actual, device)
        text = f"{label} is on device {actual.device}, expected {device}."
        good &= fact(recorder, same, Kind.METADATA, text, sample=sample)
    return good


def _alike(actual: torch.Tensor, expected: torch.Tensor, device: torch.device | None, dtype: bool) -> bool:
    """Return whether the metadata agree, strides apart, without a word about any."""
    return (
        actual.shape == expected.shape
        and actual.layout == expected.layout
        and (not dtype or actual.dtype == expected.dtype)
        and (device is None or _is_on(actual, device))
    )


def _is_on(tensor: torch.Tensor, device: torch.device) -> bool:
    return tensor.device.type == device.type and device.index in (None, tensor.device.index)


def same_nesting(
    recorder: Recorder, actual: Any, expected: Any, *, label: str = "the result", sample: int | None = None
) -> bool:
    """Compare the numbers of leaves of two trees."""
    got, want = len(list(trees.leaves(actual))), len(list(trees.leaves(expected)))
    text = f"{label} has {got} parts, expected {want}."
    return fact(recorder, got == want, Kind.METADATA, text, sample=sample)


def same_bits(left: torch.Tensor, right: torch.Tensor, *, zeros: bool = False) -> bool:
    """Return whether two host tensors of one shape and dtype hold the same; ``zeros``: with their signs."""
    left, right = left.resolve_conj().resolve_neg(), right.resolve_conj().resolve_neg()
    if left.dtype == torch.complex32:
        left, right = torch.view_as_real(left), torch.view_as_real(right)
    if not zeros and torch.equal(left, right):
        return True
    if not (left.is_floating_point() or left.is_complex()) or left.numel() == 0:
        return zeros and torch.equal(left, right)
    one, other = left.contiguous().view(-1), right.contiguous().view(-1)
    return torch.equal(one.view(torch.uint8), other.view(torch.uint8))
