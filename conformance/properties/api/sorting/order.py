"""Check ``sort``, ``argsort``, ``msort``, ``topk`` and ``kthvalue``."""

from __future__ import annotations

import math

import numpy
import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import tensor_from_array, to_widest_numpy_array

_ORDERED = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8")


def _distinct_values(lab: Lab, *shape: int) -> torch.Tensor:
    """Return distinct whole numbers in random order. For int8, at most 120 numbers are possible."""
    count = math.prod(shape)
    return tensor_from_array(
        lab,
        to_widest_numpy_array(lab.permutation(count)).reshape(shape)
        - (0 if lab.dtype == torch.uint8 else count // 3),
    )


@behaviour("sorting", dtypes=_ORDERED, level="core", must_detect=("value",), page="generated/torch.sort.html")
def sorting_by_dimension(lab: Lab) -> None:
    """``sort`` returns the elements of each row in order, ascending or descending, and their indices in the
    input. This holds along any dimension and for any strides.
    """
    base = _distinct_values(lab, 4, 5, 6)
    array = to_widest_numpy_array(base)
    for dim in (0, 1, 2, -1):
        for descending in (False, True):
            order = numpy.argsort(-array if descending else array, dim)
            result = torch.sort(base, dim, descending)
            name = f"of dimension {dim}{' descending' if descending else ''}"
            lab.expect(f"values {name}", result.values, numpy.take_along_axis(array, order, dim))
            lab.expect(f"indices {name}", result.indices, order)
            lab.expect(f"argsort {name}", base.argsort(dim, descending), order)
    turned = base.permute(2, 0, 1)
    lab.expect("permuted", turned.sort(1).values, numpy.sort(array.transpose(2, 0, 1), 1))
    lab.expect("with gaps", base[:, ::2, 1::2].sort().indices, numpy.argsort(array[:, ::2, 1::2]))
    lab.expect(
        "expanded", base[:1].expand(3, 5, 6).sort(2).values, numpy.repeat(numpy.sort(array[:1], 2), 3, 0)
    )
    lab.expect("msort", torch.msort(base), numpy.sort(array, 0))
    out = (
        torch.empty(0, dtype=lab.dtype, device=lab.device),
        torch.empty(0, dtype=torch.int64, device=lab.device),
    )
    result = torch.sort(base, 1, out=out)
    lab.holds("sort returns out", result[0] is out[0] and result[1] is out[1])
    lab.expect("out", out[0], numpy.sort(array, 1))
    gap = torch.zeros(6, 2, dtype=lab.dtype, device=lab.device)[:, 0]
    index = torch.zeros(6, 2, dtype=torch.int64, device=lab.device)[:, 1]
    torch.sort(base[0, 0], out=(gap, index))
    lab.expect("out with gaps", gap, numpy.sort(array[0, 0]))
    lab.expect("indices out with gaps", index, numpy.argsort(array[0, 0]))
    with lab.parity("No page says that a tensor without dimensions is treated as one-dimensional here"):
        lab.same("no dimensions", base[0, 0, 0].sort())
    lab.same("nothing", [base[:0].sort(0), base[:, :0].sort(1)])


@behaviour("sorting", dtypes=_ORDERED, level="core", must_detect=("value",), page="generated/torch.sort.html")
def stable_sorting(lab: Lab) -> None:
    """With ``stable=True``, equal elements keep their order. This holds ascending and descending, in short
    and in long rows.
    """
    for size in (9, 100, 3000):
        base = lab.integers(3, size, low=0, high=4)
        array = to_widest_numpy_array(base)
        for descending in (False, True):
            order = numpy.argsort(-array if descending else array, 1, kind="stable")
            result = torch.sort(base, dim=1, descending=descending, stable=True)
            name = f"{size}{' descending' if descending else ''}"
            lab.expect(f"indices of {name}", result.indices, order)
            lab.expect(f"values of {name}", result.values, numpy.take_along_axis(array, order, 1))
            lab.expect(
                f"argsort of {name}", torch.argsort(base, dim=1, descending=descending, stable=True), order
            )
    base = lab.integers(40, 7, low=0, high=3).t()
    lab.expect(
        "transposed",
        base.sort(dim=1, stable=True).indices,
        numpy.argsort(to_widest_numpy_array(base), 1, kind="stable"),
    )
    columns = lab.integers(200, 3, low=0, high=3)
    lab.expect(
        "columns",
        columns.sort(dim=0, stable=True).indices,
        numpy.argsort(to_widest_numpy_array(columns), 0, kind="stable"),
    )


@behaviour(
    "sorting", dtypes=("float32", "int64", "int16"), must_detect=("value",), page="generated/torch.sort.html"
)
def sorting_many(lab: Lab) -> None:
    """``sort`` is correct for long rows and for many rows. Without ``stable=True``, the returned indices
    select the sorted values.
    """
    for shape in ((20000,), (600, 70), (3, 9000), (2, 100000)):
        base = lab.integers(*shape, low=-30000, high=30000)
        array = to_widest_numpy_array(base)
        result = base.sort(-1)
        lab.expect(f"values of {shape}", result.values, numpy.sort(array, -1))
        lab.expect(f"values at the indices, {shape}", base.gather(-1, result.indices), numpy.sort(array, -1))
        lab.expect(
            f"each index occurs once, {shape}",
            result.indices.sort(-1).values,
            numpy.sort(numpy.argsort(array, -1), -1),
        )
        down = base.sort(-1, descending=True).values
        lab.expect(f"descending values of {shape}", down, -numpy.sort(-array, -1))


@behaviour(
    "sorting",
    dtypes=("float32", "float64", "float16", "bfloat16"),
    level="core",
    must_detect=("value",),
    page="generated/torch.sort.html",
    basis="parity",
    ground="No page says where NaN is in the order",
)
def sorting_special_values(lab: Lab) -> None:
    """``sort``, ``argsort``, ``topk`` and ``kthvalue`` treat NaN as the largest value. Infinities are the
    smallest and largest other values.
    """
    base = lab.put([1.0, math.nan, -math.inf, math.inf, 0.5, math.nan, -2], dtype=lab.dtype)
    lab.expect("ascending", base.sort().values, [-math.inf, -2, 0.5, 1, math.inf, math.nan, math.nan])
    lab.expect(
        "descending", base.sort(descending=True).values, [math.nan, math.nan, math.inf, 1, 0.5, -2, -math.inf]
    )
    lab.expect("stable indices", base.sort(stable=True).indices, [2, 6, 4, 0, 3, 1, 5])
    lab.expect("topk", base.topk(4).values, [math.nan, math.nan, math.inf, 1])
    lab.expect("smallest", base.topk(3, largest=False).values, [-math.inf, -2, 0.5])
    lab.expect("kthvalue", base.kthvalue(5).values, math.inf)
    lab.expect("kthvalue of NaN", base.kthvalue(7).values, math.nan)
    lab.expect("msort", torch.msort(base)[:2], [-math.inf, -2])
    rows = lab.put([[math.inf, 1.0, math.nan], [-math.inf, math.nan, 2]], dtype=lab.dtype)
    lab.expect("rows", rows.sort(1).values, [[1.0, math.inf, math.nan], [-math.inf, 2, math.nan]])


@behaviour(
    "sorting",
    must_detect=("stride", "value"),
    capabilities=("strides",),
    page="generated/torch.sort.html",
    basis="parity",
    ground="No page says which strides the results of sort have",
)
def sorting_keeps_strides(lab: Lab) -> None:
    """If the memory of the input has no gaps, the results of ``sort`` have the strides of the input."""
    base = lab.put(torch.arange(60.0).flip(0).view(3, 4, 5))
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        permuted = base.permute(order)
        result = permuted.sort(-1)
        lab.same(f"values of {order}", result.values, strides=True)
        lab.same(f"indices of {order}", result.indices, strides=True)
        lab.expect(f"strides of {order}", lab.strides(result.values), lab.strides(permuted))


@behaviour(
    "sorting", dtypes=_ORDERED, level="core", must_detect=("value", "error"), page="generated/torch.topk.html"
)
def largest_and_smallest(lab: Lab) -> None:
    """``topk`` returns the k largest or smallest elements of each row and their indices. They are in order
    unless ``sorted=False``. A k above the size of the row raises an error.
    """
    base = _distinct_values(lab, 4, 5, 6)
    array = to_widest_numpy_array(base)
    for dim in (0, 1, -1):
        size = base.shape[dim]
        for count in (0, 1, 2, size):
            for largest in (True, False):
                order = numpy.argsort(-array if largest else array, dim).take(range(count), dim)
                result = base.topk(count, dim, largest, True)
                name = f"{count} of dimension {dim}, {'largest' if largest else 'smallest'}"
                lab.expect(f"values of {name}", result.values, numpy.take_along_axis(array, order, dim))
                lab.expect(f"indices of {name}", result.indices, order)
    loose = base.topk(3, -1, sorted=False)
    lab.expect("unsorted", loose.values.sort(-1).values, numpy.sort(array, -1)[..., -3:])
    lab.expect(
        "unsorted indices", base.gather(-1, loose.indices) == loose.values, numpy.ones((4, 5, 3), dtype=bool)
    )
    turned = base.permute(2, 1, 0)
    lab.expect("permuted", turned.topk(2, 0).values, -numpy.sort(-array.transpose(2, 1, 0), 0)[:2])
    lab.expect("with gaps", base[..., ::2].topk(2).values, -numpy.sort(-array[..., ::2])[..., :2])
    long = _distinct_values(lab, 110)
    lab.expect("of many", long.topk(20).values, -numpy.sort(-to_widest_numpy_array(long))[:20])
    out = (
        torch.empty(0, dtype=lab.dtype, device=lab.device),
        torch.empty(0, dtype=torch.int64, device=lab.device),
    )
    torch.topk(base, 2, 1, out=out)
    lab.expect("out", out[0], -numpy.sort(-array, 1)[:, :2])
    gap = torch.zeros(3, 2, dtype=lab.dtype, device=lab.device)[:, 0]
    index = torch.zeros(3, 2, dtype=torch.int64, device=lab.device)[:, 0]
    torch.topk(base[0, 0], 3, out=(gap, index))
    lab.expect("out with gaps", gap, -numpy.sort(-array[0, 0])[:3])
    with lab.parity("No page says that a tensor without dimensions is treated as one-dimensional here"):
        lab.same("no dimensions", [base[0, 0, 0].topk(1), base[0, 0, 0].topk(0)])
    with lab.parity("No page says that a k beyond the size is refused"):
        lab.raises("more than there are", lambda: base.topk(7), match="(?i)range|k")
    with lab.parity("No page says that a negative k is refused"):
        lab.raises("fewer than none", lambda: base.topk(-1), match="(?i)range|k")
    with lab.parity("No page says that a dimension out of range is refused"):
        lab.raises("a dimension that does not exist", lambda: base.topk(1, 3), IndexError, match="(?i)dim")
    with lab.parity("No page says that a k beyond the size is refused"):
        lab.raises("two of no dimensions", lambda: base[0, 0, 0].topk(2), match="(?i)range|k")
    with lab.parity("No page says that a k that is a float is refused"):
        lab.raises("k of a float", lambda: torch.topk(base, 1.5), TypeError)  # type: ignore[arg-type]


@behaviour(
    "sorting",
    dtypes=_ORDERED,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.kthvalue.html",
)
def kth_smallest(lab: Lab) -> None:
    """``kthvalue`` returns the k-th smallest element of each row and its index, for k from 1 to the size of
    the row.
    """
    base = _distinct_values(lab, 3, 5, 4)
    array = to_widest_numpy_array(base)
    for dim in (0, 1, -1):
        for k in (1, 2, base.shape[dim]):
            order = numpy.argsort(array, dim).take(k - 1, dim)
            for keep in (False, True):
                result = torch.kthvalue(base, k, dim, keep)
                name = f"{k} of dimension {dim}{' kept' if keep else ''}"
                expected = numpy.sort(array, dim).take(k - 1, dim)
                lab.expect(
                    f"values of {name}", result.values, numpy.expand_dims(expected, dim) if keep else expected
                )
                lab.expect(
                    f"indices of {name}", result.indices, numpy.expand_dims(order, dim) if keep else order
                )
    lab.expect(
        "permuted", base.permute(2, 0, 1).kthvalue(2, 1).values, numpy.sort(array.transpose(2, 0, 1), 1)[:, 1]
    )
    with lab.parity("No page says that a tensor without dimensions is treated as one-dimensional here"):
        lab.same("no dimensions", base[0, 0, 0].kthvalue(1))
    with lab.parity("No page says that a k of 0 is refused"):
        lab.raises("k of 0", lambda: base.kthvalue(0), match="(?i)range|k")
    with lab.parity("No page says that a k beyond the size is refused"):
        lab.raises("k beyond the size", lambda: base.kthvalue(5), match="(?i)range|k")
        lab.raises(
            "k of 2 for a dimensionless tensor", lambda: base[0, 0, 0].kthvalue(2), match="(?i)range|k"
        )
    with lab.parity("No page says that a dimension without elements is refused"):
        lab.raises("of nothing", lambda: base[:, :, :0].kthvalue(1, 2), RuntimeError, IndexError)
    out = (
        torch.empty(0, dtype=lab.dtype, device=lab.device),
        torch.empty(0, dtype=torch.int64, device=lab.device),
    )
    torch.kthvalue(base, 2, out=out)
    lab.expect("out", out[0], numpy.sort(array)[..., 1])


@behaviour(
    "sorting",
    dtypes=("bool",),
    must_detect=("value",),
    page="generated/torch.sort.html",
    ground="The page sorts by value; as numbers, False is 0 and True is 1",
)
def sorting_truth_values(lab: Lab) -> None:
    """``sort`` orders False before True."""
    base = lab.put([[True, False, True], [False, False, True]])
    lab.expect("sort", base.sort(dim=1, stable=True).indices, [[1, 0, 2], [0, 1, 2]])
    lab.expect("descending", base.sort(1, True).values, [[True, True, False], [True, False, False]])
    lab.expect("msort", torch.msort(base), [[False, False, True], [True, False, True]])
    if lab.target.capable("data_dependent_shapes"):
        lab.expect("unique", torch.unique(base), [False, True])


@behaviour(
    "sorting",
    capabilities=("autograd",),
    level="training",
    must_detect=("value",),
    page="generated/torch.Tensor.backward.html",
    ground="The page calls the result the gradient; all selected elements are unique",
)
def backward_through_order(lab: Lab) -> None:
    """Gradients of ``sort``, ``topk``, ``kthvalue``, ``msort``, ``max``, ``min`` and ``median`` flow to the
    selected elements.
    """
    weights = lab.put([1.0, 10, 100])
    programs = {
        "sort": lambda x: x.sort(1).values * weights,
        "sort descending": lambda x: x.sort(1, descending=True).values * weights,
        "topk": lambda x: x.topk(2, 1).values * weights[:2],
        "kthvalue": lambda x: x.kthvalue(2, 1).values,
        "msort": lambda x: torch.msort(x.t()) * weights.view(3, 1),
        "max": lambda x: x.max(1).values,
        "min": lambda x: x.min(0).values,
        "median": lambda x: x.median(1).values,
    }
    expected = {
        "sort": [[10.0, 100, 1], [1, 10, 100]],
        "sort descending": [[10.0, 1, 100], [100, 10, 1]],
        "topk": [[10.0, 1, 0], [0, 10, 1]],
        "kthvalue": [[1.0, 0, 0], [0, 1, 0]],
        "msort": [[10.0, 100, 1], [1, 10, 100]],
        "max": [[0.0, 1, 0], [0, 0, 1]],
        "min": [[0.0, 0, 1], [1, 1, 0]],
        "median": [[1.0, 0, 0], [0, 1, 0]],
    }
    for name, program in programs.items():
        x = lab.put([[2.0, 3, 1], [-1, 0, 5]], requires_grad=True)
        program(x).sum().backward()
        lab.expect(name, x.grad, expected[name])
