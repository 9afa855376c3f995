"""Check shape operators of COO tensors: transposition, concatenation, selection and broadcasting; and their
gradients.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import gradcheck

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.sparse.construction import uncoalesced_coo_tensor

#: ``torch`` as an untyped object: its type stubs do not allow some calls of ``sparse_coo_tensor``, such as
#: calls with lists or with a size only.
untyped_torch: Any = torch

DTYPES = ("float32", "int64")


def _shape_and_layout(sparse: torch.Tensor) -> list[object]:
    """Return the shape, layout, dtype and numbers of sparse and dense dimensions."""
    return [sparse.shape, sparse.layout, sparse.dtype, sparse.sparse_dim(), sparse.dense_dim()]


@behaviour(
    "sparse", dtypes=DTYPES, level="core", must_detect=("value",), page="generated/torch.transpose.html"
)
def transposed_sparse(lab: Lab) -> None:
    """``transpose``, ``t`` and ``permute`` of sparse tensors equal the results of dense tensors, also in
    place. Dense dimensions are still dense.
    """
    for dense in ((), (2,)):
        for kind, sparse in {
            "repeated": uncoalesced_coo_tensor(lab, *dense),
            "coalesced": uncoalesced_coo_tensor(lab, *dense).coalesce(),
        }.items():
            results = {
                "transpose": sparse.transpose(0, 1),
                "negative": sparse.transpose(-sparse.dim(), 1 - sparse.dim()),
                "in place": sparse.clone().transpose_(0, 1),
            }
            with lab.parity("The page of sparse tensors lists transpose and t, but not permute"):
                results["permute"] = sparse.permute(1, 0, *range(2, sparse.dim()))
                results["identity"] = sparse.permute(*range(sparse.dim()))
            for name, result in results.items():
                lab.same(f"{name} of {kind} {dense}", result.to_dense())
                lab.same(f"shape and layout of {name} of {kind} {dense}", _shape_and_layout(result))
    lab.same("t", uncoalesced_coo_tensor(lab).t().to_dense())
    lab.same("t in place", uncoalesced_coo_tensor(lab).t_().to_dense())
    lab.same(
        "t of none", untyped_torch.sparse_coo_tensor((2, 3), dtype=lab.dtype, device=lab.device).t().shape
    )
    lab.raises("t of three dimensions", lambda: uncoalesced_coo_tensor(lab, 2).t())
    with lab.parity("No page says that a dimension out of range is refused"):
        lab.raises(
            "a dimension outside",
            lambda: uncoalesced_coo_tensor(lab).transpose(0, 3),
            IndexError,
            RuntimeError,
        )
    with lab.parity("No page says that a repeated dimension is refused"):
        lab.raises("permute with a repeated dimension", lambda: uncoalesced_coo_tensor(lab).permute(0, 0))
    with lab.parity("The page demands two sparse dimensions only for compressed layouts"):
        lab.raises("sparse with dense dimension", lambda: uncoalesced_coo_tensor(lab, 2).transpose(0, 2))


@behaviour(
    "sparse",
    dtypes=DTYPES,
    level="core",
    must_detect=("value",),
    page="generated/torch.cat.html",
    ground="The page says that the storage format does not influence the meaning of an operation",
)
def joined_sparse(lab: Lab) -> None:
    """``cat``, ``stack`` and ``unsqueeze`` of sparse tensors equal the results of dense tensors, along sparse
    and dense dimensions.
    """
    a, b = uncoalesced_coo_tensor(lab, 2), uncoalesced_coo_tensor(lab, 2).coalesce()
    for dim in (0, 1, 2, -1):
        result = torch.cat((a, b, a), dim)
        lab.same(f"cat over {dim}", result.to_dense())
        with lab.parity("No page gives the layout and the sparse and dense dimensions of a concatenation"):
            lab.same(f"shape and layout of cat over {dim}", _shape_and_layout(result))
    for dim in (0, 1, 2, -2):
        lab.same(f"stack over {dim}", torch.stack((a, b), dim).to_dense())
    for dim in (0, 1, 2, -1, -4):
        result = a.unsqueeze(dim)
        lab.same(f"unsqueeze {dim}", result.to_dense())
        with lab.parity("No page says whether a new dimension is sparse or dense"):
            lab.same(f"flags of unsqueeze {dim}", _shape_and_layout(result))
    lab.same("cat with none", torch.cat((a, torch.zeros_like(a))).to_dense())
    lab.raises(
        "cat of other sizes",
        lambda: torch.cat((uncoalesced_coo_tensor(lab), uncoalesced_coo_tensor(lab).t())),
    )
    with lab.parity("No page says that cat refuses different layouts"):
        lab.raises("cat with a dense", lambda: torch.cat((a, a.to_dense())))
    lab.raises("unsqueeze outside", lambda: a.unsqueeze(5), IndexError)


@behaviour(
    "sparse",
    dtypes=DTYPES,
    level="core",
    must_detect=("value",),
    ground="The page says that the storage format does not influence the meaning of an operation",
)
def selected_from_sparse(lab: Lab) -> None:
    """``select``, ``index_select``, ``narrow_copy`` and indexing of sparse tensors equal the results of dense
    tensors, also with repeated indices.
    """
    for dense in ((), (2,)):
        sparse = uncoalesced_coo_tensor(lab, *dense)
        full = sparse.to_dense()
        for dim in range(sparse.dim()):
            for index in (0, -1, 1):
                lab.same(f"select {dim} {index} {dense}", _to_dense(sparse.select(dim, index)))
            for index_list in ([0], [1, 0], [1, 1, 0, 1], []):
                index_tensor = torch.tensor(index_list, dtype=torch.int64, device=lab.device)
                result = sparse.index_select(dim, index_tensor)
                lab.same(f"index_select {dim} {index_list} {dense}", result.to_dense())
                with lab.parity(
                    "No page gives the layout and the sparse and dense dimensions of a selection"
                ):
                    lab.same(f"flags {dim} {index_list} {dense}", _shape_and_layout(result))
            lab.same(f"narrow_copy {dim} {dense}", sparse.narrow_copy(dim, 0, 1).to_dense())
        lab.same(f"rows {dense}", _to_dense(sparse[1]))
        lab.same(f"reading by tuple {dense}", _to_dense(sparse[0, 1]))
        lab.same(f"the dense one {dense}", full)
    strided = lab.put([1, 9, 0, 9])[::2]
    lab.same("a strided index", uncoalesced_coo_tensor(lab).index_select(0, strided).to_dense())
    # This call runs on the CPU. A device kernel may detect the error by an assertion, and a failed assertion
    # makes the device unusable.
    with lab.parity("No page says that index_select refuses an index out of range"):
        lab.raises(
            "an index outside",
            lambda: uncoalesced_coo_tensor(lab).cpu().index_select(0, torch.tensor([3])),
            IndexError,
            RuntimeError,
        )
    with lab.parity("No page says that a dimension out of range is refused"):
        lab.raises("a dimension outside", lambda: uncoalesced_coo_tensor(lab).select(4, 0), IndexError)
    lab.raises(
        "a place outside",
        lambda: uncoalesced_coo_tensor(lab).select(0, 3),
        IndexError,
        type_is_documented=True,
    )


def _to_dense(value: torch.Tensor) -> torch.Tensor:
    """Return the value as a dense tensor."""
    return value.to_dense() if value.layout is not torch.strided else value


@behaviour(
    "sparse",
    level="core",
    must_detect=("value",),
    page="generated/torch.broadcast_to.html",
    basis="parity",
    ground="The function torch._sparse_broadcast_to is private and undocumented",
)
def broadcast_sparse(lab: Lab) -> None:
    """A sparse tensor that is broadcast to a larger shape, or built from diagonals, has the values of the
    dense result.
    """
    row = untyped_torch.sparse_coo_tensor(lab.put([[0, 0], [1, 3]]), lab.integers(2), (1, 4))
    for size in ((3, 4), (2, 3, 4), (1, 4)):
        lab.same(f"to {size}", torch._sparse_broadcast_to(row, size).to_dense())
    lab.raises("to another size", lambda: torch._sparse_broadcast_to(row, (3, 5)))
    diagonals = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    compressed = (torch.sparse_csr,) if lab.target.capable("sparse_compressed") else ()
    for layout in (None, torch.sparse_coo, *compressed):
        sparse = torch.sparse.spdiags(diagonals, torch.tensor([0, -1]), (3, 3), layout=layout)
        result = sparse.to(lab.device)
        with lab.documented():
            lab.expect(
                f"of diagonals, {layout}",
                result.to_dense(),
                [[1.0, 0.0, 0.0], [4.0, 2.0, 0.0], [0.0, 5.0, 3.0]],
            )
    with lab.documented():
        lab.raises("a diagonal twice", lambda: torch.sparse.spdiags(diagonals, torch.tensor([0, 0]), (3, 3)))


@behaviour(
    "sparse",
    capabilities=("autograd",),
    level="core",
    must_detect=("value",),
    ground="values of gradients follow from the definition; the pages of the functions promise gradients",
)
def gradients_of_sparse(lab: Lab) -> None:
    """Gradients flow through sparse tensors: through construction from values, conversion to dense, sums,
    masks, products and reductions.
    """
    indices = lab.put([[0, 2, 0], [1, 3, 1]])
    values = lab.integers(3, requires_grad=True)
    weights = lab.integers(3, 4)

    def record_gradients(name: str, out: torch.Tensor, *inputs: torch.Tensor) -> None:
        gradients = torch.autograd.grad(out, inputs)
        lab.same(name, [_to_dense(t) for t in gradients])

    sparse = untyped_torch.sparse_coo_tensor(indices, values, (3, 4))
    lab.same("need of a gradient", [sparse.requires_grad, sparse.is_leaf])
    record_gradients("to_dense", (sparse.to_dense() * weights).sum(), values)
    sparse = untyped_torch.sparse_coo_tensor(indices, values, (3, 4))
    record_gradients("coalesced values", (sparse.coalesce().values() * lab.integers(2)).sum(), values)
    dense = lab.integers(3, 4, requires_grad=True)
    record_gradients("to_sparse", (dense.to_sparse().to_dense() * weights).sum(), dense)
    record_gradients(
        "sparse_mask", (dense.sparse_mask(sparse.detach().coalesce()).to_dense() * weights).sum(), dense
    )
    sparse = untyped_torch.sparse_coo_tensor(indices, values, (3, 4))
    right = lab.integers(4, 2, requires_grad=True)
    record_gradients("sparse.mm", (torch.sparse.mm(sparse, right) * 2).sum(), values, right)
    leaf: Any = uncoalesced_coo_tensor(lab).coalesce().requires_grad_()
    torch.sparse.mm(leaf, right).sum().backward()
    lab.same(
        "gradient of a sparse leaf",
        [leaf.grad.layout, _to_dense(leaf.grad) * (leaf.detach().to_dense() != 0)],
    )
    sparse = untyped_torch.sparse_coo_tensor(indices, values, (3, 4))
    record_gradients("sparse.sum", torch.sparse.sum(sparse * 3), values)
    sparse = untyped_torch.sparse_coo_tensor(indices, values, (3, 4))
    record_gradients("sum over a dimension", torch.sparse.sum(sparse, 0).to_dense().sum(), values)
    sparse = untyped_torch.sparse_coo_tensor(indices, values, (3, 4))
    doubled = untyped_torch.sparse_coo_tensor(indices, values * 2, (3, 4))
    record_gradients("sum of two", ((sparse + doubled).to_dense() * weights).sum(), values)
    sparse = untyped_torch.sparse_coo_tensor(indices, values, (3, 4))
    record_gradients("transposed", (sparse.t().to_dense() * weights.t()).sum(), values)


@behaviour(
    "sparse",
    capabilities=("autograd",),
    level="core",
    dtypes=("float32", "float64"),
    must_detect=("value",),
    page="generated/torch.nn.functional.embedding.html",
)
def sparse_gradients_of_dense(lab: Lab) -> None:
    """The sparse gradients of ``gather`` and ``embedding`` have the values of the dense gradients. They can
    be accumulated with dense gradients.
    """
    weight: Any = lab.integers(5, 3, requires_grad=True)
    where = lab.put([[1, 4], [1, 0]])
    out = torch.nn.functional.embedding(where, weight, sparse=True)
    out.sum().backward()
    lab.same("layout", weight.grad.layout)
    lab.same("embedding", weight.grad.to_dense())
    torch.nn.functional.embedding(where, weight, sparse=True).sum().backward()
    lab.same("twice", weight.grad.to_dense())
    (weight * 2).sum().backward()
    lab.same("with a dense one", _to_dense(weight.grad))
    with lab.parity("No page gives the layout of a sum of sparse and dense gradients"):
        lab.same("layout after both", weight.grad.layout)
    for dim, index in ((0, [[0, 4, 1]]), (1, [[0, 2], [1, 1]]), (-1, [[0], [2]])):
        x: Any = lab.integers(5, 3, requires_grad=True)
        torch.gather(x, dim, lab.put(index), sparse_grad=True).sum().backward()
        lab.same(f"gather over {dim}", [x.grad.layout, x.grad.to_dense()])
    scalar: Any = lab.put(3.0, dtype=lab.dtype, requires_grad=True)
    torch.gather(scalar, 0, lab.put(0), sparse_grad=True).backward()
    with lab.parity("No page says that a tensor without dimensions is treated as one-dimensional here"):
        lab.same("gather from no dimensions", _to_dense(scalar.grad))
    line: Any = lab.integers(4, requires_grad=True)
    torch.gather(line, 0, lab.put([2]), sparse_grad=True).sum().backward()
    lab.same("gather from a line", line.grad.to_dense())


@behaviour(
    "sparse",
    level="core",
    dtypes=("float64",),
    must_detect=("value",),
    page="generated/torch.autograd.gradcheck.gradcheck.html",
    basis="consistency",
    ground="analytical gradients must agree with differences of the forward function",
)
def gradcheck_of_sparse(lab: Lab) -> None:
    """``gradcheck`` passes for conversions, masks and products of sparse tensors."""
    dense = lab.floats(3, 4, low=0.5, high=1.5)
    mask = (dense > 0.9).to(dense.dtype)
    sparse = (dense * mask).to_sparse().requires_grad_()
    lab.same("to_dense", gradcheck(lambda s: s.to_dense(masked_grad=True), (sparse,), masked=True))
    right = lab.floats(4, 2).requires_grad_()
    lab.same("product", gradcheck(lambda s, r: torch.sparse.mm(s, r), (sparse, right), masked=True))
    lab.same("sum", gradcheck(lambda s: torch.sparse.sum(s), (sparse,), masked=True))
    values = sparse.detach().values().clone().requires_grad_()
    indices = sparse.detach().indices()
    lab.same(
        "construction",
        gradcheck(
            lambda v: untyped_torch.sparse_coo_tensor(indices, v, (3, 4), is_coalesced=True).to_dense(),
            (values,),
        ),
    )
    lab.same("number of elements", mask.sum())
