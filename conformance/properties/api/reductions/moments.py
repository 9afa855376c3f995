"""Check variances, medians, modes, quantiles, histograms and ``bincount``."""

from __future__ import annotations

import contextlib
import math

import numpy
import torch

from conformance.behaviours.behaviour import FLOATS, WIDE_FLOATS, behaviour
from conformance.behaviours.lab import Lab
from conformance.model.verdicts import Kind
from conformance.properties.api._numpy_values import to_widest_numpy_array

_MOMENTS = ("float32", "float64", "complex64", "complex128")


@behaviour(
    "reductions",
    dtypes=_MOMENTS,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.var.html",
)
def variances(lab: Lab) -> None:
    """``var``, ``std``, ``var_mean`` and ``std_mean`` agree with NumPy for every correction and dimension,
    with and without ``keepdim``, and with ``out=``. If no degree of freedom remains, they return NaN and
    warn.
    """
    # The numbers are positive, so that the mean is as large as its terms. An algorithm may round the mean
    # by a unit of the terms, and the tolerance is relative to the mean.
    base = lab.integers(4, 5, 3, low=1, high=9)
    array = to_widest_numpy_array(base)
    with lab.parity("No page says that a repeated dimension is an error"):
        lab.raises("the same dimension twice", lambda: base.var((0, 0)), match="(?i)multiple times")
    basis_of_dtype = (
        lab.parity("The formula of the page is not the variance of complex numbers")
        if lab.dtype.is_complex
        else contextlib.nullcontext()
    )
    with basis_of_dtype:
        for unbiased in (False, True):
            expected = array.var(1, ddof=int(unbiased))
            lab.expect(f"unbiased={unbiased}", base.var(1, unbiased), expected, roundings=16.0)
            lab.expect(
                f"std of all, unbiased={unbiased}",
                base.std(unbiased),
                numpy.sqrt(array.var(ddof=int(unbiased))),
                roundings=16.0,
            )
            lab.expect(
                f"pair, unbiased={unbiased}",
                torch.std_mean(base, unbiased)[0],
                array.std(ddof=int(unbiased)),
                roundings=16.0,
            )
        lab.expect(
            "permuted", base.permute(2, 0, 1).var(1), array.transpose(2, 0, 1).var(1, ddof=1), roundings=16.0
        )
        out = torch.empty(5, 3, dtype=base.real.dtype, device=lab.device)
        lab.holds("var returns out", torch.var(base, 0, out=out) is out)
        lab.expect("out", out, array.var(0, ddof=1), roundings=16.0)
        lab.expect("one element with correction 0", base[0, 0, :1].var(correction=0), 0.0)
        for name in ("var", "std"):
            result = lab.warns(
                f"{name} of one element", lambda: getattr(base[0, 0, :1], name)(), match="freedom"
            )
            lab.expect(f"value of {name} of one element", result, math.nan)
            lab.expect(f"{name} of nothing", getattr(torch, name)(base[:0], 0), numpy.full((5, 3), math.nan))
        for correction in (0, 1, 0.5):
            for dim in (None, 0, -1, (0, 2)):
                count = (
                    array.size
                    if dim is None
                    else int(numpy.prod([array.shape[d] for d in ((dim,) if isinstance(dim, int) else dim)]))
                )
                scale = count / (count - correction)
                for keep in (False, True):
                    name = f"of {dim} by {correction}{' kept' if keep else ''}"
                    expected = array.var(dim, keepdims=keep) * scale
                    mean = array.mean(dim, keepdims=keep)
                    basis = (
                        lab.parity("The page describes the correction as an integer")
                        if correction == 0.5
                        else contextlib.nullcontext()
                    )
                    with basis:
                        lab.expect(
                            f"var {name}",
                            torch.var(base, dim, correction=correction, keepdim=keep),
                            expected,
                            roundings=16.0,
                        )
                        lab.expect(
                            f"std {name}",
                            torch.std(base, dim, correction=correction, keepdim=keep),
                            numpy.sqrt(expected),
                            roundings=16.0,
                        )
                        result = torch.var_mean(base, dim, correction=correction, keepdim=keep)
                        lab.expect(f"var of var_mean {name}", result[0], expected, roundings=16.0)
                        lab.expect(f"mean of var_mean {name}", result[1], mean, roundings=16.0)
                        result = torch.std_mean(base, dim, correction=correction, keepdim=keep)
                        lab.expect(f"std of std_mean {name}", result[0], numpy.sqrt(expected), roundings=16.0)
                        lab.expect(f"mean of std_mean {name}", result[1], mean, roundings=16.0)


@behaviour(
    "reductions",
    dtypes=WIDE_FLOATS,
    level="core",
    must_detect=("value",),
    page="generated/torch.var.html",
    ground="The value follows from the formula; the tolerance follows from the condition number",
)
def variances_are_stable(lab: Lab) -> None:
    """The variance is accurate for numbers whose mean is much larger than their deviation, and for many
    numbers.
    """
    base = lab.put([65536.0, 65538, 65540, 65542], dtype=lab.dtype)
    expected = to_widest_numpy_array(base).var(ddof=1)
    # The tolerance is proportional to mean / deviation, the condition number of a variance. The mean of
    # squares minus the square of the mean has an error proportional to the square of this ratio, which is too
    # large.
    lab.expect("far from zero", base.var(), expected, roundings=4 * 65539 / expected**0.5)
    lab.expect("in rows", base.repeat(3, 1).var(1), [expected] * 3, roundings=4 * 65539 / expected**0.5)
    lab.expect(
        "in columns", base.repeat(3, 1).t().var(0), [expected] * 3, roundings=4 * 65539 / expected**0.5
    )
    many = lab.put(torch.arange(20000) % 7).to(lab.dtype) + 1000
    expected = to_widest_numpy_array(many).var(ddof=1)
    lab.expect("of many", many.var(), expected, roundings=64 * 1003 / expected**0.5)
    wide = to_widest_numpy_array(many).reshape(1000, 20).std(0, ddof=1)
    lab.expect("std of many columns", many.view(1000, 20).std(0), wide, roundings=64 * 1003 / expected**0.5)
    equal = torch.full((4099,), 0.1, dtype=lab.dtype, device=lab.device).var()
    # The bound allows the error of the mean of 4099 float32 numbers that are added in any order.
    lab.holds("the variance of equal numbers is below 1e-9", 0 <= equal.item() < 1e-9)


@behaviour(
    "reductions",
    dtypes=(*FLOATS, "int64", "int32", "uint8"),
    level="core",
    must_detect=("value",),
    page="generated/torch.median.html",
)
def medians(lab: Lab) -> None:
    """``median`` returns the middle element or, of an even number of elements, the lower middle element.
    Along a dimension, it also returns an index of this element. The median is NaN if any element is NaN or
    the tensor is empty. ``nanmedian`` ignores NaN.
    """
    for shape in ((1,), (6,), (3, 5), (4, 2, 3)):
        base = lab.integers(*shape, low=0, high=50)
        array = to_widest_numpy_array(base)
        middle = numpy.sort(array.ravel())[(array.size - 1) // 2]
        lab.expect(f"of {shape}", (base.median().item(), base.nanmedian().item()), (middle, middle))
        for dim in range(-1, len(shape)):
            result = base.median(dim)
            expected = numpy.sort(array, dim).take((array.shape[dim] - 1) // 2, dim)
            lab.expect(f"of dimension {dim} of {shape}", result.values, expected)
            lab.expect(
                f"its index in {dim} of {shape}",
                base.gather(dim, result.indices.unsqueeze(dim)).squeeze(dim),
                expected,
            )
            with_keepdim = base.nanmedian(dim, True)
            lab.expect(f"kept {dim} of {shape}", with_keepdim.values, numpy.expand_dims(expected, dim))
    turned = lab.integers(4, 5, low=0, high=50).t()
    lab.expect("transposed", turned.median(0).values, numpy.sort(to_widest_numpy_array(turned), 0)[2])
    with lab.parity("No page says that a dimension may be named for a tensor without dimensions"):
        lab.same("of a number", [base[0, 0, 0].median(), base[0, 0, 0].median(0)])
    if lab.dtype.is_floating_point:
        special = lab.put(
            [[1.0, math.nan, 3, 2], [math.inf, 0, -math.inf, 1], [math.nan] * 4], dtype=lab.dtype
        )
        lab.expect("NaN", special.median(1).values, [math.nan, 0, math.nan])
        lab.expect("without NaN", special.nanmedian(1).values, [2.0, 0, math.nan])
        lab.expect("index of the NaN", special[:1].median(1).indices, [1])
        lab.expect("of all", (special.median().isnan().item(), special.nanmedian().item()), (True, 1.0))
        with lab.parity("No page gives the median of no elements"):
            lab.expect("of nothing", special[:0].median(), math.nan)
    with lab.parity("No page says that the call is an error"):
        lab.raises("of no rows", lambda: base[:0].median(0), IndexError, RuntimeError)
    with lab.parity("No page says that a dimension that does not exist is an error"):
        lab.raises("a dimension that does not exist", lambda: base.median(3), IndexError)


@behaviour(
    "reductions",
    dtypes=(*FLOATS, "int64", "int32", "uint8", "bool"),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.mode.html",
)
def modes(lab: Lab) -> None:
    """``mode`` returns an element that occurs most often, and an index at which it occurs. If several
    elements occur equally often, any of them is correct.
    """
    data = [[1, 0, 1, 0, 1], [0, 0, 1, 1, 0], [1, 1, 1, 1, 1]]
    base = lab.put(data, dtype=lab.dtype)
    result = base.mode(1)
    lab.expect("rows", result.values.long(), [1, 0, 1])
    lab.expect("where", base.gather(1, result.indices.unsqueeze(1)).long(), [[1], [0], [1]])
    with_keepdim = base.mode(0, True)
    lab.expect("columns", with_keepdim.values.long(), [[1, 0, 1, 1, 1]])
    lab.expect("transposed", base.t().mode(0).values.long(), [1, 0, 1])
    if lab.dtype != torch.bool:
        wide = lab.integers(3, 400, low=0, high=9)
        array = to_widest_numpy_array(wide)
        highest_counts = [numpy.bincount(row.astype(int)).max() for row in array]
        modes_of_rows = to_widest_numpy_array(wide.mode().values)
        lab.expect(
            "how often of many",
            [(row == v).sum() for row, v in zip(array, modes_of_rows, strict=True)],
            highest_counts,
        )
        for name, row, valid_modes in (
            ("of two", [5, 3, 3, 5, 2], (3, 5)),
            ("each once", [4, 9, 2], (4, 9, 2)),
        ):
            base = lab.put(row, dtype=lab.dtype)
            result = base.mode()
            lab.holds(
                f"the mode {name} is a most frequent element",
                float(result.values) in valid_modes,
                kind=Kind.VALUE,
            )
            index_holds_mode = base[result.indices] == result.values
            lab.holds(f"the index {name} is an index of the mode", index_holds_mode, kind=Kind.VALUE)
        base = lab.put(data, dtype=lab.dtype)
    with lab.parity("No page says that a dimension may be named for a tensor without dimensions"):
        lab.same("of a number", [base[0, 0].mode().values, base[0, 0].mode(0).indices])
    with lab.parity("No page says that the call is an error"):
        lab.raises("of nothing", lambda: base[:, :0].mode(1), IndexError, RuntimeError)
    with lab.parity("No page says that a dimension that does not exist is an error"):
        lab.raises("a dimension that does not exist", lambda: base.mode(2), IndexError)


@behaviour(
    "reductions",
    dtypes=WIDE_FLOATS,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.quantile.html",
)
def quantiles(lab: Lab) -> None:
    """``quantile`` and ``nanquantile`` agree with NumPy for one or several ``q``, every interpolation and
    every dimension. NaN propagates through ``quantile``. ``q`` must be between 0 and 1.
    """
    base = lab.integers(4, 5, 3, low=-20, high=20)
    array = to_widest_numpy_array(base)
    for method in ("linear", "lower", "higher", "midpoint", "nearest"):
        for dim in (None, 0, -1):
            for q in (0.0, 0.25, 0.5, 1.0):
                result = torch.quantile(base, q, dim, interpolation=method)
                lab.expect(
                    f"quantile with q={q}, dim={dim}, interpolation={method}",
                    result,
                    numpy.quantile(array, q, dim, method=method),
                    roundings=2.0,
                )
        lab.expect(
            f"kept by {method}",
            base.quantile(0.75, 1, True, interpolation=method),
            numpy.quantile(array, 0.75, 1, keepdims=True, method=method),
            roundings=2.0,
        )
    several = lab.put([0.0, 0.75, 1.0], dtype=lab.dtype)
    lab.expect(
        "several", torch.quantile(base, several, 1), numpy.quantile(array, [0, 0.75, 1], 1), roundings=2.0
    )
    lab.expect(
        "several of all, kept",
        torch.quantile(base, several, keepdim=True),
        numpy.quantile(array, [0, 0.75, 1], keepdims=True),
        roundings=2.0,
    )
    special = lab.put([[1.0, math.nan, 3], [4, 5, 6]], dtype=lab.dtype)
    lab.expect("NaN", special.quantile(0.5, 1), [math.nan, 5])
    lab.expect("without NaN", special.nanquantile(0.5, 1), [2.0, 5])
    lab.expect(
        "without NaN of all",
        special.nanquantile(several),
        numpy.nanquantile([[1.0, math.nan, 3], [4, 5, 6]], [0, 0.75, 1]),
        roundings=16.0,
    )
    out = torch.empty(0, dtype=lab.dtype, device=lab.device)
    lab.expect("out", torch.quantile(base, 0.5, 0, out=out), numpy.quantile(array, 0.5, 0), roundings=16.0)
    lab.raises("q above 1", lambda: base.quantile(1.5), match="(?i)range|0.*1")
    lab.raises("q of two dimensions", lambda: base.quantile(several.view(1, 3)), match="(?i)scalar or 1D|dim")
    with lab.parity("No page says that the call is an error"):
        lab.raises("integers", lambda: base.long().quantile(0.5), match="(?i)float")
        lab.raises(
            "q of another dtype",
            lambda: base.quantile(several.to(torch.float64 if lab.dtype != torch.float64 else torch.float32)),
            match="(?i)dtype",
        )
        lab.raises("nothing", lambda: base[:0].quantile(0.5), match="(?i)non-empty")
    lab.raises(
        "another interpolation", lambda: base.quantile(0.5, interpolation="cubic"), match="(?i)interpolation"
    )
    lab.raises(
        "quantile into an out= of a wrong dtype",
        lambda: torch.quantile(base, 0.5, out=torch.empty(0, dtype=torch.int64, device=lab.device)),
        match="(?i)dtype",
    )


@behaviour(
    "reductions",
    capabilities=("autograd",),
    level="training",
    must_detect=("value",),
    page="notes/autograd.html",
)
def backward_through_reductions(lab: Lab) -> None:
    """The gradient of ``quantile`` flows to the two neighbouring elements. The gradients of ``median`` and
    ``amax`` flow to the selected elements. The gradient of ``prod`` is correct even if a factor is zero.
    """
    x = lab.put([4.0, 1, 3], requires_grad=True)
    torch.quantile(x, 0.25).backward()
    lab.expect("quantile", x.grad, [0.0, 0.5, 0.5], roundings=4.0)
    x = lab.put([4.0, 1, 3], requires_grad=True)
    x.median().backward()
    lab.expect("median", x.grad, [0.0, 0, 1])
    x = lab.put([4.0, 4, 3], requires_grad=True)
    x.amax().backward()
    lab.expect("amax of two", x.grad, [0.5, 0.5, 0])
    for data, expected in (
        ([2.0, 3, 4], [12.0, 8, 6]),
        ([2.0, 0, 4], [0.0, 8, 0]),
        ([0.0, 0, 4], [0.0, 0, 0]),
    ):
        x = lab.put(data, requires_grad=True)
        x.prod().backward()
        lab.expect(f"prod of {data}", x.grad, expected)
        x = lab.put([data], requires_grad=True)
        x.prod(1).sum().backward()
        lab.expect(f"prod of a row of {data}", x.grad, [expected])
    x = lab.put([1.0, 2, 3, 4], requires_grad=True)
    x.var().backward()
    lab.expect("var", x.grad, numpy.array([-1.0, -1 / 3, 1 / 3, 1]), roundings=8.0)
    x = lab.put([3.0, 4], requires_grad=True)
    x.norm().backward()
    lab.expect("norm", x.grad, numpy.array([0.6, 0.8]), roundings=4.0)
    x = lab.put([0.0, 0], requires_grad=True)
    x.norm().backward()
    lab.expect("norm at zero", x.grad, [0.0, 0])


@behaviour(
    "reductions",
    dtypes=("int64", "int32", "int16", "int8", "uint8"),
    level="core",
    capabilities=("data_dependent_shapes",),
    must_detect=("value", "error"),
    page="generated/torch.bincount.html",
)
def counts_by_value(lab: Lab) -> None:
    """``bincount`` counts how often each integer occurs, or sums the weights of its occurrences. Negative
    integers and tensors of two dimensions raise an error.
    """
    base = lab.put([0, 3, 1, 3, 7, 1, 3], dtype=lab.dtype)
    array = to_widest_numpy_array(base)
    lab.expect("counts", base.bincount(), numpy.bincount(array))
    lab.expect("of at least", torch.bincount(base, minlength=10), numpy.bincount(array, minlength=10))
    weights = lab.put([0.5, 1, 2, 4, 8, 16, 32])
    lab.expect("weights", base.bincount(weights), numpy.bincount(array, to_widest_numpy_array(weights)))
    with lab.parity("No page gives the dtype of sums of weights"):
        lab.expect("weights of float64", base.bincount(weights.double()).dtype, torch.float64)
    lab.expect(
        "integer weights",
        base.bincount(lab.put([1, 2, 3, 4, 5, 6, 7])).float(),  # no page fixes the dtype of the sums
        numpy.bincount(array, [1, 2, 3, 4, 5, 6, 7]),
    )
    lab.expect("with gaps", base[::2].bincount(), numpy.bincount(array[::2]))
    lab.expect(
        "of nothing", [base[:0].bincount().tolist(), base[:0].bincount(minlength=2).tolist()], [[], [0, 0]]
    )
    many = lab.integers(5000, low=0, high=30)
    lab.expect("of many", many.bincount(), numpy.bincount(to_widest_numpy_array(many)))
    lab.raises("two dimensions", lambda: base.view(7, 1).bincount(), match="(?i)1-d")
    lab.raises("floats", lambda: weights.bincount(), RuntimeError)
    lab.raises("weights of another number", lambda: base.bincount(weights[:3]), match="(?i)length|shape|size")
    lab.raises("a negative minlength", lambda: base.bincount(minlength=-1), match="(?i)minlength|negative")
    if lab.dtype.is_signed:
        lab.raises(
            "negative numbers", lambda: lab.put([1, -1], dtype=lab.dtype).bincount(), match="(?i)non-negative"
        )


@behaviour(
    "reductions",
    dtypes=("float32", "float64", "bfloat16"),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.histc.html",
)
def histograms(lab: Lab) -> None:
    """``histc`` counts elements in bins of equal width between two bounds, by default the minimum and maximum
    of the data. It counts elements at the upper bound and ignores elements outside of the bounds.
    """
    base = lab.put([1.0, 2, 1, 4, 4, 0, 3.5, 8], dtype=lab.dtype)
    lab.expect("bounds", torch.histc(base, 4, 0, 4), [1.0, 2, 1, 3])
    lab.expect("default bounds", base.histc(4), [3.0, 2, 2, 1])
    lab.expect("one bin", base.histc(1, 0, 10), [8.0])
    lab.expect("outside", base.histc(3, 10, 40), [0.0, 0, 0])
    with lab.parity("No page gives the bins if all elements are equal"):
        lab.expect("equal elements", torch.ones(5, dtype=lab.dtype, device=lab.device).histc(3), [0.0, 5, 0])
    lab.expect("with gaps", base[::2].histc(2, 0, 4), [2.0, 2])
    lab.expect("of nothing", base[:0].histc(3, 0, 1), [0.0, 0, 0])
    lab.expect("of two dimensions", base.view(2, 4).t().histc(4, 0, 4), [1.0, 2, 1, 3])
    lab.expect("dtype", base.histc(2).dtype, lab.dtype)
    with lab.parity("No page says that the call is an error"):
        lab.raises("no bins", lambda: base.histc(0), match="(?i)bins")
        lab.raises("bounds in the wrong order", lambda: base.histc(4, 5, 1), match="(?i)max|larger|min")
        lab.raises("an infinite bound", lambda: base.histc(4, 0, math.inf), match="(?i)finite")
        lab.raises("infinite elements", lambda: (base / 0).histc(4), match="(?i)finite")
