"""Check sums, products, means, counts and cumulative functions."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import numpy
import torch

from conformance.behaviours.behaviour import COMPLEX, FLOATS, INTEGERS, WIDE_FLOATS, behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import (
    Array,
    expect_error_for_two_devices,
    to_widest_numpy_array,
)

_DIMS: tuple[Any, ...] = (None, 0, 1, -1, (0, 2), (1, -1), (0, 1, 2))


def _integers_as_int64(result: torch.Tensor) -> torch.Tensor:
    """Return a result of whole numbers as int64, because no page fixes the dtype of sums and products of
    integers.
    """
    return result if result.is_floating_point() or result.is_complex() else result.long()


@behaviour(
    "reductions",
    dtypes=(*FLOATS, *INTEGERS, *COMPLEX),
    level="bringup",
    must_detect=("value", "error", "shape"),
    page="generated/torch.sum.html",
)
def sums_by_dimension(lab: Lab) -> None:
    """``sum`` and ``mean`` reduce all, one or several dimensions, with and without ``keepdim``, for any
    strides and with ``out=``. A dimension that does not exist or appears twice raises an error.
    """
    base = lab.integers(3, 4, 5)
    array = to_widest_numpy_array(base)
    turned = base.permute(2, 0, 1)
    gapped = lab.integers(6, 4, 10)[::2, :, 1::2]
    for dim in _DIMS:
        for keep in (False, True):
            name = f"of dim {dim}{', keepdim' if keep else ''}"
            lab.expect(name, _integers_as_int64(torch.sum(base, dim, keep)), array.sum(dim, keepdims=keep))
            lab.expect(
                f"permuted {name}",
                _integers_as_int64(turned.sum(dim, keep)),
                array.transpose(2, 0, 1).sum(dim, keepdims=keep),
            )
            lab.expect(
                f"with gaps {name}",
                _integers_as_int64(gapped.sum(dim, keep)),
                to_widest_numpy_array(gapped).sum(dim, keepdims=keep),
            )
            if lab.dtype.is_floating_point or lab.dtype.is_complex:
                lab.expect(
                    f"mean {name}", torch.mean(base, dim, keep), array.mean(dim, keepdims=keep), roundings=2.0
                )
    with lab.parity("No page names the arguments axis and keepdims"):
        lab.expect("NumPy's names", torch.sum(base, axis=1, keepdims=True), array.sum(1, keepdims=True))  # type: ignore[call-overload]
    lab.expect("expanded", _integers_as_int64(base[:1].expand(7, 4, 5).sum(0)), 7 * array[0])
    out = torch.empty(4, 5, dtype=base.sum(0).dtype, device=lab.device)
    lab.holds("sum returns out", torch.sum(base, 0, out=out) is out)
    lab.expect("out", _integers_as_int64(out), array.sum(0))
    lab.same(
        "of nothing", [_integers_as_int64(x) for x in (base[:0].sum(), base[:0].sum(0), base[:0].sum(1))]
    )
    with lab.parity("No page says that a dimension may be named for a tensor without dimensions"):
        lab.same("of a number", base[0, 0, 0].sum(0))
    with lab.parity("No page says that a dimension that does not exist is an error"):
        lab.raises("a dimension that does not exist", lambda: base.sum(3), IndexError, match="(?i)dim")
    with lab.parity("No page says that a repeated dimension is an error"):
        lab.raises("the same dimension twice", lambda: base.sum((1, 1)), match="(?i)multiple times")
        lab.raises("the same dimension from both ends", lambda: base.sum((0, -3)), match="(?i)multiple times")
    expect_error_for_two_devices(
        lab, "an out elsewhere", lambda: torch.sum(base, 0, out=torch.empty(4, 5, dtype=out.dtype))
    )


@behaviour(
    "reductions",
    dtypes=(*INTEGERS, "bool"),
    level="core",
    must_detect=("value", "dtype"),
    page="generated/torch.sum.html",
    basis="parity",
    ground="The page says only that sums of integers may be promoted",
)
def integer_sums_are_wide(lab: Lab) -> None:
    """``sum``, ``prod``, ``cumsum``, ``cumprod`` and ``nansum`` of integers and booleans return int64, so
    that they do not overflow at the limits of the input's dtype. With ``dtype=``, they return this dtype.
    ``mean`` of integers requires a floating-point ``dtype=``.
    """
    ones = torch.ones(300, 3, dtype=lab.dtype, device=lab.device)
    lab.expect("sum", ones.sum(), 900)
    lab.expect("sum of a dimension", ones.sum(0), [300] * 3)
    lab.expect("cumsum", ones.cumsum(0)[-1], [300] * 3)
    lab.expect("nansum", ones.nansum(0), [300] * 3)
    lab.expect(
        "dtypes",
        [
            x.dtype
            for x in (
                ones.sum(),
                ones.sum(1),
                ones.prod(),
                ones.prod(0),
                ones.cumsum(0),
                ones.cumprod(1),
                ones.nansum(),
            )
        ],
        [torch.int64] * 7,
    )
    two = torch.full((10,), 2, dtype=lab.dtype, device=lab.device)
    base = 1 if lab.dtype == torch.bool else 2
    lab.expect("prod", two.prod(), base**10)
    lab.expect("cumprod", two.cumprod(0), [base**k for k in range(1, 11)])
    with lab.documented():
        lab.expect("sum as int64", ones.sum(dtype=torch.int64), 900)
        lab.expect(
            "sum as int32",
            (ones.sum(dtype=torch.int32).dtype, ones.sum(0, dtype=torch.float64).dtype),
            (torch.int32, torch.float64),
        )
        lab.expect("prod as float32", two.prod(dtype=torch.float32), float(base**10))
        lab.expect("mean as float32", ones.mean(dtype=torch.float32), 1.0)
        lab.expect("mean of a dimension as float64", ones.mean(0, dtype=torch.float64), [1.0] * 3)
        lab.expect("cumsum as float32", ones[:3].cumsum(0, dtype=torch.float32)[:, 0], [1.0, 2, 3])
        lab.raises("mean", lambda: ones.mean(), match="(?i)dtype")
    lab.raises("std", lambda: ones.std(), match="(?i)float")


def _expect_value_or_float16_overflow(lab: Lab, name: str, value: torch.Tensor, expected: float) -> None:
    """Expect the value, within two roundings. In float16, also accept infinity."""
    if lab.dtype == torch.float16 and bool(value.isinf()):
        value = torch.full_like(value, expected)
    lab.expect(name, value, expected, roundings=2.0)


@behaviour(
    "reductions",
    dtypes=FLOATS,
    level="core",
    must_detect=("value",),
    page="generated/torch.sum.html",
    ground="The sum is defined by its terms; the note on accuracy promises no order of additions",
)
def sums_of_many(lab: Lab) -> None:
    """Sums and means of many elements do not lose small terms, for long rows, long columns and terms that
    cancel. A float16 mean is correct or infinite.
    """
    ones = torch.ones(70000, dtype=lab.dtype, device=lab.device)
    # An intermediate sum in float16 may overflow. PyTorch's note "Numerical accuracy" allows it.
    _expect_value_or_float16_overflow(lab, "mean of ones", ones.mean(), 1.0)
    lab.expect("sum of ones as float32", ones.sum(dtype=torch.float32), 70000.0)
    lab.expect("sum of rows", ones.view(70, 1000).sum(1), [1000.0] * 70, roundings=4.0)
    lab.expect("sum of columns", ones.view(1000, 70)[:256].sum(0), [256.0] * 70)
    # The sum of each column is below the largest number of float16.
    both = torch.stack([ones[:60000], -ones[:60000]], 1)
    lab.expect("what cancels", both.sum(), 0.0)
    lab.expect("what cancels in columns", both.view(-1, 40).t().sum(0)[:3], [0.0] * 3)
    lab.expect("with gaps", ones[:512:2].sum(), 256.0)
    square = ones[:10000].view(100, 100)
    lab.expect("norm", torch.linalg.vector_norm(square), 100.0, roundings=2.0)
    if lab.dtype == torch.float16:
        large = torch.full((64,), 60000.0, dtype=lab.dtype, device=lab.device)
        _expect_value_or_float16_overflow(lab, "mean of large halves", large.mean(), 60000.0)
    corner = torch.ones(33, 65, dtype=lab.dtype, device=lab.device)
    for dims in (0, 1, (0, 1)):
        lab.expect(f"odd sizes {dims}", corner.sum(dims), numpy.ones((33, 65)).sum(dims), roundings=4.0)
        lab.expect(
            f"at an offset {dims}", corner[1:, 3:].sum(dims), numpy.ones((32, 62)).sum(dims), roundings=4.0
        )


@behaviour(
    "reductions",
    dtypes=(*WIDE_FLOATS, "int32", "int64", "complex64"),
    level="core",
    must_detect=("value",),
    page="generated/torch.cumsum.html",
)
def products_and_scans(lab: Lab) -> None:
    """``prod``, ``cumsum``, ``cumprod``, ``diff`` and ``trapezoid`` agree with NumPy in every dimension."""
    base = lab.integers(3, 4, 2, low=-2, high=3)
    array = to_widest_numpy_array(base)
    functions: dict[str, tuple[Callable[..., Any], Callable[..., Array]]] = {
        "prod": (torch.prod, numpy.prod),
        "cumsum": (torch.cumsum, numpy.cumsum),
        "cumprod": (torch.cumprod, numpy.cumprod),
        "diff": (lambda x, dim: torch.diff(x, dim=dim), lambda x, dim: numpy.diff(x, axis=dim)),
        "second diff": (lambda x, dim: torch.diff(x, 2, dim), lambda x, dim: numpy.diff(x, 2, dim)),
    }
    for name, (function, reference) in functions.items():
        for dim in (0, 1, -1):
            lab.expect(f"{name} of {dim}", _integers_as_int64(function(base, dim)), reference(array, dim))
            lab.expect(
                f"{name} of {dim} permuted",
                _integers_as_int64(function(base.permute(1, 2, 0), dim)),
                reference(array.transpose(1, 2, 0), dim),
            )
    lab.expect("prod of all", _integers_as_int64(base[:1].prod()), array[:1].prod())
    lab.expect("prod kept", _integers_as_int64(base.prod(1, keepdim=True)), array.prod(1, keepdims=True))
    nothing = (base[:0].prod(), base[:0].prod(0), base[:0].cumsum(0), base[:, :0].cumprod(1))
    lab.same("of nothing", [_integers_as_int64(x) for x in nothing])
    with lab.parity("No page says that a dimension may be named for a tensor without dimensions"):
        lab.same("of a number", base[0, 0, 0].cumsum(0))
    copy = base.clone()
    lab.holds("cumsum_ returns its input", copy.cumsum_(1) is copy)
    lab.expect("cumsum_", copy, array.cumsum(1))
    if not lab.dtype.is_complex:
        pairs: Any = [base.cummax(1), base.cummin(1)]
        lab.expect("cummax", pairs[0].values, numpy.maximum.accumulate(array, 1))
        lab.expect("cummin", pairs[1].values, numpy.minimum.accumulate(array, 1))
        lab.expect(
            "elements at the indices of cummax",
            base.gather(1, pairs[0].indices),
            numpy.maximum.accumulate(array, 1),
        )
    y, x = base.to(torch.complex64) if lab.dtype.is_complex else base, lab.put([0, 1, 4, 6], dtype=lab.dtype)
    weights = (array[:, 1:] + array[:, :-1]) / 2
    steps = numpy.array([1, 3, 2]).reshape(3, 1)
    lab.expect("trapezoid", torch.trapezoid(y, dim=1), weights.sum(1), roundings=4.0)
    lab.expect("trapezoid of steps", torch.trapezoid(y, dx=2.0, dim=1), 2 * weights.sum(1), roundings=4.0)
    lab.expect(
        "trapezoid at places",
        torch.trapezoid(y, x.view(4, 1), dim=1),
        (weights * steps).sum(1),
        roundings=4.0,
    )
    lab.expect(
        "cumulative_trapezoid",
        torch.cumulative_trapezoid(y, x.view(4, 1), dim=1),
        (weights * steps).cumsum(1),
        roundings=4.0,
    )
    lab.expect(
        "cumulative_trapezoid of 1", torch.cumulative_trapezoid(y, dim=1), weights.cumsum(1), roundings=4.0
    )
    lab.raises(
        "trapezoid with a wrong number of positions", lambda: torch.trapezoid(base, x[:3].view(3, 1), dim=1)
    )
    with lab.parity("No page says that the call is an error"):
        lab.raises("trapezoid of a number", lambda: torch.trapezoid(base[0, 0, 0]), IndexError, RuntimeError)


@behaviour("reductions", dtypes=(*FLOATS, *COMPLEX), level="core", page="generated/torch.nansum.html")
def sums_without_nan(lab: Lab) -> None:
    """``nansum`` and ``nanmean`` ignore NaN, also if all elements are NaN. ``sum``, ``mean`` and ``prod``
    return NaN if an element is NaN.
    """
    data = [[1.0, math.nan, 3], [math.nan, math.nan, math.nan], [4, 5, -6]]
    base = lab.put(data, dtype=lab.dtype)
    lab.expect("sum", base.sum(1).real.isnan(), [True, True, False])
    lab.expect("mean", base.mean(1).real.isnan(), [True, True, False])
    lab.expect("prod", base.prod(0).real.isnan(), [True, True, True])
    if lab.dtype.is_complex:
        with lab.parity("No page says that the call is an error"):
            lab.raises("nansum of complex numbers", lambda: base.nansum(), match="(?i)complex")
        return
    lab.expect("nansum", base.nansum(1), [4.0, 0, 3])
    lab.expect("nansum of all", base.nansum(), 7.0)
    lab.expect("nansum of columns", base.t().nansum(0, keepdim=True), [[4.0, 0, 3]])
    lab.expect("nanmean", base.nanmean(1), [2.0, math.nan, 1])
    lab.expect("nansum of several dimensions", base.view(3, 3, 1).nansum((0, 2)), [5.0, 5, -3])
    wide = torch.float64 if lab.dtype == torch.float64 else torch.float32
    lab.expect(
        "as another dtype",
        (base.nansum(1, dtype=wide).dtype, base.nansum(1, dtype=wide).tolist()),
        (wide, [4.0, 0.0, 3.0]),
    )
    out = torch.empty(3, dtype=lab.dtype, device=lab.device)
    lab.holds("nansum returns out", torch.nansum(base, 1, out=out) is out)
    lab.expect("out", out, [4.0, 0, 3])
    lab.expect("infinities", lab.put([math.inf, 1, math.nan], dtype=lab.dtype).nansum(), math.inf)


@behaviour(
    "reductions",
    dtypes=(*FLOATS, *INTEGERS, *COMPLEX, "bool"),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.all.html",
)
def truth_of_many(lab: Lab) -> None:
    """``all``, ``any`` and ``count_nonzero`` treat nonzero elements as true. They accept dimensions, empty
    tensors and ``out=``.
    """
    base = lab.integers(4, 5, 3, low=0, high=2)
    base[1], base[2] = 1, 0
    array = to_widest_numpy_array(base)
    for dim in _DIMS:
        for keep in (False, True):
            name = f"of {dim}{' kept' if keep else ''}"
            lab.expect(
                f"all {name}",
                torch.all(base, dim=dim, keepdim=keep),
                array.astype(bool).all(dim, keepdims=keep),
            )
            lab.expect(
                f"any {name}",
                torch.any(base, dim=dim, keepdim=keep),
                array.astype(bool).any(dim, keepdims=keep),
            )
        if dim is not None:
            lab.expect(f"count of {dim}", torch.count_nonzero(base, dim), numpy.count_nonzero(array, dim))
    lab.expect(
        "of all",
        [base.all().item(), base.any().item(), base[1].all().item(), base[2].any().item()],
        [False, True, True, False],
    )
    kind = torch.uint8 if lab.dtype == torch.uint8 else torch.bool
    lab.expect("dtypes", {x.dtype for x in (base.all(), base.all(0), base.any(), base.any(1))}, {kind})
    lab.expect(
        "permuted",
        base.permute(2, 0, 1).all(1),
        to_widest_numpy_array(base).transpose(2, 0, 1).astype(bool).all(1),
    )
    lab.expect("with gaps", base[::2, ::2].any(0), array[::2, ::2].astype(bool).any(0))
    lab.expect(
        "of nothing",
        [base[:0].all().item(), base[:0].any().item(), base[:0].count_nonzero().item()],
        [True, False, 0],
    )
    lab.same(
        "of nothing by dimension",
        [base[:0].all(0), base[:0].any(0), base[:0].all(1), base[:, :0].any(1, keepdim=True)],
    )
    with lab.parity("No page says that a dimension may be named for a tensor without dimensions"):
        lab.same("of a number", [base[0, 0, 0].all(), base[0, 0, 0].any(0), base[1, 0, 0].all(-1)])
    large = torch.ones(30000, dtype=lab.dtype, device=lab.device)
    large[29999] = 0
    lab.expect(
        "one of many",
        (large.all().item(), large[:-1].all().item(), (large == 0).any().item()),
        (False, True, True),
    )
    if lab.dtype.is_floating_point:
        lab.expect(
            "NaN is true",
            lab.put([math.nan, 0.0, -0.0], dtype=lab.dtype).view(3, 1).any(1),
            [True, False, False],
        )
    for kind in (torch.bool, torch.uint8):
        out = torch.empty(5, 3, dtype=kind, device=lab.device)
        with lab.parity("No page says which dtypes out= may have"):
            lab.holds(f"any returns its out= of {kind}", torch.any(base, 0, out=out) is out)
            lab.same(f"out of {kind}", out)
    with lab.parity("No page says that a dimension that does not exist is an error"):
        lab.raises("a dimension that does not exist", lambda: base.all(3), IndexError)
    with lab.parity("No page says that the call is an error"):
        lab.raises(
            "an out of floats",
            lambda: torch.all(base, 0, out=torch.empty(5, 3, device=lab.device)),
            match="(?i)bool|dtype|type",
        )


@behaviour(
    "reductions",
    dtypes=("complex64", "complex128"),
    must_detect=("value",),
    page="generated/torch.logcumsumexp.html",
)
def complex_logarithms_of_sums(lab: Lab) -> None:
    """``logcumsumexp`` and ``logsumexp`` of complex numbers return the logarithm of the sum of exponentials.
    The imaginary part may differ by multiples of 2π.
    """
    base = lab.floats(4, 5)
    expected = numpy.exp(to_widest_numpy_array(base)).cumsum(1)
    lab.expect("exponential of logcumsumexp", torch.logcumsumexp(base, 1).exp(), expected, roundings=64.0)
    lab.expect("exponential of logsumexp", torch.logsumexp(base, 1).exp(), expected[:, -1], roundings=64.0)
    lab.expect("by rows", torch.logcumsumexp(base.t(), 0).exp(), expected.T, roundings=64.0)


@behaviour(
    "reductions",
    dtypes=(*WIDE_FLOATS, "int64", "bool"),
    level="core",
    must_detect=("value",),
    page="generated/torch.logsumexp.html",
)
def logarithms_of_sums(lab: Lab) -> None:
    """``logsumexp`` does not overflow or underflow, accepts integers and returns the limit for infinities. It
    returns -inf for an empty dimension.
    """
    base = lab.integers(3, 4, 2)
    array = to_widest_numpy_array(base).astype(float)
    basis = (
        contextlib.nullcontext()
        if lab.dtype.is_floating_point
        else lab.parity("No page says that the function accepts integers and booleans")
    )
    with basis:
        for dim in (0, 1, -1, (0, 2)):
            for keep in (False, True):
                lab.expect(
                    f"of {dim}{' kept' if keep else ''}",
                    torch.logsumexp(base, dim, keep),
                    numpy.log(numpy.exp(array).sum(dim, keepdims=keep)),
                    roundings=16.0,
                )
        lab.expect("of nothing", torch.logsumexp(base[:0], 0), numpy.full((4, 2), -math.inf))
    if lab.dtype.is_floating_point:
        special = lab.put(
            [
                [1000.0, 1000],
                [-1000, -1000],
                [math.inf, 1],
                [-math.inf, -math.inf],
                [-math.inf, 2],
                [math.inf, -math.inf],
                [math.nan, 1],
            ],
            dtype=lab.dtype,
        )
        two = math.log(2.0)
        lab.expect(
            "special values",
            torch.logsumexp(special[:2], 1),
            numpy.array([1000 + two, -1000 + two]),
            roundings=4.0,
        )
        lab.expect(
            "infinities", torch.logsumexp(special[2:], 1), [math.inf, -math.inf, 2, math.inf, math.nan]
        )
        lab.expect(
            "cumulative", torch.logcumsumexp(special[2:6], 1)[:, 1], [math.inf, -math.inf, 2, math.inf]
        )
