"""Behaviours of printed tensors: values, dtype, device, layout and autograd information."""

from __future__ import annotations

import re

import torch

from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab


def repr_without_device(tensor: torch.Tensor) -> str:
    """Return the ``repr`` of a tensor on one line, without the device name."""
    return " ".join(re.sub(r",?\s*device='[^']*'", "", repr(tensor)).split())


@behaviour(
    "printing",
    dtypes=ALL,
    level="bringup",
    must_detect=("value",),
    page="generated/torch.tensor.html",
    ground="examples show the values, sizes and dtypes of printed tensors; no page specifies the text",
)
def printed_values(lab: Lab) -> None:
    """``repr`` shows the values. It shows the shape of an empty tensor, and dtypes other than the defaults
    (float32, int64, bool, complex64).
    """
    rows = lab.put([[0, 1], [1, 1]], dtype=lab.dtype)
    lab.same("a matrix", repr_without_device(rows + 0))
    lab.same("a scalar", repr_without_device(rows[1, 0].clone()))
    lab.same("a vector", repr_without_device(rows[0].clone()))
    lab.same("nothing", repr_without_device(rows[:0]))
    lab.same("a part", repr_without_device(rows[:, 1:]))
    lab.same("deep", repr_without_device(rows.reshape(1, 2, 2, 1).clone()))
    lab.same("str", re.sub(r",?\s*device='[^']*'", "", str(rows)))
    lab.same("formatted", f"{rows[1, 1].clone()}")
    lab.same("with a width", f"{rows[1, 1].clone().item()}")


@behaviour(
    "printing",
    level="core",
    must_detect=("value",),
    page="generated/torch.tensor.html",
    ground="an example of the page shows the device of a printed tensor",
)
def printed_device(lab: Lab) -> None:
    """``repr`` names the device of a tensor unless it is the default device."""
    numbers = lab.put([0, 1, 2]) + 0
    lab.same("the values", repr_without_device(numbers))
    if lab.device.type == "cpu":
        lab.holds("the device is named if it is not the default", "device" not in repr(numbers))
    else:
        lab.holds(
            "the device is named if it is not the default", f"device='{numbers.device}'" in repr(numbers)
        )
    lab.expect("of a meta tensor", "device='meta'" in repr(torch.empty(2, device="meta")), True)
    with torch.device(lab.device):
        lab.holds("repr shows the values", "[0, 1, 2]" in repr(numbers))
    lab.holds(
        "repr of a Parameter starts with the class",
        repr(torch.nn.Parameter(numbers.float())).startswith("Parameter containing"),
    )
    lab.expect(
        "the device itself", repr(torch.device(lab.device.type)) == f"device(type='{lab.device.type}')", True
    )


@behaviour(
    "printing",
    must_detect=("value",),
    basis="parity",
    ground="No page says how the format of printed numbers is chosen",
)
def printed_numbers(lab: Lab) -> None:
    """All numbers of a tensor are printed in one format. The format is scientific if their magnitudes differ
    widely. Signs, NaN and infinity are printed.
    """
    cases = {
        "integral floats": [1.0, 2.0, 300.0],
        "fractions": [0.5, 1.25, -3.0],
        "sizes apart": [1e-5, 1.0, 1e6],
        "large": [1e10, 2e10],
        "small": [1e-7, 2.5e-7],
        "not finite": [float("inf"), float("-inf"), float("nan"), 1.0],
        "only NaN": [float("nan")],
        "zeros": [0.0, -0.0],
        "negative": [-1.5, -20.25],
    }
    for name, values in cases.items():
        for dtype in (torch.float32, torch.float64, torch.float16):
            tensor = torch.tensor(values, dtype=torch.float64, device=lab.device).to(dtype)
            lab.same(f"{name}, {dtype}", repr_without_device(tensor))
    lab.same("complex", repr_without_device(torch.tensor([1 + 2j, -0.5j, 3], device=lab.device) + 0))
    lab.same(
        "complex, not finite",
        repr_without_device(torch.tensor([complex(float("inf"), float("nan"))], device=lab.device) + 0),
    )
    lab.same(
        "integers of all widths", repr_without_device(torch.tensor([-1, 10, 2**40], device=lab.device) + 0)
    )
    lab.same("bools", repr_without_device(torch.tensor([True, False], device=lab.device).logical_not()))
    lab.same("a long tensor", repr_without_device(torch.arange(1200, device=lab.device) + 0))
    lab.same("a wide tensor", repr_without_device(torch.zeros(2, 40, device=lab.device) + 1))
    lab.same("a large deep one", repr_without_device(torch.zeros(20, 20, 20, device=lab.device) + 1))
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        lab.same(
            "under another default",
            repr_without_device(torch.tensor([1.5], dtype=torch.float32, device=lab.device) + 0),
        )
        lab.same("in that default", repr_without_device(torch.tensor([1.5], device=lab.device) + 0))
    finally:
        torch.set_default_dtype(before)


@behaviour("printing", must_detect=("value",))
def print_options(lab: Lab) -> None:
    """``set_printoptions`` sets the precision, the line width, the number of elements shown, and scientific
    notation.
    """
    # float64, because a float32 number does not determine eight digits after the decimal point.
    dtype = torch.float64 if lab.target.declares("float64") else torch.float32
    tensor = torch.tensor([1 / 3, 1000.0, 1e-3], dtype=dtype, device=lab.device) * 1
    options = (
        {"precision": 2},
        {"precision": 8},
        {"sci_mode": True},
        {"sci_mode": False},
        {"profile": "short"},
        {"profile": "full"},
        {"linewidth": 20},
        {"threshold": 2, "edgeitems": 1},
    )
    for option in options:
        try:
            torch.set_printoptions(**option)
            lab.same(f"with {option}", repr_without_device(tensor))
            lab.same(f"more with {option}", repr_without_device(torch.arange(30, device=lab.device) + 0))
        finally:
            torch.set_printoptions(profile="default")
    lab.same("back to the default", repr_without_device(tensor))


@behaviour(
    "printing",
    capabilities=("autograd",),
    must_detect=("value",),
    page="notes/modules.html",
    ground="examples show requires_grad and grad_fn in printed tensors",
)
def printed_history(lab: Lab) -> None:
    """``repr`` of a leaf that requires grad shows ``requires_grad=True``. ``repr`` of a result shows its
    ``grad_fn``.
    """
    leaf = lab.put([1.0, 2.0], requires_grad=True)
    lab.same("a leaf", repr_without_device(leaf))
    result = leaf * 2
    for name, tensor in {"a result": result, "a view": result[0]}.items():
        lab.holds(f"{name} shows a grad_fn", "grad_fn=<" in repr(tensor))
        with lab.parity("No page says how the functions of the graph are named"):
            lab.same(name, repr_without_device(tensor))
    lab.same("a detached one", repr_without_device((leaf * 2).detach()))
    with torch.no_grad():
        lab.same("without gradients", repr_without_device(leaf * 3))


@behaviour(
    "printing",
    must_detect=("value",),
    capabilities=("conj_neg_views",),
    page="generated/torch.conj.html",
    ground="A conjugate view has the conjugated values; examples show that the text contains the values",
)
def printed_lazy_bits(lab: Lab) -> None:
    """``repr`` of a tensor with a lazy conjugate or negative bit shows the conjugated or negated values."""
    base = lab.put([1 + 2j, -3j], dtype=torch.complex64)
    lab.same("a conjugate", repr_without_device((base + 0).conj()))
    lab.same("a negative view", repr_without_device((base + 0).conj().imag))
    lab.same("an expanded one", repr_without_device((base[:1] + 0).expand(3)))
    lab.same("a transposed one", repr_without_device((base.view(1, 2) + 0).t()))
    lab.same("parts", [repr_without_device(base.real + 0), repr_without_device(base.imag + 0)])


@behaviour(
    "printing",
    must_detect=("value",),
    capabilities=("sparse", "sparse_compressed"),
    page="sparse.html",
    ground="examples show indices, values, size and nnz of printed sparse tensors",
)
def printed_sparse(lab: Lab) -> None:
    """``repr`` of a sparse tensor shows indices, values, size and the number of specified elements."""
    dense = lab.put([[0.0, 1.0], [2.0, 0.0]]) + 0

    def repr_on_one_line(tensor: torch.Tensor) -> str:
        return re.sub(r"\s+", " ", repr_without_device(tensor))

    lab.same("COO", repr_on_one_line(dense.to_sparse()))
    lab.same("CSR", repr_on_one_line(dense.to_sparse_csr()))
    lab.same("CSC", repr_on_one_line(dense.to_sparse_csc()))
    lab.same("indices", repr_without_device(dense.to_sparse().indices() + 0))
