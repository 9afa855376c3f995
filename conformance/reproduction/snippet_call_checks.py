"""The checks of a single call, copied into snippets. The suite does not run them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import torch

from conformance.framework.compare import metadata

DEVICE: Any = None


def to_host_double(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values on the CPU as strided float64 or complex128, which can be subtracted."""
    dense = tensor.detach() if tensor.layout is torch.strided else tensor.detach().to_dense()
    values = dense.cpu().resolve_conj().resolve_neg()
    return values.to(torch.complex128 if values.is_complex() else torch.float64)


def check_values(
    call: Callable[[Any], Any], expected: torch.Tensor, allowed: torch.Tensor, largest: float
) -> None:
    """Exit with 1 if an element differs from the expected element by more than the allowed difference.

    Infinity is accepted if the expected value may exceed ``largest``, the largest number of the result's
    dtype.
    """
    print("on the CPU:", call("cpu"))
    result = call(DEVICE)
    print("expected: ", expected)
    print(f"on {DEVICE}:", result)
    if result.shape != expected.shape:
        print(f"WRONG: the shape is {list(result.shape)} where {list(expected.shape)} is expected")
        sys.exit(1)
    actual, expected_host = to_host_double(result), to_host_double(expected)
    difference = (actual - expected_host).abs()
    is_correct = (
        (difference <= allowed) | (actual == expected_host) | (actual.isnan() & expected_host.isnan())
    )
    if not expected_host.is_complex():
        is_correct |= (actual == expected_host.sign() * math.inf) & (expected_host.abs() + allowed > largest)
    if not is_correct.all():
        worst = torch.where(is_correct, -1.0, difference.nan_to_num(nan=math.inf) - allowed).argmax()
        print(
            f"WRONG: {int((~is_correct).sum())} of {is_correct.numel()} elements; element {int(worst)} is "
            f"{actual.flatten()[worst].item()!r} where {expected_host.flatten()[worst].item()!r} is expected "
            f"(allowed difference {allowed.flatten()[worst].item():.3g})"
        )
        sys.exit(1)
    print("ok: every element is within the allowed difference")


def metadata_of(tensor: torch.Tensor) -> dict[str, Any]:
    """Return all metadata of a tensor that may be compared, by the keys of :func:`metadata`, and
    its device.
    """
    return {**metadata(tensor, stride=True), "device": tensor.device.type}


def check_metadata(call: Callable[[Any], Any], expected: dict[str, Any]) -> None:
    """Exit with 1 if metadata of the result differ from the expected metadata."""
    on_cpu, on_device = metadata_of(call("cpu")), metadata_of(call(DEVICE))
    print("on the CPU:", {field: on_cpu[field] for field in expected})
    print("expected: ", expected)
    print(f"on {DEVICE}:", {field: on_device[field] for field in expected})
    for field, value in expected.items():
        if on_device[field] != value:
            print(f"WRONG: {field} is {on_device[field]} where {value} is expected")
    if any(on_device[field] != value for field, value in expected.items()):
        sys.exit(1)
    print("ok: the metadata is as expected")


def check_no_error(call: Callable[[Any], Any], synchronize: Callable[[], None]) -> None:
    """Exit with 1 if the device raises an exception."""
    print("on the CPU:", call("cpu"))
    try:
        print(f"on {DEVICE}:", call(DEVICE))
        synchronize()
    except Exception as error:
        print(f"WRONG: {type(error).__name__} on {DEVICE} although the CPU has a result: {error}")
        sys.exit(1)
    print("ok: the call returned a result")
