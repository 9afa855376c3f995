"""Check ``gather``, ``scatter``, ``scatter_reduce``, ``index_reduce`` and ``segment_reduce``."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy
import torch

from conformance.behaviours.behaviour import ALL, COMPLEX, FLOATS, INTEGERS, behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import Array, tensor_from_array, to_widest_numpy_array

_SHAPE = (4, 5, 3)


def _random_index(lab: Lab, dim: int, count: int, *, unique: bool) -> torch.Tensor:
    """Return random indices along dimension ``dim`` for a tensor of shape (4, 5, 3).

    The index has size ``count`` along ``dim`` and the tensor's sizes along the other dimensions. With
    ``unique``, the index selects no element twice.
    """
    shape = list(_SHAPE)
    shape[dim] = count
    if not unique:
        return lab.integers(*shape, low=0, high=_SHAPE[dim], dtype=torch.int64)
    order = to_widest_numpy_array(lab.permutation(_SHAPE[dim]))[:count]
    view = [1, 1, 1]
    view[dim] = count
    shift = numpy.arange(math.prod(shape)).reshape(shape).sum(dim, keepdims=True)
    return tensor_from_array(lab, (order.reshape(view) + shift) % _SHAPE[dim], torch.int64)


def _scatter_reference(base: Array, dim: int, index: Array, source: Array, fold: Any) -> Array:
    """Return a copy of ``base`` in which each element that ``index`` selects is replaced by ``fold(element,
    source element)``.
    """
    array = base.copy()
    for source_index in numpy.ndindex(index.shape):
        target_index = list(source_index)
        target_index[dim] = index[source_index]
        array[tuple(target_index)] = fold(array[tuple(target_index)], source[source_index])
    return array


@behaviour(
    "scatter", dtypes=ALL, level="core", must_detect=("value", "error"), page="generated/torch.gather.html"
)
def gathering(lab: Lab) -> None:
    """``gather`` reads elements along a dimension at the positions that an index contains. The index may have
    any strides and may be expanded. It must be an integer tensor with the input's number of dimensions, and
    must not be larger than the input in the other dimensions.
    """
    base = lab.integers(*_SHAPE, low=0, high=9)
    array = to_widest_numpy_array(base)
    for dim in (0, 1, 2, -1):
        index = _random_index(lab, dim % 3, 2, unique=False)
        expected = numpy.take_along_axis(array, to_widest_numpy_array(index), dim)
        lab.expect(f"dimension {dim}", base.gather(dim, index), expected)
        lab.expect(f"again in dimension {dim}", torch.gather(base, dim, index), expected)
        part = index[:2, :2, :2]
        trimmed = array[tuple(slice(None) if d == dim % 3 else slice(part.shape[d]) for d in range(3))]
        lab.expect(
            f"gather with a smaller index, dimension {dim}",
            base.gather(dim, part),
            numpy.take_along_axis(trimmed, to_widest_numpy_array(part), dim),
        )
        turned = base.permute(2, 1, 0).contiguous().permute(2, 1, 0)
        lab.expect(f"permuted in dimension {dim}", turned.gather(dim, index), expected)
    row = lab.put([4, 0, 2])
    lab.expect("expanded index", base.gather(1, row.view(1, 3, 1).expand(4, 3, 3)), array[:, [4, 0, 2]])
    lab.expect(
        "an index expanded along the other dimensions",
        base.gather(0, row[1:].view(2, 1, 1).expand(2, 5, 3)),
        array[[0, 2]],
    )
    wide = lab.integers(6, 70, low=0, high=9)
    columns = lab.integers(40, low=0, high=70, dtype=torch.int64)
    lab.expect(
        "many columns",
        wide.gather(1, columns.expand(6, 40)),
        to_widest_numpy_array(wide)[:, to_widest_numpy_array(columns)],
    )
    lab.expect(
        "at an offset",
        wide[:, 1:].gather(1, columns[:5].clamp(max=68).expand(6, 5)),
        to_widest_numpy_array(wide)[:, 1:][:, to_widest_numpy_array(columns[:5]).clip(max=68)],
    )
    lab.same("nothing", base.gather(0, lab.put([], dtype=torch.int64).view(0, 5, 3)))
    with lab.parity("No page says that a dimension may be named for a tensor without dimensions"):
        lab.same("no dimensions", base[0, 0, 0].gather(0, lab.put(0)))
    index = _random_index(lab, 0, 2, unique=False)
    out = torch.empty(0, dtype=lab.dtype, device=lab.device)
    lab.holds("gather returns out", torch.gather(base, 0, index, out=out) is out)
    lab.expect("out", out, numpy.take_along_axis(array, to_widest_numpy_array(index), 0))
    lab.raises("an index of floats", lambda: base.gather(0, index.double()), match="(?i)int")
    lab.raises("an index of fewer dimensions", lambda: base.gather(0, index[0]), match="(?i)dimension")
    lab.raises("an index that is too large", lambda: base[:, :3].gather(0, index), match="(?i)size")
    with lab.parity("No page says that a dimension that does not exist is an error"):
        lab.raises("a dimension that does not exist", lambda: base.gather(3, index), IndexError)


@behaviour("scatter", dtypes=ALL, level="core", must_detect=("value", "error"))
def scattering(lab: Lab) -> None:
    """``scatter`` writes a source or a number at the positions that an index contains, out of place and in
    place. Other elements do not change. The source may be larger than the index.
    """
    base = lab.integers(*_SHAPE, low=0, high=9)
    array = to_widest_numpy_array(base)
    for dim in (0, 1, 2, -1):
        index = _random_index(lab, dim % 3, 2, unique=True)
        source = lab.integers(5, 6, 4, low=0, high=9)
        expected = _scatter_reference(
            array, dim, to_widest_numpy_array(index), to_widest_numpy_array(source), lambda old, new: new
        )
        lab.expect(f"scatter of a source, dimension {dim}", base.scatter(dim, index, source), expected)
        copy = base.clone()
        lab.holds("scatter_ returns its input", copy.scatter_(dim, index, source) is copy)
        lab.expect(f"scatter_ in place, dimension {dim}", copy, expected)
        turned = base.permute(1, 2, 0).contiguous().permute(2, 0, 1)
        lab.expect(f"permuted in dimension {dim}", turned.scatter_(dim, index, source), expected)
        numbers = _scatter_reference(
            array, dim, to_widest_numpy_array(index), numpy.ones(index.shape), lambda old, new: new
        )
        lab.expect(f"scatter of a number, dimension {dim}", base.scatter(dim, index, 1), numbers)
    lab.same("nothing", base.scatter(0, lab.put([], dtype=torch.int64), source))
    with lab.parity("No page says that a dimension may be named for a tensor without dimensions"):
        lab.same("no dimensions", base[0, 0, 0].scatter(0, lab.put(0), source[0, 0, 0]))
    lab.expect("base", base, array)
    lab.raises("an index of floats", lambda: base.scatter(0, index.double(), 1), match="(?i)int")
    with lab.parity("No page says that the call is an error"):
        lab.raises(
            "a source of another dtype",
            lambda: base.scatter(
                0, index, source.to(torch.float64 if lab.dtype != torch.float64 else torch.float32)
            ),
            match="(?i)dtype|type",
        )
    lab.raises(
        "a source that is too small", lambda: base.scatter(0, index, source[:1, :1]), match="(?i)size|shape"
    )
    with lab.parity("The page of scatter_ says that the index broadcasts, except on NPUs"):
        lab.raises(
            "an index of fewer dimensions", lambda: base.scatter(0, index[0], source), match="(?i)dimension"
        )


@behaviour(
    "scatter",
    dtypes=(*FLOATS, *INTEGERS, *COMPLEX),
    level="core",
    must_detect=("value",),
    page="generated/torch.Tensor.scatter_add_.html",
)
def adding_by_scatter(lab: Lab) -> None:
    """``scatter_add``, and ``scatter`` with ``reduce="add"``, add all source elements of a position.
    ``scatter`` with ``reduce="multiply"`` multiplies them. With an expanded index, ``scatter_add`` adds rows.
    """
    base = lab.integers(*_SHAPE, low=0, high=3)
    array = to_widest_numpy_array(base)
    for dim in (0, 1, -1):
        index = _random_index(lab, dim % 3, 2, unique=False)
        source = lab.integers(*_SHAPE, low=0, high=3)
        expected = _scatter_reference(
            array,
            dim,
            to_widest_numpy_array(index),
            to_widest_numpy_array(source),
            lambda old, new: old + new,
        )
        lab.expect(f"scatter_add of dimension {dim}", base.scatter_add(dim, index, source), expected)
        lab.expect(
            f"scatter_add_ in place, dimension {dim}", base.clone().scatter_add_(dim, index, source), expected
        )
        lab.expect(
            f"scatter with reduce=add, dimension {dim}",
            base.scatter(dim, index, source, reduce="add"),
            expected,
        )
    index = _random_index(lab, 1, 2, unique=True)
    expected = _scatter_reference(
        array, 1, to_widest_numpy_array(index), to_widest_numpy_array(source), lambda old, new: old * new
    )
    if not lab.dtype.is_complex:
        lab.expect("scatter that multiplies", base.scatter(1, index, source, reduce="multiply"), expected)
        lab.expect(
            "by a number",
            base.scatter(1, index, 2, reduce="multiply"),
            _scatter_reference(
                array,
                1,
                to_widest_numpy_array(index),
                to_widest_numpy_array(source),
                lambda old, new: 2 * old,
            ),
        )
    lab.expect(
        "adding a number",
        base.scatter(1, index, 2, reduce="add"),
        _scatter_reference(
            array, 1, to_widest_numpy_array(index), to_widest_numpy_array(source), lambda old, new: old + 2
        ),
    )
    zeros = torch.zeros(30, 40, dtype=lab.dtype, device=lab.device)
    nowhere = torch.zeros(30, 40, dtype=torch.int64, device=lab.device)
    ones = torch.ones(30, 40, dtype=lab.dtype, device=lab.device)
    lab.expect(
        "scatter_add of all elements to the first row",
        zeros.scatter_add(0, nowhere, ones)[:2],
        [[30] * 40, [0] * 40],
    )
    lab.expect(
        "scatter_add of all elements to the first column",
        zeros.scatter_add(1, nowhere, ones)[:, :2],
        [[40, 0]] * 30,
    )
    rows = lab.integers(20, low=0, high=4, dtype=torch.int64)
    source = lab.integers(20, 5, low=0, high=3)
    expected = _scatter_reference(
        to_widest_numpy_array(zeros[:4, :5]),
        0,
        to_widest_numpy_array(rows.view(20, 1).expand(20, 5)),
        to_widest_numpy_array(source),
        lambda old, new: old + new,
    )
    for form, index in {
        "expanded": rows.view(20, 1).expand(20, 5),
        "contiguous": rows.view(20, 1).expand(20, 5).contiguous(),
    }.items():
        lab.expect(
            f"adding rows by an {form} index",
            zeros[:4, :5].contiguous().scatter_add(0, index, source),
            expected,
        )
        lab.expect(
            f"adding rows to a strided tensor by an {form} index",
            zeros[:4, :5].scatter_add(0, index, source),
            expected,
        )
    lab.same("nothing", base.scatter_add(0, lab.put([], dtype=torch.int64), source))


_FOLDS: dict[str, Any] = {
    "sum": lambda old, new: old + new,
    "prod": lambda old, new: old * new,
    "amax": max,
    "amin": min,
}


@behaviour(
    "scatter",
    dtypes=(*FLOATS, "int32", "int64", "int16"),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.Tensor.scatter_reduce_.html",
)
def reducing_by_scatter(lab: Lab) -> None:
    """``scatter_reduce`` and ``index_reduce`` combine the source elements of a position by ``sum``, ``prod``,
    ``amax``, ``amin`` or ``mean``. ``include_self`` selects whether the previous element is included.
    Positions without source elements do not change.
    """
    base = lab.integers(*_SHAPE, low=1, high=4)
    array = to_widest_numpy_array(base)
    for dim in (0, 1):
        index = _random_index(lab, dim, 3, unique=False)
        source = lab.integers(*_SHAPE, low=1, high=3)
        counts = _scatter_reference(
            numpy.zeros(_SHAPE),
            dim,
            to_widest_numpy_array(index),
            numpy.ones(_SHAPE),
            lambda old, new: old + new,
        )
        for name, fold in _FOLDS.items():
            expected = _scatter_reference(
                array, dim, to_widest_numpy_array(index), to_widest_numpy_array(source), fold
            )
            lab.expect(f"{name} of dimension {dim}", base.scatter_reduce(dim, index, source, name), expected)
            start = {"sum": 0, "prod": 1, "amax": -99, "amin": 99}[name]
            without_self = _scatter_reference(
                numpy.where(counts > 0, start, array),
                dim,
                to_widest_numpy_array(index),
                to_widest_numpy_array(source),
                fold,
            )
            lab.expect(
                f"{name} with include_self=False, dimension {dim}",
                base.scatter_reduce(dim, index, source, name, include_self=False),
                without_self,
            )
        for include_self in (True, False):
            sums = _scatter_reference(
                array if include_self else numpy.where(counts > 0, 0, array),
                dim,
                to_widest_numpy_array(index),
                to_widest_numpy_array(source),
                _FOLDS["sum"],
            )
            divisor = numpy.maximum(counts + include_self, 1)
            expected = sums / divisor if lab.dtype.is_floating_point else numpy.floor_divide(sums, divisor)
            basis = (
                contextlib.nullcontext()
                if lab.dtype.is_floating_point
                else lab.parity("No page says how a mean of integers is rounded")
            )
            with basis:
                result = base.scatter_reduce(dim, index, source, "mean", include_self=include_self)
                lab.expect(
                    f"mean of dimension {dim}, include_self={include_self}",
                    result,
                    expected.astype(float),
                    roundings=2.0,
                )
    positions, rows = lab.put([2, 0, 2]), lab.integers(3, 5, 3, low=1, high=3)
    for name, fold in _FOLDS.items():
        if name == "sum":
            continue
        expected = array.copy()
        for position, row in zip([2, 0, 2], to_widest_numpy_array(rows), strict=True):
            expected[position] = numpy.vectorize(fold)(expected[position], row)
        basis = (
            contextlib.nullcontext()
            if lab.dtype.is_floating_point
            else lab.parity("The page of index_reduce_ supports only floating-point tensors")
        )
        with basis:
            lab.expect(f"index_reduce by {name}", base.index_reduce(0, positions, rows, name), expected)
    lab.raises(
        "another reduction",
        lambda: base.scatter_reduce(0, index, source, "median"),
        match="(?i)reduce|median",
    )


@behaviour(
    "scatter",
    dtypes=FLOATS,
    level="core",
    must_detect=("value",),
    page="generated/torch.Tensor.scatter_reduce_.html",
    basis="parity",
    ground="No page says how the reductions treat NaN",
)
def reducing_special_values_by_scatter(lab: Lab) -> None:
    """In ``scatter_reduce``, NaN and infinities propagate through ``amax``, ``amin`` and ``sum``."""
    source = lab.put([1.0, math.nan, -math.inf, -math.inf, 2, math.inf], dtype=lab.dtype)
    index = lab.put([0, 0, 1, 1, 2, 2])
    zeros = torch.zeros(3, dtype=lab.dtype, device=lab.device)
    lab.expect("amax", zeros.scatter_reduce(0, index, source, "amax"), [math.nan, 0, math.inf])
    lab.expect(
        "amax alone",
        zeros.scatter_reduce(0, index, source, "amax", include_self=False),
        [math.nan, -math.inf, math.inf],
    )
    lab.expect("amin", zeros.scatter_reduce(0, index, source, "amin"), [math.nan, -math.inf, 0])
    lab.expect(
        "amin alone",
        zeros.scatter_reduce(0, index, source, "amin", include_self=False),
        [math.nan, -math.inf, 2],
    )
    with lab.documented():
        lab.expect("sum", zeros.scatter_reduce(0, index, source, "sum"), [math.nan, -math.inf, math.inf])
        lab.expect("amax of infinities", zeros.scatter_reduce(0, index, source, "amax")[1:], [0, math.inf])
        lab.expect(
            "amax of infinities alone",
            zeros.scatter_reduce(0, index, source, "amax", include_self=False)[1:],
            [-math.inf, math.inf],
        )
        lab.expect("amin of infinities", zeros.scatter_reduce(0, index, source, "amin")[1:], [-math.inf, 0])
        lab.expect(
            "amin of infinities alone",
            zeros.scatter_reduce(0, index, source, "amin", include_self=False)[1:],
            [-math.inf, 2],
        )


@behaviour(
    "scatter",
    capabilities=("autograd",),
    level="training",
    must_detect=("value",),
    page="generated/torch.gather.html",
    ground="Gradients follow from the definitions; the page of scatter_ names the supported shapes",
)
def backward_through_scatter(lab: Lab) -> None:
    """The gradient of ``gather`` flows to the elements that were read, also if the index is empty. The
    gradients of ``scatter`` and ``scatter_add`` flow to the written elements and to the elements that did not
    change.
    """
    x = lab.integers(3, 2).requires_grad_()
    x.gather(0, lab.put([[0, 2], [0, 1]])).sum().backward()
    lab.expect("gather", x.grad, [[2.0, 0], [0, 1], [0, 1]])
    for sparse in (False, True):
        x = lab.integers(3, 2).requires_grad_()
        torch.gather(
            x,
            -1,
            torch.empty(2, 0, dtype=torch.int64, device=lab.device),
            sparse_grad=sparse and lab.target.capable("sparse"),
        ).sum().backward()
        grad = x.grad.to_dense() if x.grad is not None and x.grad.is_sparse else x.grad
        lab.expect(f"gather of nothing {sparse}", grad, [[0.0, 0]] * 3)
    x, y = lab.integers(3, 2).requires_grad_(), lab.integers(2, 2).requires_grad_()
    index = lab.put([[0, 2], [1, 1]])
    (x.scatter(0, index, y) * lab.put([[1.0, 2], [3, 4], [5, 6]])).sum().backward()
    lab.expect("what scatter kept", x.grad, [[0.0, 2], [0, 0], [5, 0]])
    lab.expect("what scatter wrote", y.grad, [[1.0, 6], [3, 4]])
    x, y = lab.integers(3, 2).requires_grad_(), lab.integers(2, 2).requires_grad_()
    (x.scatter_add(0, lab.put([[0, 2], [0, 2]]), y) * lab.put([[1.0, 2], [3, 4], [5, 6]])).sum().backward()
    lab.expect(
        "scatter_add",
        [x.grad.tolist(), y.grad.tolist()],  # type: ignore[union-attr]
        [[[1.0, 2], [3, 4], [5, 6]], [[1.0, 6], [1, 6]]],
    )
    x, y = lab.put([1.0, 5], requires_grad=True), lab.put([3.0, 2, 4], requires_grad=True)
    (x.scatter_reduce(0, lab.put([0, 0, 1]), y, "amax") * lab.put([10.0, 100])).sum().backward()
    lab.expect("amax", [x.grad.tolist(), y.grad.tolist()], [[0.0, 100], [10.0, 0, 0]])  # type: ignore[union-attr]


@behaviour(
    "scatter",
    capabilities=("deterministic",),
    must_detect=("value",),
    page="generated/torch.use_deterministic_algorithms.html",
)
def scattering_deterministically(lab: Lab) -> None:
    """With ``torch.use_deterministic_algorithms``, ``scatter`` and ``scatter_add`` are correct. Two equal
    calls of ``scatter_add`` return the same values, also if the sums are rounded.
    """
    before = torch.are_deterministic_algorithms_enabled()
    warn = torch.is_deterministic_algorithms_warn_only_enabled()
    base = lab.integers(3, 4, 5)
    rows = lab.integers(10, low=0, high=3, dtype=torch.int64).view(10, 1, 1).expand(10, 4, 5)
    source = lab.integers(10, 4, 5)
    expected = _scatter_reference(
        to_widest_numpy_array(base),
        0,
        to_widest_numpy_array(rows),
        to_widest_numpy_array(source),
        _FOLDS["sum"],
    )
    fractions = lab.floats(4000)
    places = lab.integers(4000, low=0, high=3, dtype=torch.int64)
    try:
        torch.use_deterministic_algorithms(True)
        sums = [torch.zeros(3, device=lab.device).scatter_add(0, places, fractions) for _ in range(4)]
        lab.holds(
            "equal calls return the same rounded sums", all(torch.equal(sums[0], other) for other in sums[1:])
        )
        for attempt in range(2):
            lab.expect(f"scatter_add {attempt}", base.scatter_add(0, rows, source), expected)
            lab.expect(
                f"one dimension {attempt}",
                base[0, 0].scatter_add(0, lab.put([1, 1, 0]), lab.put([1.0, 2, 3])),
                to_widest_numpy_array(base[0, 0]) + numpy.array([3, 3, 0, 0, 0]),
            )
            unique = lab.put([[2, 0, 1, 2, 0]])
            lab.expect(
                f"scatter {attempt}",
                base[:, 0].scatter(0, unique, source[:1, 0]),
                _scatter_reference(
                    to_widest_numpy_array(base[:, 0]),
                    0,
                    to_widest_numpy_array(unique),
                    to_widest_numpy_array(source[:1, 0]),
                    lambda old, new: new,
                ),
            )
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn)


@behaviour(
    "scatter",
    dtypes=FLOATS,
    capabilities=("autograd",),
    must_detect=("value", "error"),
    page="generated/torch.segment_reduce.html",
    ground="The page names the reductions, lengths and initial value",
)
def reducing_segments(lab: Lab) -> None:
    """``segment_reduce`` reduces consecutive segments of given lengths by ``sum``, ``mean``, ``max``, ``min``
    or ``prod``, from an initial value or the identity. NaN propagates. Gradients flow to the elements that
    determine the result.
    """
    data = [[1.0, 8], [math.nan, 2], [3, 1], [4, 4], [5, 2], [5, 2]]
    lengths = [1, 2, 0, 3]
    expected_by_reduction: dict[str, list[list[float]]] = {
        "sum": [[1.0, 8], [math.nan, 3], [0, 0], [14, 8]],
        "max": [[1.0, 8], [math.nan, 2], [-math.inf, -math.inf], [5, 4]],
        "min": [[1.0, 8], [math.nan, 1], [math.inf, math.inf], [4, 2]],
        "prod": [[1.0, 8], [math.nan, 2], [1, 1], [100, 16]],
        "mean": [[1.0, 8], [math.nan, 1.5], [math.nan, math.nan], [14 / 3, 8 / 3]],
    }
    initial_values = {"sum": 1.0, "max": 6.0, "min": 0.5, "prod": 2.0}
    for reduce, expected in expected_by_reduction.items():
        for kind in (torch.int32, torch.int64):
            for unsafe in (False, True):
                result = torch.segment_reduce(
                    lab.put(data, dtype=lab.dtype),
                    reduce,
                    lengths=lab.put(lengths, dtype=kind),
                    unsafe=unsafe,
                )
                name = f"{reduce} by {kind}{' unsafe' if unsafe else ''}"
                lab.expect(name, result[[0, 3]], numpy.array(expected)[[0, 3]], roundings=4.0)
                with lab.parity("The page names neither NaN nor empty segments"):
                    lab.expect(f"{name} of NaN", result[1], numpy.array(expected[1]))
                    lab.expect(f"{name} of nothing", result[2], numpy.array(expected[2]))
        if reduce in initial_values:
            column = lab.put([2.0, 3, 4, 1], dtype=lab.dtype, requires_grad=True)
            result = torch.segment_reduce(
                column, reduce, lengths=lab.put([2, 0, 2]), initial=initial_values[reduce]
            )
            expected_result = {
                "sum": [6.0, 1, 6],
                "max": [6.0, 6, 6],
                "min": [0.5, 0.5, 0.5],
                "prod": [12.0, 2, 8],
            }[reduce]
            lab.expect(f"{reduce} from {initial_values[reduce]}", result, expected_result)
    for reduce, gradient in {
        "sum": [1.0, 1, 1, 1],
        "mean": [0.5, 0.5, 0.5, 0.5],
        "max": [0.0, 1, 1, 0],
        "min": [1.0, 0, 0, 1],
        "prod": [3.0, 2, 1, 4],
    }.items():
        column = lab.put([2.0, 3, 4, 1], dtype=lab.dtype, requires_grad=True)
        torch.segment_reduce(column, reduce, lengths=lab.put([2, 2])).sum().backward()
        lab.expect(f"gradient of {reduce}", column.grad, gradient)
    deep = lab.integers(5, 2, 3, low=0, high=5)
    result = torch.segment_reduce(deep, "sum", lengths=lab.put([0, 2, 3, 0]))
    array = to_widest_numpy_array(deep)
    lab.expect(
        "three dimensions",
        result,
        numpy.stack([0 * array[0], array[:2].sum(0), array[2:].sum(0), 0 * array[0]]),
    )
    with lab.parity("No page says that the call is an error"):
        lab.raises(
            "lengths of another sum", lambda: torch.segment_reduce(deep, "sum", lengths=lab.put([1, 1]))
        )
    lab.raises("another reduction", lambda: torch.segment_reduce(deep, "median", lengths=lab.put([5])))
    with lab.parity("No page says that the call is an error"):
        lab.raises("no lengths", lambda: torch.segment_reduce(deep, "sum"))
