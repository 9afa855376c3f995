"""Behaviours of reading by index: integers, slices, masks and integer tensors."""

from __future__ import annotations

import random
from typing import Any

import numpy
import torch

from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import to_widest_numpy_array

_S = slice

#: Basic indices, valid for a tensor of shape (4, 3, 5).
BASIC: tuple[Any, ...] = (
    0,
    -1,
    (1, 2),
    (3, -3, 4),
    _S(None),
    _S(1, 3),
    _S(None, None, 2),
    _S(1, None, 3),
    _S(-3, -1),
    _S(2, 2),
    _S(3, 1),
    _S(0, 100),
    _S(-100, 2),
    (_S(None), 1),
    (_S(1, None), _S(None), _S(None, None, 2)),
    Ellipsis,
    (Ellipsis, 2),
    (1, Ellipsis),
    (0, Ellipsis, -1),
    (Ellipsis, _S(1, 3)),
    (Ellipsis, None),
    None,
    (None, 2, None),
    (_S(None), None, 1),
    (None, None, Ellipsis, None),
    (1, 2, 3, Ellipsis),
    (),
)

#: Advanced indices: at least one item is a list of integers or booleans.
ADVANCED: tuple[Any, ...] = (
    [0],
    [3, 0, 0],
    [-1, -4],
    [[0, 1], [2, 3]],
    ([0, 2], [1, 2]),
    ([0, 2], [1, 2], [4, -5]),
    ([[0], [3]], [0, 2]),
    ([0], [1, 2, 0]),
    (_S(None), [2, 0]),
    (_S(None), [2, 0], [1, 4]),
    (_S(None), _S(None), [4, 4]),
    ([1, 3], _S(None), [0, 2]),
    ([1, 3], Ellipsis, [0, 2]),
    (Ellipsis, [0, 3, 3]),
    ([0, 1], 2),
    (2, [0, 1]),
    ([0, 1], 2, _S(1, None)),
    (_S(1, 3), [0, 2], _S(None, None, 2)),
    (None, [1, 2]),
    ([1, 2], None, [0, 1]),
    (_S(None), [[0, 1], [2, 0]], None),
    ([True, False, True, True],),
    ([True, False, True, False], [1, 2]),
    ([False, True, False, True], _S(None), [3, 0]),
    (_S(None), [True, False, True]),
    (_S(None), [False, False, False]),
    ([],),
    (_S(None), []),
)


def convert_lists_to_tensors(lab: Lab, index: Any, dtype: torch.dtype = torch.int64) -> Any:
    """Return the index with each list converted to a tensor on the device: a bool mask, or integers of
    ``dtype``.
    """
    if isinstance(index, tuple):
        return tuple(convert_lists_to_tensors(lab, part, dtype) for part in index)
    if not isinstance(index, list):
        return index
    truth = bool(index) and isinstance(index[0], bool)
    return lab.put(index, dtype=torch.bool if truth else dtype)


def convert_lists_to_arrays(index: Any) -> Any:
    """Return the index with each list converted to a NumPy array: a bool mask, or int64 integers."""
    if isinstance(index, tuple):
        return tuple(convert_lists_to_arrays(part) for part in index)
    if not isinstance(index, list):
        return index
    truth = bool(index) and isinstance(index[0], bool)
    return numpy.array(index, dtype=bool if truth else numpy.int64)


def target_supports_index(lab: Lab, index: Any) -> bool:
    """Return False if the index contains a mask and the target does not declare shapes that depend on
    values.
    """
    parts = index if isinstance(index, tuple) else (index,)
    has_mask = any(isinstance(part, list) and part and isinstance(part[0], bool) for part in parts)
    return not has_mask or lab.target.capable("data_dependent_shapes")


@behaviour(
    "indexing",
    dtypes=ALL,
    level="bringup",
    must_detect=("alias", "shape"),
    page="tensor_view.html",
    ground="The page says that indexing follows NumPy",
)
def basic_indices(lab: Lab) -> None:
    """Integers, slices, Ellipsis and None select the same elements as in NumPy and return views."""
    base = lab.integers(4, 3, 5, low=0, high=6)
    array = to_widest_numpy_array(base)
    for index in BASIC:
        result = base[index]
        lab.expect(f"[{index}]", result, array[index])
        with lab.parity("No page gives the storage offset of a view without elements"):
            lab.same(f"strides of [{index}]", result, strides=True)
        lab.shares(f"[{index}] and the base", base, result)
    lab.same("[...] of a dimensionless tensor", base[1, 1, 1][...])
    with lab.parity("No page says that the bounds of a slice may be tensors"):
        lab.expect("slices from tensors", base[lab.put(1) : lab.put(3)], array[1:3])
    with lab.parity("The NumPy page does not say what an index of True or False selects"):
        lab.apart("the base and the result of index True", base, base[True])
        lab.same("True and False", [base[0, 0][True], base[0, 0][False], base[0, 0, 0][None, True]])


@behaviour(
    "indexing",
    dtypes=ALL,
    level="core",
    must_detect=("value", "shape"),
    page="tensor_view.html",
    ground="The page says that indexing follows NumPy",
)
def advanced_indices(lab: Lab) -> None:
    """Tensors and lists of integers or booleans select the same elements as in NumPy. They can be combined
    with each other and with basic indices, and the indexed tensor may have any strides.
    """
    base = lab.integers(4, 3, 5, low=0, high=6)
    array = to_widest_numpy_array(base)
    turned = lab.integers(5, 3, 4, low=0, high=6)
    gapped = lab.integers(8, 3, 10, low=0, high=6)[::2, :, ::2]
    for index in ADVANCED:
        if not target_supports_index(lab, index):
            continue
        tensor_index, array_index = convert_lists_to_tensors(lab, index), convert_lists_to_arrays(index)
        lab.expect(f"[{index}]", base[tensor_index], array[array_index])
        lab.expect(
            f"permuted [{index}]",
            turned.permute(2, 1, 0)[tensor_index],
            to_widest_numpy_array(turned).transpose(2, 1, 0)[array_index],
        )
        lab.expect(f"with gaps [{index}]", gapped[tensor_index], to_widest_numpy_array(gapped)[array_index])
        nested = isinstance(index, list) and isinstance(index[0], list)
        if not nested and index not in (([],), (_S(None), [])):
            lab.expect(f"as lists [{index}]", base[index], array[array_index])
    lab.expect("int32", base[lab.put([1, 3], dtype=torch.int32)], array[[1, 3]])
    lab.expect("indices with gaps", base[lab.put([0, 9, 2, 9])[::2]], array[[0, 2]])
    lab.expect("expanded indices", base[lab.put([1]).expand(3)], array[[1, 1, 1]])
    lab.expect("a dimensionless index", base[lab.put(2)], array[2])
    large = lab.integers(700, 3, low=0, high=6)
    positions = lab.permutation(700)
    lab.expect("many", large[positions], to_widest_numpy_array(large)[to_widest_numpy_array(positions)])


@behaviour(
    "indexing",
    dtypes=("float32", "int64", "bool", "complex64"),
    level="core",
    capabilities=("data_dependent_shapes",),
    must_detect=("value", "shape", "error"),
    page="tensor_view.html",
    ground="The page says that indexing follows NumPy",
)
def masks(lab: Lab) -> None:
    """A mask selects the elements for which it is true, over one dimension or several, alone or with other
    indices. A mask whose size does not match raises an IndexError.
    """
    base = lab.integers(4, 3, 5, low=0, high=6)
    array = to_widest_numpy_array(base)
    by_row, by_element, all_of = [
        (lab.integers(*shape, dtype=torch.bool)) for shape in ((4,), (4, 3), (4, 3, 5))
    ]
    lab.expect("one dimension", base[by_row], array[to_widest_numpy_array(by_row)])
    lab.expect("two dimensions", base[by_element], array[to_widest_numpy_array(by_element)])
    lab.expect("all dimensions", base[all_of], array[to_widest_numpy_array(all_of)])
    lab.expect("beside a slice", base[by_element, 1:3], array[to_widest_numpy_array(by_element), 1:3])
    lab.expect(
        "inner dimensions",
        base[:, by_element.t()[:, :1].expand(3, 5)],
        array[:, numpy.repeat(to_widest_numpy_array(by_element).T[:, :1], 5, 1)],
    )
    lab.expect("after an integer", base[2, by_element[0]], array[2, to_widest_numpy_array(by_element)[0]])
    lab.expect(
        "a transposed mask",
        base.transpose(0, 1)[by_element.t()],
        array.swapaxes(0, 1)[to_widest_numpy_array(by_element).T],
    )
    lab.expect("masked_select", base.masked_select(all_of), array[to_widest_numpy_array(all_of)])
    lab.expect(
        "masked_select broadcast",
        base.masked_select(by_row.view(4, 1, 1)),
        array[to_widest_numpy_array(by_row)].ravel(),
    )
    lab.same("none", [base[torch.zeros_like(all_of)], base[torch.zeros_like(by_row)]])
    lab.same("of no elements", base[:0][torch.zeros(0, dtype=torch.bool, device=lab.device)])
    with lab.parity("The NumPy page excludes masks without dimensions from its rule"):
        lab.same(
            "of no dimensions",
            [
                base[torch.ones((), dtype=torch.bool, device=lab.device)],
                base[torch.zeros((), dtype=torch.bool, device=lab.device)],
            ],
        )
    lab.expect(
        "a mask as the indices of its nonzero elements",
        base[by_element],
        to_widest_numpy_array(base[by_element.nonzero(as_tuple=True)]),
    )
    lab.raises(
        "too short", lambda: base[by_row[:3]], IndexError, match="(?i)mask|shape", type_is_documented=True
    )
    lab.raises("too many dimensions", lambda: base[0, 0][all_of], IndexError, type_is_documented=True)
    lab.raises(
        "another inner size",
        lambda: base[by_element[:, :2]],
        IndexError,
        match="(?i)mask|shape",
        type_is_documented=True,
    )


@behaviour(
    "indexing",
    must_detect=("value",),
    page="tensor_view.html",
    basis="parity",
    ground="No page says that uint8 indices are masks; in NumPy they are positions",
)
def masks_of_bytes(lab: Lab) -> None:
    """An index of uint8 acts as a mask, with a deprecation warning."""
    base = lab.integers(3, 4)
    mask = lab.put([1, 0, 1], dtype=torch.uint8)
    selected = lab.warns("reading", lambda: base[mask], match="(?i)uint8")
    lab.expect("rows", selected, to_widest_numpy_array(base)[[0, 2]])
    every = lab.integers(3, 4, low=0, high=2, dtype=torch.uint8)
    lab.expect("two dimensions", base[every], to_widest_numpy_array(base)[to_widest_numpy_array(every) > 0])
    lab.expect(
        "two masks",
        base[mask, lab.put([0, 1, 0, 1], dtype=torch.uint8)],
        to_widest_numpy_array(base)[[0, 2], [1, 3]],
    )
    base[mask] = lab.integers(2, 4)
    lab.same("after writing", base)


@behaviour(
    "indexing",
    dtypes=("float32", "int64", "bool"),
    level="core",
    must_detect=("error",),
    page="tensor_view.html",
    ground="The page says that indexing follows NumPy",
)
def indices_out_of_range(lab: Lab) -> None:
    """An index that is out of range, an index of a wrong type and too many indices raise an IndexError. A
    step that is not positive raises a ValueError.
    """
    base = lab.integers(4, 3)
    lab.raises("[4]", lambda: base[4], IndexError, match="(?i)out of", type_is_documented=True)
    lab.raises("[-5]", lambda: base[-5], IndexError, match="(?i)out of", type_is_documented=True)
    lab.raises("[0, 3]", lambda: base[0, 3], IndexError, match="(?i)out of", type_is_documented=True)
    with lab.parity("No page says that too many indices are an error"):
        lab.raises("[0, 0, 0]", lambda: base[0, 0, 0], IndexError, match="(?i)too many indices")
        lab.raises("[..., 0, 0, 0]", lambda: base[..., 0, 0, 0], IndexError, match="(?i)too many indices")
        lab.raises(
            "[0] of a dimensionless tensor",
            lambda: base[0, 0][0],
            IndexError,
            match="(?i)0-dim|invalid index",
        )
    with lab.parity("No page says that a fraction as an index is an error"):
        lab.raises("[1.0]", lambda: base[1.0], IndexError, TypeError)  # type: ignore[index]
    with lab.parity("No page says that a string as an index is an error"):
        lab.raises("['x']", lambda: base["x"], IndexError, TypeError)  # type: ignore[index]
    lab.raises("[::0]", lambda: base[::0], ValueError, match="(?i)step|zero")
    with lab.parity("No page says that negative steps are refused; NumPy accepts them"):
        lab.raises("[::-1]", lambda: base[::-1], ValueError, match="(?i)step")
    with lab.parity("No page says that floating index tensors are an error"):
        lab.raises("floating tensors", lambda: base[lab.put([0.0, 1.0])], IndexError, match="(?i)long|int")
    with lab.parity("No page says that fractions as bounds of a slice are an error"):
        lab.raises("slices of floats", lambda: base[0.5:2], TypeError, IndexError)
    lab.raises(
        "shapes that do not broadcast",
        lambda: base[lab.put([0, 1]), lab.put([0, 1, 2])],
        IndexError,
        match="(?i)broadcast",
        type_is_documented=True,
    )
    lab.raises("an empty row", lambda: base[:, :0][:, 0], IndexError, type_is_documented=True)
    lab.raises(
        "any of no rows",
        lambda: base[:0][lab.put([], dtype=torch.int64), lab.put([5])[:0]][0],
        IndexError,
        type_is_documented=True,
    )
    lab.raises(
        "writing to [4]",
        lambda: base.__setitem__(4, 1),
        IndexError,
        match="(?i)out of",
        type_is_documented=True,
    )
    with lab.parity("No page says that negative steps are refused; NumPy accepts them"):
        lab.raises("writing to [::-1]", lambda: base.__setitem__(_S(None, None, -1), 1), ValueError)


@behaviour(
    "indexing",
    dtypes=("float32", "int64"),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.index_select.html",
    ground="the page of each function gives its formula",
)
def index_functions_read(lab: Lab) -> None:
    """``index_select``, ``take`` and ``take_along_dim`` read the selected elements. ``unravel_index`` returns
    the coordinates of flat indices. A wrong dtype of the index and a wrong shape raise an error.
    """
    base = lab.integers(4, 5)
    array = to_widest_numpy_array(base)
    for dim in (0, 1, -1):
        index = lab.put([3, 0, 0, 2])
        lab.expect(
            f"index_select({dim})", base.index_select(dim, index), numpy.take(array, [3, 0, 0, 2], dim)
        )
        lab.expect(
            f"int32 ({dim})", base.index_select(dim, index.int()), numpy.take(array, [3, 0, 0, 2], dim)
        )
    lab.same("index_select of nothing", base.index_select(0, lab.put([], dtype=torch.int64)))
    with lab.parity("The page describes an index with one dimension, not a dimensionless index"):
        lab.expect("index_select with no dimensions", base[0].index_select(0, lab.put(3)), array[0, 3:4])
    lab.expect("take", base.take(lab.put([[0, 19], [18, 7]])), numpy.take(array, [[0, 19], [18, 7]]))
    with lab.parity("The page of take does not say that negative indices count from the end"):
        lab.expect("take from the end", base.take(lab.put([-1, 7])), numpy.take(array, [-1, 7]))
    lab.expect("take of a transpose", base.t().take(lab.put([1, 5])), numpy.take(array.T, [1, 5]))
    order = base.argsort(dim=1, stable=True)
    lab.expect(
        "take_along_dim",
        base.take_along_dim(order, 1),
        numpy.take_along_axis(array, to_widest_numpy_array(order), 1),
    )
    lab.expect("take_along_dim of all", base.take_along_dim(lab.put([7, 2, 19])), array.ravel()[[7, 2, 19]])
    column = lab.put([[1, 4, 0, 2]]).t()
    lab.expect(
        "take_along_dim broadcast",
        torch.take_along_dim(base[:1], column, 1),
        numpy.take_along_axis(numpy.repeat(array[:1], 4, 0), to_widest_numpy_array(column), 1),
    )
    lab.expect(
        "unravel_index",
        [part.tolist() for part in torch.unravel_index(lab.put([0, 7, 19]), (4, 5))],
        [part.tolist() for part in numpy.unravel_index([0, 7, 19], (4, 5))],
    )
    lab.same("unravel_index with a number as shape", torch.unravel_index(lab.put([[3, 1]]), 4))
    with lab.parity("The page names the index dtypes and does not say that other dtypes are an error"):
        lab.raises(
            "index_select by floats", lambda: base.index_select(0, lab.put([0.0])), RuntimeError, IndexError
        )
    with lab.parity("The page describes the index as 1-D and does not say that other indices are an error"):
        lab.raises(
            "index_select by two dimensions",
            lambda: base.index_select(0, lab.put([[0]])),
            RuntimeError,
            IndexError,
        )
    with lab.parity("The page names the index dtype and does not say that other dtypes are an error"):
        lab.raises("take by floats", lambda: base.take(lab.put([0.0])))
    lab.raises(
        "take_along_dim by floats", lambda: base.take_along_dim(order.float(), 1), match="(?i)long|dtype"
    )
    with lab.parity("No page says that this call is an error"):
        lab.raises(
            "take_along_dim of other dimensions",
            lambda: base.take_along_dim(order[0], 1),
            match="(?i)dimensions",
        )
        lab.raises(
            "take_along_dim of a dimension that does not exist",
            lambda: base.take_along_dim(order, 3),
            IndexError,
        )
    with lab.parity("The page names the index dtype and does not say that other dtypes are an error"):
        lab.raises(
            "unravel_index of floats",
            lambda: torch.unravel_index(lab.put([0.5]), (2, 2)),
            TypeError,
            ValueError,
            match="(?i)int",
        )
    with lab.parity("No page says that this call is an error"):
        lab.raises(
            "unravel_index of a float shape",
            lambda: torch.unravel_index(lab.put([0]), (2, 2.0)),  # type: ignore[arg-type]
            TypeError,
        )
    lab.raises(
        "unravel_index of a negative shape", lambda: torch.unravel_index(lab.put([0]), (2, -2)), ValueError
    )


@behaviour(
    "indexing",
    must_detect=("value",),
    page="tensor_view.html",
    basis="parity",
    ground="No page says that host indices are accepted; a tutorial demands one device for all tensors",
)
def indices_of_the_host(lab: Lab) -> None:
    """CPU indices can read and write a tensor on the device. A dimensionless CPU tensor can be assigned to
    elements of a tensor on the device.
    """
    base = lab.integers(4, 3)
    array = to_widest_numpy_array(base)
    rows, columns = torch.tensor([3, 1]), torch.tensor([0, 2])
    lab.expect("reading", base[rows], array[[3, 1]])
    lab.expect("two indices", base[rows, columns], array[[3, 1], [0, 2]])
    lab.expect("beside a slice", base[:, columns], array[:, [0, 2]])
    lab.expect("a mask", base[torch.tensor([True, False, True, False])], array[[0, 2]])
    base[rows, columns] = lab.put([7.0, 8.0])
    lab.same("after writing", base)
    base[columns] = torch.tensor(5.0)
    lab.same("after writing a dimensionless CPU tensor", base)
    base.index_put_((rows,), lab.put([[1.0, 2, 3], [4, 5, 6]]))
    lab.same("after index_put_", base)


@behaviour(
    "indexing",
    dtypes=("float32", "int64"),
    must_detect=("value",),
    page="tensor_view.html",
    ground="The page says that indexing follows NumPy",
)
def combined_indices_at_random(lab: Lab) -> None:
    """Random combinations of slices, None, lists and masks select the same elements as in NumPy."""
    chooser = random.Random(5)
    base = lab.integers(4, 3, 5, 2)
    array = to_widest_numpy_array(base)
    for _ in range(40):
        parts: list[Any] = []
        for size in base.shape:
            kind = chooser.choice(("slice", "list", "all", "mask", "none and all"))
            if kind == "slice":
                parts.append(_S(chooser.randrange(size), None, chooser.randrange(1, 3)))
            elif kind == "list":
                parts.append([chooser.randrange(-size, size) for _ in range(2)])
            elif kind == "mask":
                mask = [True, True] + [False] * (size - 2)
                chooser.shuffle(mask)
                parts.append(mask)
            else:
                parts += [None, _S(None)] if kind.startswith("none") else [_S(None)]
        index = tuple(parts[: chooser.randrange(1, len(parts) + 1)])
        if not target_supports_index(lab, index):
            continue
        lab.expect(
            f"[{index}]",
            base[convert_lists_to_tensors(lab, index)] + 0,
            array[convert_lists_to_arrays(index)],
        )
