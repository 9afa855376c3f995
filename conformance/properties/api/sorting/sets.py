"""Check ``unique``, ``unique_consecutive``, ``isin``, ``searchsorted`` and ``bucketize``."""

from __future__ import annotations

import math

import numpy
import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import expect_error_for_two_devices, to_widest_numpy_array

_NUMBERS = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8")


@behaviour(
    "sorting",
    dtypes=(*_NUMBERS, "bool"),
    level="core",
    capabilities=("data_dependent_shapes",),
    must_detect=("value",),
    page="generated/torch.unique.html",
)
def unique_elements(lab: Lab) -> None:
    """``unique`` returns each distinct element once, in ascending order. It can also return, for each input
    element, its index in the result, and the counts.
    """
    for shape in ((12,), (4, 5), (1,), (0,)):
        base = lab.integers(*shape, low=0, high=5)
        expected, inverse, counts = numpy.unique(
            to_widest_numpy_array(base), return_inverse=True, return_counts=True
        )
        lab.expect(f"of {shape}", torch.unique(base), expected)
        result = torch.unique(base, return_inverse=True, return_counts=True)
        lab.expect(f"values of {shape}", result[0], expected)
        lab.expect(f"inverse of {shape}", result[1], inverse.reshape(shape))
        lab.expect(f"counts of {shape}", result[2], counts)
        lab.expect(f"counts alone of {shape}", base.unique(return_counts=True)[1], counts)
        lab.expect(f"unsorted of {shape}", torch.unique(base, sorted=False).sort().values, expected)
    turned = lab.integers(5, 4, low=0, high=5).t()
    lab.expect("transposed", turned.unique(), numpy.unique(to_widest_numpy_array(turned)))
    many = lab.integers(4000, low=0, high=60)
    lab.expect(
        "many",
        torch.unique(many, return_counts=True)[1],
        numpy.unique(to_widest_numpy_array(many), return_counts=True)[1],
    )


@behaviour(
    "sorting",
    dtypes=("float32", "int64", "uint8", "bool"),
    level="core",
    capabilities=("data_dependent_shapes",),
    must_detect=("value", "error"),
    page="generated/torch.unique.html",
    ground="The page sorts in ascending order; its examples with dim= are in lexicographic order",
)
def unique_rows(lab: Lab) -> None:
    """``unique`` with ``dim=`` returns each distinct slice once, in lexicographic order."""
    base = lab.integers(7, 2, 3, low=0, high=2)
    for dim in (0, 1, 2, -1):
        expected, inverse, counts = numpy.unique(
            to_widest_numpy_array(base), axis=dim, return_inverse=True, return_counts=True
        )
        result = torch.unique(base, dim=dim, return_inverse=True, return_counts=True)
        lab.expect(f"values of dimension {dim}", result[0], expected)
        with lab.parity(
            "The page gives inverse_indices the shape of the input; no page gives one index per slice"
        ):
            lab.expect(f"inverse of dimension {dim}", result[1], inverse.ravel())
        lab.expect(f"counts of dimension {dim}", result[2], counts)
    rows = lab.integers(40, 2, low=0, high=3)
    lab.expect("many rows", torch.unique(rows, dim=0), numpy.unique(to_widest_numpy_array(rows), axis=0))
    lab.same("no rows", torch.unique(base[:0], dim=0))
    with lab.parity("No page says that slices without elements are refused"):
        lab.raises("rows of no elements", lambda: torch.unique(base[:, :, :0], dim=0), match="(?i)zero|0")
    with lab.parity("No page says that a dimension out of range is refused"):
        lab.raises("a dimension that does not exist", lambda: torch.unique(base, dim=3), IndexError)


@behaviour(
    "sorting",
    dtypes=(*_NUMBERS, "bool"),
    level="core",
    capabilities=("data_dependent_shapes",),
    must_detect=("value",),
    page="generated/torch.unique_consecutive.html",
)
def unique_neighbours(lab: Lab) -> None:
    """``unique_consecutive`` removes each element, or slice, that equals its predecessor."""
    for size in (0, 1, 15, 900):
        base = lab.integers(size, low=0, high=2)
        array = to_widest_numpy_array(base)
        starts = numpy.flatnonzero(numpy.concatenate([[True], array[1:] != array[:-1]])[:size])
        result = torch.unique_consecutive(base, return_inverse=True, return_counts=True)
        lab.expect(f"values of {size}", result[0], array[starts])
        lab.expect(
            f"inverse of {size}",
            result[1],
            numpy.repeat(numpy.arange(len(starts)), numpy.diff([*starts, size])),
        )
        lab.expect(
            f"counts of {size}",
            result[2],
            numpy.diff([*starts, size]) if size else numpy.array([], dtype=int),
        )
    rows = lab.put([[1, 0], [1, 0], [0, 1], [1, 0]], dtype=lab.dtype)
    result = torch.unique_consecutive(rows, return_inverse=True, return_counts=True, dim=0)
    lab.expect("rows", result[0].long(), [[1, 0], [0, 1], [1, 0]])
    with lab.parity(
        "The page gives inverse_indices the shape of the input; no page gives one index per slice"
    ):
        lab.expect("inverse of rows", result[1], [0, 0, 1, 2])
    lab.expect("counts of rows", result[2], [2, 1, 1])
    flat = torch.unique_consecutive(rows[:2])
    lab.expect("of two dimensions", flat.long(), [1, 0, 1, 0])


@behaviour(
    "sorting",
    dtypes=("float32", "float64"),
    capabilities=("data_dependent_shapes",),
    must_detect=("value",),
    page="generated/torch.unique.html",
    basis="parity",
    ground="No page says whether two NaN are equal to each other for unique",
)
def unique_special_values(lab: Lab) -> None:
    """``unique`` treats each NaN as a distinct element. Infinities are ordinary values."""
    base = lab.put([math.nan, 1.0, math.inf, math.nan, 1, -math.inf, math.inf], dtype=lab.dtype)
    result = torch.unique(base, return_counts=True)
    lab.expect("values", result[0], [-math.inf, 1, math.inf, math.nan, math.nan])
    lab.expect("counts", result[1], [1, 2, 2, 1, 1])
    lab.expect(
        "neighbours", torch.unique_consecutive(lab.put([1.0, 1, math.nan, math.nan])), [1, math.nan, math.nan]
    )


@behaviour(
    "sorting", dtypes=_NUMBERS, level="core", must_detect=("value", "error"), page="generated/torch.isin.html"
)
def membership(lab: Lab) -> None:
    """``isin`` returns for each element whether it is one of the test elements. With ``invert=True``, it
    returns the negation. The elements or the test elements can be one number, and their dtypes can differ.
    """
    base = lab.integers(4, 6, low=0, high=12)
    array = to_widest_numpy_array(base)
    for count in (0, 1, 3, 90):
        among = lab.integers(count, low=0, high=12)
        for invert in (False, True):
            name = f"among {count}{', inverted' if invert else ''}"
            result = torch.isin(base, among, invert=invert)
            lab.expect(name, result, numpy.isin(array, to_widest_numpy_array(among), invert=invert))
    lab.expect(
        "each once",
        torch.isin(lab.put([1, 2, 3], dtype=lab.dtype), lab.put([3, 5], dtype=lab.dtype), assume_unique=True),
        [False, False, True],
    )
    lab.expect("a number among", torch.isin(3, base), numpy.isin(3, array))
    lab.expect("among a number", torch.isin(base, 3), numpy.isin(array, 3))
    lab.expect("transposed", torch.isin(base.t(), base[:1, ::2]), numpy.isin(array.T, array[:1, ::2]))
    for dtype in (torch.float64, torch.int32):
        among = lab.integers(3, low=0, high=12, dtype=dtype)
        with lab.parity("No page says that the dtypes of elements and test elements can differ"):
            lab.expect(
                f"among {dtype}", torch.isin(base, among), numpy.isin(array, to_widest_numpy_array(among))
            )
    with lab.parity("No page says that complex numbers are refused"):
        lab.raises(
            "complex numbers",
            lambda: torch.isin(base, lab.put([1j])),
            match="(?i)complex|unsupported|not supported|support",
        )
    expect_error_for_two_devices(
        lab, "isin with test elements on the CPU", lambda: torch.isin(base, torch.ones(3, dtype=lab.dtype))
    )


@behaviour(
    "sorting",
    dtypes=_NUMBERS,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.searchsorted.html",
)
def places_in_order(lab: Lab) -> None:
    """``searchsorted`` and ``bucketize`` return the positions at which values can be inserted so that the
    sequence is still sorted, on the left or right of equal elements. The positions are int64 or int32. Both
    accept numbers and any strides. ``searchsorted`` also accepts rows and sorters.
    """
    row = lab.put([1, 3, 3, 5, 9], dtype=lab.dtype)
    queries = lab.put([[0, 1, 3], [4, 9, 10]], dtype=lab.dtype)
    array, query_array = to_widest_numpy_array(row), to_widest_numpy_array(queries)
    for side in ("left", "right"):
        expected = numpy.searchsorted(array, query_array, side)
        lab.expect(f"searchsorted {side}", torch.searchsorted(row, queries, side=side), expected)
        lab.expect(f"bucketize {side}", torch.bucketize(queries, row, right=side == "right"), expected)
        lab.expect(
            f"a number {side}", torch.searchsorted(row, 3, side=side), numpy.searchsorted(array, 3, side)
        )
        lab.expect(
            f"bucketize of a number, {side}",
            torch.bucketize(3, row, right=side == "right"),
            numpy.searchsorted(array, 3, side),
        )
    lab.expect(
        "right=True",
        torch.searchsorted(row, queries, right=True),
        numpy.searchsorted(array, query_array, "right"),
    )
    result = torch.bucketize(queries, row, out_int32=True)
    lab.expect("int32", result, numpy.searchsorted(array, query_array))
    lab.expect("dtype of int32", str(result.dtype), "torch.int32")
    rows = torch.stack([row, row + 1])
    lab.expect(
        "rows",
        torch.searchsorted(rows, queries),
        [numpy.searchsorted(array, query_array[0]), numpy.searchsorted(array + 1, query_array[1])],
    )
    lab.expect(
        "with gaps",
        torch.searchsorted(rows.repeat_interleave(2, 1)[:, ::2], queries.t().contiguous().t()),
        [numpy.searchsorted(array, query_array[0]), numpy.searchsorted(array + 1, query_array[1])],
    )
    order = lab.put([3, 0, 4, 1, 2])
    mixed = torch.empty_like(row).scatter_(0, order, row)
    lab.expect(
        "a sorter", torch.searchsorted(mixed, queries, sorter=order), numpy.searchsorted(array, query_array)
    )
    lab.same("nothing", [torch.bucketize(queries[:0], row), torch.searchsorted(row[:0], queries)])
    out = torch.zeros(2, 3, dtype=torch.int64, device=lab.device)
    torch.bucketize(queries, row, out=out)
    lab.expect("out", out, numpy.searchsorted(array, query_array))
    lab.raises(
        "sides that contradict",
        lambda: torch.searchsorted(row, queries, side="left", right=True),
        match="(?i)side|right",
    )
    with lab.parity("No page says that an unknown side is refused"):
        lab.raises(
            "searchsorted with an unknown side",
            lambda: torch.searchsorted(row, queries, side="up"),
            match="(?i)side",
        )
    with lab.parity("No page says that different numbers of rows are refused"):
        lab.raises(
            "rows of another number",
            lambda: torch.searchsorted(rows, queries[:1].expand(3, 3)),
            match="(?i)dimension|size",
        )
    with lab.parity("The page describes 1-D boundaries, but does not say that other boundaries are refused"):
        lab.raises(
            "buckets of two dimensions", lambda: torch.bucketize(queries, rows), match="(?i)1 dim|dimension"
        )
    lab.raises(
        "searchsorted with a sorter of a wrong size",
        lambda: torch.searchsorted(row, queries, sorter=order[:3]),
        match="(?i)sorter|size",
    )
    # The page notes/out.html says that the dtypes of out= and result must match.
    lab.raises(
        "int32 into int64",
        lambda: torch.bucketize(queries, row, out=out, out_int32=True),
        match="(?i)dtype|int",
    )


@behaviour(
    "sorting",
    dtypes=("float32", "float64"),
    must_detect=("value",),
    page="generated/torch.searchsorted.html",
    ground="The page defines the indices by inequalities, which hold for infinities too",
)
def places_of_special_values(lab: Lab) -> None:
    """``searchsorted`` treats infinities as the smallest and largest numbers, and NaN as larger than all
    numbers.
    """
    row = lab.put([-1.0, 0, math.inf], dtype=lab.dtype)
    queries = lab.put([-math.inf, -1, 5, math.inf, math.nan], dtype=lab.dtype)
    lab.expect("left", torch.searchsorted(row, queries[:4]), [0, 0, 2, 2])
    lab.expect("right", torch.searchsorted(row, queries[:3], right=True), [0, 1, 2])
    with lab.parity("The page says that NaN and infinity without a suitable index give 0, not the size"):
        lab.expect("NaN on the left", torch.searchsorted(row, queries[4:]), [3])
        lab.expect("both on the right", torch.searchsorted(row, queries[3:], right=True), [3, 3])
