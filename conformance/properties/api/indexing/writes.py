"""Behaviours of writing by index: assignment, ``index_put_``, ``index_add_`` and related functions."""

from __future__ import annotations

from typing import Any

import numpy
import torch

from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import expect_error_for_two_devices, to_widest_numpy_array
from conformance.properties.api.indexing.reads import (
    ADVANCED,
    BASIC,
    convert_lists_to_arrays,
    convert_lists_to_tensors,
    target_supports_index,
)


def _writes_each_element_once(index: Any) -> bool:
    """Return whether an assignment to the index writes no element twice, so that the order of writes does not
    matter.
    """
    elements = numpy.arange(60).reshape(4, 3, 5)[convert_lists_to_arrays(index)].ravel()
    return len(set(elements.tolist())) == len(elements)


@behaviour(
    "indexing",
    dtypes=ALL,
    level="core",
    must_detect=("value",),
    page="tensor_view.html",
    ground="The page says that assignment follows NumPy",
)
def assignment_to_indices(lab: Lab) -> None:
    """Assignment to an index writes a number, a tensor of the same shape or a tensor that broadcasts to the
    selected elements. Other elements do not change.
    """
    for index in (*BASIC, *ADVANCED):
        if not _writes_each_element_once(index) or not target_supports_index(lab, index):
            continue
        tensor_index, array_index = convert_lists_to_tensors(lab, index), convert_lists_to_arrays(index)
        base = lab.integers(4, 3, 5, low=0, high=6)
        array = to_widest_numpy_array(base)
        shape = array[array_index].shape
        base[tensor_index] = 1
        array[array_index] = 1
        lab.expect(f"[{index}] = 1", base, array)
        source = lab.integers(*shape, low=0, high=6)
        base[tensor_index] = source
        array[array_index] = to_widest_numpy_array(source)
        lab.expect(f"[{index}] = a tensor", base, array)
        if shape:
            row = lab.integers(*shape[-1:], low=0, high=6)
            base[tensor_index] = row
            array[array_index] = to_widest_numpy_array(row)
            lab.expect(f"[{index}] = a row", base, array)


@behaviour(
    "indexing",
    dtypes=("float32", "int64", "bool"),
    level="core",
    must_detect=("value", "error"),
    page="tensor_view.html",
    ground="The NumPy page demands values that broadcast to the selected shape",
)
def what_may_be_assigned(lab: Lab) -> None:
    """A dimensionless tensor, a number, a boolean, and a tensor with additional leading dimensions of size 1
    can be assigned. If the values do not broadcast, the assignment raises an error and writes nothing.
    """
    base = lab.integers(4, 3)
    base[0, 0] = lab.put(1).to(lab.dtype)
    base[1] = torch.ones((), dtype=lab.dtype, device=lab.device)
    base[..., 1] = True
    lab.same("after numbers", base)
    with lab.parity("No page says that additional leading dimensions of size 1 are accepted"):
        base[2] = lab.integers(1, 1, 3)
        base[3:, :] = lab.integers(1, 1, 1, 3)
        lab.same("after leading dimensions of size 1", base)
    number = lab.put(0, dtype=lab.dtype)
    number[()] = 1
    lab.expect("a number", number, 1)
    number[...] = 0
    lab.expect("a dimensionless tensor after writing to [...]", number, 0)
    base = lab.integers(4, 3)
    base[lab.put(1)] = 1
    base[lab.put(2), lab.put(0)] = lab.put(0).to(lab.dtype)
    base[None, 0] = 1
    lab.same("after writes by dimensionless indices and None", base)
    with lab.parity("The NumPy page does not say what an index of True or False selects"):
        number[True] = 1
        lab.expect("a number by True", number, 1)
        number[False] = 0
        lab.expect("a number by False", number, 1)
        base[False] = 1
        lab.same("by False", base)
        base[True] = lab.integers(4, 3)
        lab.same("by True", base)
    before = to_widest_numpy_array(base)
    lab.raises("a row of 2", lambda: base.__setitem__(0, lab.integers(2)), match="(?i)expand|match|shape")
    lab.raises(
        "two rows into three",
        lambda: base.__setitem__(_first_rows(3), lab.integers(2, 3)),
        match="(?i)expand|match|shape",
    )
    if lab.target.capable("data_dependent_shapes"):
        lab.raises(
            "a mask with a wrong number of values",
            lambda: base.__setitem__(base == base, lab.integers(5)),
            RuntimeError,
            IndexError,
            match="(?i)shape|match|broadcast",
        )
    lab.raises(
        "values with too many dimensions",
        lambda: base.__setitem__(0, lab.integers(2, 3)),
        match="(?i)expand|match|shape|size",
    )
    with lab.consistent("A tensor must be equal before and after a failed assignment"):
        lab.expect("base after errors", base, before)


def _first_rows(count: int) -> slice:
    return slice(0, count)


@behaviour(
    "indexing",
    dtypes=("float32", "float64", "int64", "int32", "bool"),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.Tensor.index_put_.html",
)
def index_put_sets_and_adds(lab: Lab) -> None:
    """``index_put_`` writes values. With ``accumulate``, it adds the values to the elements, also if an index
    repeats. Values may broadcast, be expanded or have gaps. Indices may be omitted or have several
    dimensions.
    """
    rows, columns = lab.put([0, 2, 2, 3]), lab.put([1, 0, 0, 2])
    source = lab.integers(4, low=1)
    base = lab.integers(4, 3, low=0, high=2)
    array = to_widest_numpy_array(base)
    numpy.add.at(
        array, (to_widest_numpy_array(rows), to_widest_numpy_array(columns)), to_widest_numpy_array(source)
    )
    lab.expect("accumulate", base.index_put((rows, columns), source, accumulate=True), array)
    copy = base.clone()
    lab.holds(
        "index_put_ returns its input", copy.index_put_((rows, columns), source, accumulate=True) is copy
    )
    lab.expect("accumulate in place", copy, array)
    array = to_widest_numpy_array(base)
    numpy.add.at(array, to_widest_numpy_array(rows), to_widest_numpy_array(source)[:, None])
    lab.expect(
        "rows of expanded values", base.index_put((rows,), source.view(4, 1).expand(4, 3), True), array
    )
    array = to_widest_numpy_array(base)
    numpy.add.at(array, (slice(None), to_widest_numpy_array(columns)), to_widest_numpy_array(source)[None])  # type: ignore[arg-type]
    with lab.parity("The page describes the indices as tensors; it does not mention None"):
        lab.expect(
            "no index for rows",
            torch.ops.aten.index_put(base, [None, columns], source.expand(4, 4), True),
            array,
        )
    gapped = lab.integers(8, 6, low=0, high=2)[::2, ::2]
    array = to_widest_numpy_array(gapped)
    numpy.add.at(
        array, (to_widest_numpy_array(rows), to_widest_numpy_array(columns)), to_widest_numpy_array(source)
    )
    lab.expect("into gaps", gapped.index_put_((rows, columns), source, True), array)
    wide = lab.integers(8, low=1)[::2]
    array = to_widest_numpy_array(base)
    numpy.add.at(
        array, (to_widest_numpy_array(rows), to_widest_numpy_array(columns)), to_widest_numpy_array(wide)
    )
    lab.expect("values with gaps", base.index_put((rows, columns), wide, True), array)
    lab.expect(
        "a number of times",
        torch.zeros(3, dtype=lab.dtype, device=lab.device).index_put_(
            (torch.ones(50, dtype=torch.int64, device=lab.device),),
            torch.ones((), dtype=lab.dtype, device=lab.device),
            True,
        ),
        [0, 1 if lab.dtype == torch.bool else 50, 0],
    )
    empty = lab.put([], dtype=torch.int64)
    lab.expect(
        "nothing",
        base.index_put((empty,), source[:0].view(0, 1).expand(0, 3), True),
        to_widest_numpy_array(base),
    )
    if lab.target.capable("data_dependent_shapes"):
        mask = lab.put([True, False, True, False])
        array = to_widest_numpy_array(base)
        array[to_widest_numpy_array(mask)] = to_widest_numpy_array(source)[:2, None]
        lab.expect("a mask", base.index_put((mask,), source[:2].view(2, 1)), array)
    square = lab.put([[0, 1], [2, 3]])
    array = to_widest_numpy_array(base)
    array[to_widest_numpy_array(square), 0] = to_widest_numpy_array(source).reshape(2, 2)
    lab.expect("two dimensions of indices", base.index_put((square, lab.put(0)), source.view(2, 2)), array)
    other_dtype = torch.float64 if lab.dtype != torch.float64 else torch.float32
    with lab.parity(
        "The page says that values have the dtype of the tensor, not that other dtypes are an error"
    ):
        lab.raises(
            "values of another dtype",
            lambda: base.index_put_((rows,), lab.integers(4, 3, dtype=other_dtype)),
            RuntimeError,
            match="(?i)dtype|type",
        )
    lab.raises(
        "values that do not broadcast",
        lambda: base.index_put_((rows, columns), source[:3]),
        match="(?i)broadcast|shape|match",
    )


@behaviour(
    "indexing",
    dtypes=("float32", "int64"),
    must_detect=("value",),
    page="generated/torch.Tensor.index_add_.html",
    ground="sums of small whole numbers have no rounding",
)
def adding_at_many_indices(lab: Lab) -> None:
    """Functions that add at indices return exact sums, however often an index repeats."""
    positions = lab.integers(5000, low=0, high=37, dtype=torch.int64)
    source = lab.integers(5000, low=0, high=3)
    expected = numpy.bincount(to_widest_numpy_array(positions), to_widest_numpy_array(source), 37)
    zeros = torch.zeros(37, dtype=lab.dtype, device=lab.device)
    lab.expect("index_put_", zeros.index_put((positions,), source, accumulate=True), expected)
    lab.expect("index_add_", zeros.index_add(0, positions, source), expected)
    lab.expect("scatter_add_", zeros.scatter_add(0, positions, source), expected)
    rows = lab.integers(400, low=0, high=5, dtype=torch.int64)
    matrix = lab.integers(400, 64, low=0, high=3)
    total = numpy.zeros((5, 64))
    numpy.add.at(total, to_widest_numpy_array(rows), to_widest_numpy_array(matrix))
    zeros = torch.zeros(5, 64, dtype=lab.dtype, device=lab.device)
    lab.expect("rows", zeros.index_put((rows,), matrix, accumulate=True), total)
    lab.expect("rows by index_add", zeros.index_add(0, rows, matrix), total)


@behaviour(
    "indexing",
    dtypes=("float32", "int64", "complex64"),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.Tensor.index_copy_.html",
    ground="each function has its own page",
)
def index_functions_write(lab: Lab) -> None:
    """``index_copy``, ``index_fill``, ``index_add``, ``put``, ``masked_fill`` and ``masked_scatter`` write at
    the given positions. Wrong dtypes and sizes raise errors.
    """
    base = lab.integers(4, 3)
    positions = lab.put([2, 0])
    source = lab.integers(2, 3)
    array = to_widest_numpy_array(base)
    array[[2, 0]] = to_widest_numpy_array(source)
    lab.expect("index_copy", base.index_copy(0, positions, source), array)
    lab.expect("index_copy of dimension 1", base.t().index_copy(1, positions, source.t()), array.T)
    array = to_widest_numpy_array(base)
    array[[2, 0]] = 5
    lab.expect("index_fill", base.index_fill(0, positions, 5), array)
    with lab.parity("The page describes the value as a number, not as a tensor"):
        lab.expect(
            "index_fill by a tensor", base.index_fill(0, positions, lab.put(5, dtype=lab.dtype)), array
        )
    array = to_widest_numpy_array(base)
    numpy.add.at(array, [2, 2], 3 * to_widest_numpy_array(source))
    lab.expect("index_add", base.index_add(0, lab.put([2, 2]), source, alpha=3), array)
    array = to_widest_numpy_array(base)
    array.ravel()[[1, -1, 6]] = to_widest_numpy_array(source)[0]
    lab.expect("put", base.put(lab.put([1, 11, 6]), source[0]), array)
    with lab.parity("The page of put_ does not say that negative indices count from the end"):
        lab.expect("put from the end", base.put(lab.put([1, -1, 6]), source[0]), array)
    array = to_widest_numpy_array(base)
    numpy.add.at(array.ravel(), [4, 4, 6], to_widest_numpy_array(source)[0])
    lab.expect("put that adds", base.put(lab.put([4, 4, 6]), source[0], accumulate=True), array)
    mask = lab.put([[True, False, True], [False] * 3, [True] * 3, [False, True, False]])
    array = to_widest_numpy_array(base)
    array[to_widest_numpy_array(mask)] = 9
    lab.expect("masked_fill", base.masked_fill(mask, 9), array)
    with lab.parity("The page describes the value as a number, not as a tensor"):
        lab.expect("masked_fill by a tensor", base.masked_fill(mask, lab.put(9, dtype=lab.dtype)), array)
    array = to_widest_numpy_array(base)
    array[to_widest_numpy_array(mask)] = to_widest_numpy_array(source).ravel()
    lab.expect("masked_scatter", base.masked_scatter(mask, source), array)
    lab.raises(
        "index_copy of other sizes",
        lambda: base.index_copy(0, positions, source[:1]),
        RuntimeError,
        IndexError,
    )
    with lab.parity("The page names the index dtype and does not say that other dtypes are an error"):
        lab.raises(
            "index_copy by floats",
            lambda: base.index_copy(0, positions.float(), source),
            RuntimeError,
            IndexError,
        )
    with lab.parity("The page does not say that a source of another dtype is an error"):
        lab.raises(
            "index_add of another dtype",
            lambda: base.index_add(0, positions, source.to(torch.float64)),
            match="(?i)scalar type|dtype",
        )
    with lab.parity(
        "The page describes the value as a number and does not say that other values are an error"
    ):
        lab.raises("index_fill by two dimensions", lambda: base.index_fill(0, positions, source))
    with lab.parity("The page describes the mask as boolean and does not say that other masks are an error"):
        lab.raises(
            "masked_fill by integers", lambda: base.masked_fill(lab.put([1, 0, 1]), 1), match="(?i)bool|mask"
        )


@behaviour(
    "indexing",
    must_detect=("error",),
    page="https://docs.pytorch.org/tutorials/beginner/introyt/tensors_deeper_tutorial.html",
    ground="The tutorial demands one device for all tensors of a computation",
)
def indices_of_another_device(lab: Lab) -> None:
    """Values that ``index_put_`` writes, and the indices of ``gather``, ``take``, ``take_along_dim`` and
    ``index_select``, must be on the tensor's device. A CPU tensor cannot be indexed by a tensor of the
    device.
    """
    base = lab.integers(4, 3)
    index = torch.zeros(1, 1, dtype=torch.int64)
    expect_error_for_two_devices(lab, "gather", lambda: base.gather(0, index), match="(?i)device")
    expect_error_for_two_devices(
        lab, "take_along_dim", lambda: base.take_along_dim(index, 0), match="(?i)device"
    )
    expect_error_for_two_devices(
        lab, "index_select", lambda: base.index_select(0, index[0]), match="(?i)device"
    )
    expect_error_for_two_devices(lab, "take", lambda: base.take(index), match="(?i)device")
    values_there = torch.ones(2, 3)
    expect_error_for_two_devices(lab, "index_put_", lambda: base.index_put_((lab.put([0, 1]),), values_there))
    expect_error_for_two_devices(
        lab, "a host tensor", lambda: base.cpu()[lab.put([0, 1])], RuntimeError, IndexError
    )
    meta = torch.zeros(1, 1, dtype=torch.int64, device="meta")
    lab.raises(
        "an index of meta", lambda: base.take_along_dim(meta, 0), match="(?i)device", type_is_documented=True
    )


@behaviour(
    "indexing",
    capabilities=("autograd",),
    level="training",
    must_detect=("value",),
    page="notes/autograd.html",
    ground="The values follow from the chain rule",
)
def backward_through_indices(lab: Lab) -> None:
    """Gradients of an index operation flow to the elements that were read. They add up for elements that were
    read twice, and are zero for elements that were overwritten.
    """
    x = lab.integers(4, 3).requires_grad_()
    x[[0, 2, 2]].sum().backward()
    lab.expect("twice the same row", x.grad, [[1.0] * 3, [0] * 3, [2] * 3, [0] * 3])
    x = lab.integers(4, 3).requires_grad_()
    (x[lab.put([0, 1]), lab.put([2, 2])] * lab.put([3.0, 4])).sum().backward()
    lab.expect("elements", x.grad, [[0.0, 0, 3], [0, 0, 4], [0] * 3, [0] * 3])
    if lab.target.capable("data_dependent_shapes"):
        x = lab.integers(4, 3).requires_grad_()
        x[x.detach() == x.detach()].mul(2).sum().backward()
        lab.expect("a mask", x.grad, [[2.0] * 3] * 4)
    x, y = lab.integers(3).requires_grad_(), lab.integers(2).requires_grad_()
    z = x * 2
    z[lab.put([2, 0])] = y
    (z * lab.put([1.0, 10, 100])).sum().backward()
    lab.expect("what was overwritten", x.grad, [0.0, 20, 0])
    lab.expect("what was written", y.grad, [100.0, 1])
    x, y = lab.integers(3).requires_grad_(), lab.integers(2).requires_grad_()
    x.index_put((lab.put([1, 1]),), y, accumulate=True).mul(lab.put([1.0, 5, 1])).sum().backward()
    lab.expect("accumulated", [x.grad.tolist(), y.grad.tolist()], [[1.0, 5, 1], [5.0, 5]])  # type: ignore[union-attr]
