"""Check COO tensors in unary functions of torch's operator database, and on the meta device."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.sparse.construction import uncoalesced_coo_tensor

#: ``torch`` as an untyped object: its type stubs do not allow some calls of ``sparse_coo_tensor``, such as
#: calls with lists or with a size only.
untyped_torch: Any = torch

#: Unary functions that declare support for COO tensors, but that the page of sparse tensors does not list.
UNLISTED = ("conj", "frac", "nan_to_num", "nn.functional.relu", "positive")

#: Unary functions for which torch implements derivatives with respect to COO tensors.
DERIVED = ("abs", "deg2rad", "log1p", "neg", "rad2deg", "nn.functional.relu")


def _unary_operators() -> list[Any]:
    """Return the unary functions of the operator database that declare support for COO tensors."""
    return [
        op
        for op in torch_testing_internals.op_db()
        if getattr(op, "supports_sparse", False) and hasattr(op, "domain")
    ]


def _sparse_tensor_in_domain(lab: Lab, requires_grad: bool = False) -> Any:
    """Return a coalesced COO tensor whose elements are between 0.1 and 0.9, and so in the domain of all unary
    functions.
    """
    indices = lab.put([[0, 1, 2], [1, 3, 0]])
    sparse = untyped_torch.sparse_coo_tensor(indices, lab.floats(3, low=0.1, high=0.9), (3, 4)).coalesce()
    return sparse.requires_grad_(requires_grad)


@behaviour(
    "sparse",
    level="core",
    dtypes=("float32", "float64"),
    must_detect=("value",),
    ground="The page says that the storage format does not influence the meaning of an operation",
)
def unary_functions_of_sparse(lab: Lab) -> None:
    """Each unary function of the operator database that supports COO tensors returns a COO tensor with the
    values of the dense result. It also works in place.
    """
    for op in _unary_operators():
        sparse = _sparse_tensor_in_domain(lab)
        with (
            lab.parity("The page of sparse tensors does not list this function")
            if op.name in UNLISTED
            else contextlib.nullcontext()
        ):
            result = op.op(sparse)
        lab.same(f"layout of {op.name}", [result.layout, result.shape, result.dtype])
        lab.close(f"values of {op.name}", result.to_dense(), roundings=64)
        with lab.parity("No page says that zeros among the results are stored"):
            lab.same(f"positions of {op.name}", result.coalesce().indices())
        dense = op.op(sparse.to_dense())
        agree = torch.allclose(result.to_dense().double(), dense.double(), rtol=1e-4, atol=1e-5)
        lab.holds(f"{op.name} of the COO tensor equals the dense result", agree)
        none = op.op(untyped_torch.sparse_coo_tensor((3, 0), dtype=lab.dtype, device=lab.device))
        lab.same(f"{op.name} of no elements", [none.shape, none._nnz()])
        if (
            op.inplace_variant is not None
            and result.dtype == sparse.dtype
            and not op.name.startswith(("nan_to_num", "deg", "rad"))
        ):
            changed = sparse.clone()
            lab.holds(f"{op.name} in place returns its tensor", op.inplace_variant(changed) is changed)
            lab.close(f"{op.name} in place", changed.to_dense(), roundings=64)


@behaviour(
    "sparse",
    capabilities=("autograd",),
    dtypes=("float64",),
    must_detect=("value",),
    basis="consistency",
    ground="The gradient for the COO tensor must agree with the gradient for the dense tensor",
)
def gradients_of_unary_functions_of_sparse(lab: Lab) -> None:
    """Gradients of unary functions of COO tensors equal the gradients of the dense functions at the stored
    elements.
    """
    for op in _unary_operators():
        if op.name not in DERIVED:
            continue
        leaf: Any = _sparse_tensor_in_domain(lab, requires_grad=True)
        dense: Any = leaf.detach().to_dense().requires_grad_()
        op.op(leaf).to_dense().sum().backward()
        op.op(dense).sum().backward()
        mask = leaf.detach().to_dense() != 0
        gradient = leaf.grad.to_dense() * mask
        lab.close(f"gradient of {op.name}", gradient, roundings=256)
        agree = torch.allclose(gradient, dense.grad * mask, rtol=1e-6)
        lab.holds(f"the gradient of {op.name} equals the dense gradient", agree)


@behaviour(
    "sparse",
    capabilities=("fake_tensors",),
    must_detect=("value",),
    page="meta.html",
    basis="parity",
    ground="The page describes meta tensors in general; it does not mention sparse layouts",
)
def sparse_on_meta(lab: Lab) -> None:
    """COO tensors can be moved to the meta device and created on it. On meta, they can be added, summed and
    printed. COO tensors can be converted to fake tensors.
    """
    sparse = uncoalesced_coo_tensor(lab)
    moved = sparse.to("meta")
    metadata = [
        moved.shape,
        moved.layout,
        moved.dtype,
        moved.sparse_dim(),
        moved.dense_dim(),
        moved.device.type,
    ]
    lab.same("moved", metadata)
    on_meta = untyped_torch.sparse_coo_tensor((2, 3), device="meta")
    lab.same("created on meta", [on_meta.shape, on_meta.layout, on_meta.device.type])
    lab.same("sum", [torch.sum(moved).shape, (moved + moved).layout, (moved + moved).shape])
    like = torch.zeros_like(sparse, device="meta")
    lab.same("like", [like.shape, like.layout, like.device.type, torch.zeros_like(moved).shape])
    lab.holds("a meta tensor can be printed", "meta" in repr(moved) and "sparse_coo" in repr(moved))
    mode = FakeTensorMode()
    fake = mode.from_tensor(sparse)
    lab.same("fake", [fake.shape, fake.layout, fake.device.type == lab.device.type, fake.sparse_dim()])
    with mode:
        zeros = torch.zeros_like(fake)
    lab.same("fake zeros", [zeros.shape, zeros.layout, zeros.device.type == lab.device.type])
    with lab.documented():
        lab.same("real one", sparse.to_dense())
