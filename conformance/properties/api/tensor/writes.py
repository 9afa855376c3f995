"""Check writes into tensors: diagonals, expanded sources and targets, resized outputs, and swapped
tensors.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "tensor",
    dtypes=("float32", "int64", "bool"),
    must_detect=("value", "error"),
    page="generated/torch.Tensor.fill_diagonal_.html",
)
def filled_diagonals(lab: Lab) -> None:
    """``fill_diagonal_`` writes the main diagonal. With ``wrap=True``, the diagonal of a tall matrix starts
    again after its last column. In a cube, ``fill_diagonal_`` writes the elements whose indices are equal.
    """
    for shape, wrap in (
        ((3, 3), False),
        ((2, 5), False),
        ((7, 3), False),
        ((7, 3), True),
        ((3, 3, 3), False),
    ):
        base = torch.zeros(shape, dtype=lab.dtype, device=lab.device)
        lab.holds(f"fill_diagonal_ returns its tensor, {shape}", base.fill_diagonal_(1, wrap=wrap) is base)
        lab.same(f"{shape}, wrap={wrap}", base)
    turned = torch.zeros(4, 3, dtype=lab.dtype, device=lab.device).t()
    lab.same("of a transposed one", turned.fill_diagonal_(1))
    part = torch.zeros(4, 6, dtype=lab.dtype, device=lab.device)
    part[1:, ::2].fill_diagonal_(1)
    lab.same("of a part", part)
    lab.raises(
        "of a vector",
        lambda: torch.zeros(3, device=lab.device).fill_diagonal_(1),
        match="larger than 1|at least 2",
    )
    lab.raises(
        "of an uneven cube",
        lambda: torch.zeros(2, 3, 4, device=lab.device).fill_diagonal_(1),
        match="equal length",
    )


@behaviour(
    "tensor",
    must_detect=("value",),
    page="generated/torch.Tensor.expand.html",
    basis="parity",
    ground="The page says that in-place writes to expanded tensors may be incorrect",
)
def writes_to_expanded_by_place(lab: Lab) -> None:
    """``index_fill_``, ``index_put_`` and ``masked_fill_`` can write one number to elements that share
    memory. A warning is allowed.
    """

    def zeros_in_shared_memory() -> torch.Tensor:
        return torch.zeros(1, device=lab.device).expand(6)

    mask = torch.ones(6, dtype=torch.bool, device=lab.device)
    calls: dict[str, Any] = {
        "index_fill_": lambda: zeros_in_shared_memory().index_fill_(0, lab.put([0, 1]), 1.0),
        "index_put_": lambda: zeros_in_shared_memory().index_put_((lab.put([0, 1]),), lab.put(1.0)),
        "masked_fill_": lambda: zeros_in_shared_memory().masked_fill_(mask, 1.0),
    }
    for name, call in calls.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lab.expect(name, call(), [1.0] * 6)


@behaviour(
    "tensor",
    dtypes=("float32", "int64"),
    must_detect=("value", "error"),
    capabilities=("strides",),
    page="generated/torch.Tensor.copy_.html",
)
def copies_from_one_to_many(lab: Lab) -> None:
    """``copy_`` accepts expanded and overlapping sources. ``index_add`` accepts dimensionless tensors,
    an empty index and repeated indices.
    """
    base = torch.zeros(3, 4, dtype=lab.dtype, device=lab.device)
    source = lab.integers(1, 4)
    lab.same("a row to all", base.copy_(source.expand(3, 4)))
    lab.same("one element to all", base.copy_(source[0, 1].expand(3, 4)))
    lab.same("overlapping windows", base[:, :3].copy_(lab.integers(12).as_strided((3, 3), (1, 1))))
    scalar = lab.integers()
    with lab.parity("No page says that a tensor without dimensions is treated as one-dimensional here"):
        lab.same("index_add to a scalar", scalar.index_add(0, lab.put([0]), lab.integers()))
    with lab.parity("The page demands a vector as index"):
        lab.same("index_add by a scalar index", base.clone().index_add_(0, lab.put(1), lab.integers(1, 4)))
    lab.same("index_add of nothing", base.index_add(0, lab.put([], dtype=torch.int64), lab.integers(0, 4)))
    many = lab.put([0, 2] * 300)
    lab.same("index_add of many", base.index_add(0, many, lab.integers(600, 4), alpha=2))
    lab.raises(
        "index_add of a wrong size",
        lambda: base.index_add(0, lab.put([0, 1]), lab.integers(1, 4)),
        RuntimeError,
        IndexError,
    )
    with lab.parity("No page says that a source of another dtype is refused"):
        lab.raises(
            "index_add of another dtype",
            lambda: base.index_add(0, lab.put([0]), lab.integers(1, 4).to(torch.int16)),
        )
    lab.raises(
        "t of a cube", lambda: lab.integers(2, 2, 2).t(), match="expects a tensor with <= 2 dimensions"
    )
    lab.raises(
        "t_ of a cube", lambda: lab.integers(2, 2, 2).t_(), match="expects a tensor with <= 2 dimensions"
    )
    out = torch.zeros(2, 2, dtype=lab.dtype, device=lab.device)[:, :1]
    lab.same("a sum into an out= with gaps", torch.add(source[0, :2].view(2, 1), 1, out=out))
    lab.same(
        "a product into a transposed out=",
        [torch.mul(base, base, out=torch.zeros(4, 3, dtype=lab.dtype, device=lab.device).t()), base],
    )


@behaviour(
    "tensor",
    must_detect=("value", "warning"),
    page="generated/torch.add.html",
    basis="parity",
    ground="No page says that these writes issue a warning",
)
def questionable_writes_warn(lab: Lab) -> None:
    """Writing into an ``out=`` that must be resized issues a warning. So does discarding the imaginary part
    of a complex number.
    """
    out = torch.ones(2, device=lab.device)
    lab.warns(
        "resizing an out= with elements", lambda: torch.add(lab.integers(3), 1, out=out), match="(?i)resized"
    )
    with lab.documented():
        lab.same("shape of the resized out=", out.shape)
    half = lab.warns(
        "casting a complex number to float32",
        lambda: lab.put([1 + 2j]).to(torch.float32),
        match="(?i)imaginary",
    )
    lab.expect("its real part", half, [1.0])


@behaviour("tensor", must_detect=("value",), page="generated/torch.utils.swap_tensors.html")
def swapped_tensors(lab: Lab) -> None:
    """``swap_tensors`` exchanges the contents of two tensors, including attributes and types. Each variable
    still refers to the same Python object.
    """
    matrix, vector = lab.integers(2, 3), lab.integers(4)
    matrix.note = "first"  # type: ignore[attr-defined]
    first, second = matrix.clone(), vector.clone()
    matrix_id, vector_id = id(matrix), id(vector)
    torch.utils.swap_tensors(matrix, vector)
    lab.same("swapped", [matrix, vector])
    lab.holds("swap_tensors exchanges the values", torch.equal(matrix, second) and torch.equal(vector, first))
    lab.holds("swap_tensors keeps the Python objects", id(matrix) == matrix_id and id(vector) == vector_id)
    lab.expect("an attribute goes along", vector.note, "first")  # type: ignore[attr-defined]
    parameter, tensor = torch.nn.Parameter(lab.integers(3)), lab.integers(2)
    torch.utils.swap_tensors(parameter, tensor)
    lab.holds(
        "swap_tensors exchanges the classes",
        isinstance(tensor, torch.nn.Parameter) and type(parameter) is torch.Tensor,
    )
    lab.same("results of the swapped tensors", [parameter + 1, tensor.detach() * 2])
