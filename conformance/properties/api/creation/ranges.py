"""Behaviours of ``arange``, ``linspace``, ``logspace``, ``range`` and window functions."""

from __future__ import annotations

import math
from typing import Any

import numpy
import torch

from conformance.behaviours.behaviour import FLOATS, INTEGERS, behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "creation",
    dtypes=(*FLOATS, *INTEGERS),
    level="core",
    must_detect=("value", "dtype", "error"),
    capabilities=("storage",),
    page="generated/torch.arange.html",
)
def arange_steps(lab: Lab) -> None:
    """``arange`` counts in steps from ``start`` (included) to ``end`` (excluded), up or down. The result may
    be empty, and may be written into the tensor that is passed as ``out=``.
    """
    where: dict[str, Any] = {"device": lab.device, "dtype": lab.dtype}
    lab.expect("0 to 5", torch.arange(5, **where), [0, 1, 2, 3, 4])
    lab.expect("2 to 9 by 3", torch.arange(2, 9, 3, **where), [2, 5, 8])
    lab.expect("9 to 2 by -3", torch.arange(9, 2, -3, **where), [9, 6, 3])
    lab.expect("an end that a step reaches", torch.arange(0, 6, 2, **where), [0, 2, 4])
    lab.expect("a start that equals the end", torch.arange(1, 1, **where), torch.zeros(0))
    lab.expect("keywords", torch.arange(start=1, end=4, **where), [1, 2, 3])
    many = torch.arange(100, **where)
    lab.expect("a hundred", many, list(range(100)))
    out = torch.zeros(4, **where)
    address = out.data_ptr()
    torch.arange(3, 7, out=out)
    lab.expect("into out", out, [3, 4, 5, 6])
    with lab.parity("No page says that data_ptr of out= stays the same"):
        lab.holds("out keeps its memory", out.data_ptr() == address)
    strided = torch.zeros(8, **where)[::2]
    torch.arange(4, out=strided)
    lab.expect("into a strided out", strided, [0, 1, 2, 3])
    with lab.parity("No page says that a step of zero is refused"):
        lab.raises("no step", lambda: torch.arange(0, 3, 0, **where), match="step must be nonzero")
    with lab.parity("No page says that a step of the wrong sign is refused; NumPy returns an empty result"):
        lab.raises(
            "the wrong way", lambda: torch.arange(0, 3, -1, **where), match="inconsistent with step sign"
        )
        lab.raises(
            "a positive step with a smaller end",
            lambda: torch.arange(3, 0, 1, **where),
            match="inconsistent with step sign",
        )


@behaviour("creation", must_detect=("value", "dtype", "error"), page="generated/torch.arange.html")
def arange_of_floats(lab: Lab) -> None:
    """``arange`` of floats has ``ceil((end - start) / step)`` elements. Infinite or NaN bounds are
    refused.
    """
    device = lab.device
    for dtype in (torch.float32, torch.float64):
        for start, end, step in ((0.0, 1.0, 0.25), (-2.0, 2.0, 0.5), (1.0, 0.0, -0.125), (0.0, 1.0, 0.375)):
            count = math.ceil((end - start) / step)
            expected = [start + index * step for index in range(count)]
            lab.expect(
                f"{start} to {end} by {step}",
                torch.arange(start, end, step, dtype=dtype, device=device),
                expected,
            )
    with lab.parity("The page says that the comparison with the end is subject to rounding errors"):
        lab.same(
            "a count that rounding could miss",
            torch.arange(0, 1, 0.1, dtype=torch.float64, device=device).shape,
        )
        lab.same("another one", torch.arange(-1, 1.02, 0.02, device=device).shape)
    lab.expect("mixed arguments", torch.arange(0, 3.0, device=device), [0.0, 1.0, 2.0])
    with lab.parity("The page mentions numbers as bounds, and no tensors"):
        lab.expect(
            "tensors as bounds",
            torch.arange(torch.tensor(1), torch.tensor(4), device=device),  # type: ignore[call-overload]
            [1, 2, 3],
        )
    big = 2**60
    lab.expect("large integers", torch.arange(big, big + 3, device=device), [big, big + 1, big + 2])
    lab.expect(
        "floats as integers", torch.arange(0.0, 4.0, 1.0, dtype=torch.int64, device=device), [0, 1, 2, 3]
    )
    for bound in (math.inf, -math.inf, math.nan):
        with lab.parity("No page says that infinite or NaN bounds are refused"):
            lab.raises(f"to {bound}", lambda: torch.arange(0, bound, device=device))
            lab.raises(f"from {bound}", lambda: torch.arange(bound, 3, device=device))
    with lab.parity("No page says that a count that overflows is refused"):
        lab.raises(
            "too many",
            lambda: torch.arange(1.175494351e-38, 3.402823466e38, device=device),
            match="(?i)overflow|size",
        )


@behaviour(
    "creation",
    dtypes=("float32", "float64"),
    level="core",
    must_detect=("value", "dtype", "shape"),
    page="generated/torch.linspace.html",
)
def linspace_points(lab: Lab) -> None:
    """``linspace`` returns evenly spaced points for any number of steps. The first point is exactly
    ``start``, and the last point is exactly ``end``.
    """
    where: dict[str, Any] = {"device": lab.device, "dtype": lab.dtype}
    for start, end, steps in ((0, 10, 5), (-3, 3, 7), (1, 0, 4), (2.5, 2.5, 3), (0, 1, 50), (-1e5, 1e5, 101)):
        expected = numpy.linspace(start, end, steps, dtype=numpy.float64)
        result = torch.linspace(start, end, steps, **where)
        lab.expect(f"{start} to {end} in {steps}", result, expected, roundings=4)
        lab.expect(f"{start} to {end} in {steps}, first", result[0], torch.tensor(start, dtype=lab.dtype))
        lab.expect(f"{start} to {end} in {steps}, last", result[-1], torch.tensor(end, dtype=lab.dtype))
    lab.expect("one step", torch.linspace(3, 8, 1, **where), [3.0])
    lab.expect("no step", torch.linspace(3, 8, 0, **where), torch.zeros(0))
    with lab.parity("No page says that a negative number of steps is refused"):
        lab.raises("less than no step", lambda: torch.linspace(0, 1, -1, **where), match="non-negative")
    lab.raises("no number of steps", lambda: torch.linspace(0, 1, **where), TypeError)
    out = torch.full((6,), -1.0, **where)
    torch.linspace(0, 5, 6, out=out)
    lab.expect("into out", out, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    into = torch.zeros(12, **where)[::2]
    torch.linspace(0, 5, 6, out=into)
    lab.expect("into a strided out", into, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    bounds = torch.tensor(2.0, **where), torch.tensor(4.0, **where)
    lab.expect("tensors as bounds", torch.linspace(*bounds, 3, **where), [2.0, 3.0, 4.0])
    lab.expect("a tensor as one of the bounds", torch.linspace(0, bounds[1], 3, **where), [0.0, 2.0, 4.0])


@behaviour(
    "creation",
    dtypes=INTEGERS,
    must_detect=("value",),
    page="generated/torch.linspace.html",
    ground="The formula gives whole points and both ends; no page describes rounding",
)
def linspace_of_integers(lab: Lab) -> None:
    """``linspace`` of integers rounds its points towards zero. The first point is ``start``, and the last
    point is ``end``.
    """
    where: dict[str, Any] = {"device": lab.device, "dtype": lab.dtype}
    lab.expect("0 to 10 in 6", torch.linspace(0, 10, 6, **where), [0, 2, 4, 6, 8, 10])
    lab.expect("10 to 0 in 6", torch.linspace(10, 0, 6, **where), [10, 8, 6, 4, 2, 0])
    with lab.parity("No page says in which direction points are rounded for an integer dtype"):
        lab.expect("0 to 3 in 7", torch.linspace(0, 3, 7, **where), [0, 0, 1, 1, 2, 2, 3])
    lab.expect("5 to 5 in 3", torch.linspace(5, 5, 3, **where), [5, 5, 5])
    lab.expect("one step", torch.linspace(4, 9, 1, **where), [4])
    ends = torch.linspace(0, 120, 41, **where)
    lab.expect("the last of many", ends[-1], 120)


@behaviour(
    "creation",
    dtypes=("complex64", "complex128"),
    must_detect=("value",),
    page="generated/torch.linspace.html",
)
def complex_spaces(lab: Lab) -> None:
    """The points of ``linspace``, and the exponents of ``logspace``, lie on the straight line between two
    complex bounds. A real floating dtype for complex bounds is refused.
    """
    where: dict[str, Any] = {"device": lab.device, "dtype": lab.dtype}
    expected = numpy.linspace(1 + 2j, -3 + 4j, 5)
    lab.expect("linspace", torch.linspace(1 + 2j, -3 + 4j, 5, **where), expected, roundings=8)
    lab.expect("a real end", torch.linspace(1j, 2, 3, **where), numpy.linspace(1j, 2, 3), roundings=8)
    powers = numpy.logspace(0, 1 + 1j, 4)
    lab.expect("logspace", torch.logspace(0, 1 + 1j, 4, **where), powers, roundings=64)
    real = torch.float32 if lab.dtype == torch.complex64 else torch.float64
    with lab.parity("No page says that a real dtype is refused for complex bounds"):
        lab.raises(
            "complex bounds, a real dtype", lambda: torch.linspace(1j, 2, 3, dtype=real, device=lab.device)
        )
        lab.raises(
            "complex bounds, a real dtype, logspace",
            lambda: torch.logspace(1j, 2, 3, dtype=real, device=lab.device),
        )


@behaviour(
    "creation",
    dtypes=("float32", "float64"),
    must_detect=("value", "shape"),
    page="generated/torch.logspace.html",
)
def logspace_points(lab: Lab) -> None:
    """``logspace`` returns the powers of its base at evenly spaced exponents, for any number of steps."""
    where: dict[str, Any] = {"device": lab.device, "dtype": lab.dtype}
    for start, end, steps, base in (
        (0, 3, 4, 10.0),
        (-2, 2, 5, 10.0),
        (0, 8, 9, 2.0),
        (1, 1, 3, 3.0),
        (2, 0, 5, 2.0),
    ):
        expected = numpy.logspace(start, end, steps, base=base)
        result = torch.logspace(start, end, steps, base=base, **where)
        lab.expect(f"{base} to the {start} to {end} in {steps}", result, expected, roundings=32)
    lab.expect("one step", torch.logspace(2, 5, 1, **where), [100.0], roundings=8)
    lab.expect("no step", torch.logspace(2, 5, 0, **where), torch.zeros(0))
    into = torch.zeros(6, **where)[::2]
    torch.logspace(0, 2, 3, out=into)
    lab.expect("into a strided out", into, [1.0, 10.0, 100.0], roundings=8)
    with lab.parity("No page says that a negative number of steps is refused"):
        lab.raises("less than no step", lambda: torch.logspace(0, 1, -1, **where), match="non-negative")
    bounds = torch.tensor(0.0, **where), torch.tensor(2.0, **where)
    lab.expect("tensors as bounds", torch.logspace(*bounds, 3, **where), [1.0, 10.0, 100.0], roundings=8)
    whole = torch.logspace(0, 6, 4, base=2, dtype=torch.int64, device=lab.device)
    with lab.parity("No page says how powers are rounded to an integer dtype; 3.9999998 may become 3"):
        lab.expect("integers", whole, [1, 4, 16, 64])


@behaviour("creation", must_detect=("dtype",), page="generated/torch.linspace.html")
def spaces_deduce_dtype(lab: Lab) -> None:
    """``linspace`` and ``logspace`` without a dtype use the default dtype, or its complex counterpart for
    complex bounds.
    """
    device = lab.device
    for call in (torch.linspace, torch.logspace):
        lab.same(f"{call.__name__} of integers", call(0, 3, 4, device=device).dtype)
        lab.same(f"{call.__name__} of floats", call(0.5, 3.5, 4, device=device).dtype)
        lab.same(f"{call.__name__} of complex bounds", call(0, 3j, 4, device=device).dtype)
        lab.same(f"{call.__name__} of a half", call(0, 3, 4, dtype=torch.float16, device=device).dtype)
        out = torch.empty(4, dtype=torch.float64, device=device)
        lab.same(f"{call.__name__} into out", call(0, 3, 4, out=out).dtype)
    lab.expect("arange of integers", torch.arange(2, 4, device=device), [2, 3])
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        lab.same("linspace in double", torch.linspace(0, 3j, 4, device=device).dtype)
        lab.same("arange in double", torch.arange(0.5, 2, device=device).dtype)
    finally:
        torch.set_default_dtype(before)


@behaviour(
    "creation",
    dtypes=("float32", "float64", "int32", "int64"),
    must_detect=("value", "warning"),
    page="generated/torch.range.html",
)
def deprecated_range(lab: Lab) -> None:
    """``range`` includes its end and warns that it is deprecated. ``range`` refuses the arguments that
    ``arange`` refuses.
    """
    where: dict[str, Any] = {"device": lab.device, "dtype": lab.dtype}
    result = lab.warns("range", lambda: torch.range(0, 3, **where), match="deprecated")
    lab.expect("0 to 3", result, [0, 1, 2, 3])
    lab.expect("0 to 9 by 3", torch.range(0, 9, 3, **where), [0, 3, 6, 9])
    lab.expect("3 to 0 by -1", torch.range(3, 0, -1, **where), [3, 2, 1, 0])
    lab.expect("one", torch.range(1, 1, **where), [1])
    into = torch.zeros(4, **where)
    lab.expect("into out", torch.range(4, 7, out=into), [4, 5, 6, 7])
    with lab.parity("No page says that a step of zero is refused"):
        lab.raises("no step", lambda: torch.range(0, 3, 0, **where), match="step must be nonzero")
    with lab.parity("No page says that a step of the wrong sign is refused"):
        lab.raises(
            "the wrong way", lambda: torch.range(0, 3, -1, **where), match="inconsistent with step sign"
        )


@behaviour(
    "creation",
    dtypes=("float32", "float64"),
    must_detect=("value", "error"),
    page="generated/torch.hann_window.html",
)
def window_functions(lab: Lab) -> None:
    """Window functions have the values of their closed forms. A periodic window equals a symmetric window
    with one more point, from which the last point is removed. Integer dtypes and negative sizes are refused.
    """
    where: dict[str, Any] = {"device": lab.device, "dtype": lab.dtype}

    def cosine_window(size: int, constant_term: float) -> numpy.ndarray:
        steps = numpy.arange(size)
        return constant_term - (1 - constant_term) * numpy.cos(2 * numpy.pi * steps / (size - 1))

    sizes = (3, 5, 10, 51)
    for size in sizes:
        forms = {
            "hann": (torch.hann_window, numpy.hanning),
            "hamming": (torch.hamming_window, lambda count: cosine_window(count, 0.54)),  # type: ignore[arg-type]
            "blackman": (torch.blackman_window, numpy.blackman),
            "bartlett": (torch.bartlett_window, numpy.bartlett),
        }
        for name, (call, form) in forms.items():
            lab.expect(f"{name} of {size}", call(size, periodic=False, **where), form(size), roundings=64)
            periodic = form(size + 1)[:-1]
            lab.expect(
                f"periodic {name} of {size}", call(size, periodic=True, **where), periodic, roundings=64
            )
        for beta in (0.0, 4.0, 12.0):
            shape = numpy.kaiser(size, beta)
            result = torch.kaiser_window(size, periodic=False, beta=beta, **where)
            lab.expect(f"kaiser of {size}, {beta}", result, shape, roundings=256)
    for size in (300, 5_000, 70_000):
        shape = numpy.kaiser(size + 1, 12.0)[:-1]
        for options in ((), (True,)):
            result = torch.kaiser_window(size, *options, **where)
            lab.expect(f"kaiser of {size}, {options}", result, shape, roundings=4096)
    for call in (torch.hann_window, torch.hamming_window, torch.blackman_window, torch.bartlett_window):
        with lab.parity(
            "The page allows only positive lengths and does not say what a length of zero returns"
        ):
            lab.expect(f"{call.__name__} of nothing", call(0, **where), torch.zeros(0))
        lab.expect(f"{call.__name__} of length one", call(1, **where), [1.0])
        lab.raises(f"{call.__name__} of less", lambda: call(-1, **where), match="non-negative")
        lab.raises(
            f"{call.__name__} of integers",
            lambda: call(3, dtype=torch.int64, device=lab.device),
            match="floating point",
        )
