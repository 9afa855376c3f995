"""Check arithmetic of COO tensors: the results equal the results of dense tensors."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.sparse.construction import uncoalesced_coo_tensor

#: ``torch`` as an untyped object: its type stubs do not allow some calls of ``sparse_coo_tensor``, such as
#: calls with lists or with a size only.
untyped_torch: Any = torch

NUMBERS = ("float32", "float64", "int64", "complex64")


def _to_dense(value: torch.Tensor) -> torch.Tensor:
    """Return the value as a dense tensor."""
    return value.to_dense() if value.layout is not torch.strided else value


@behaviour(
    "sparse",
    dtypes=NUMBERS,
    level="core",
    must_detect=("value",),
    ground="The page says that the storage format does not influence the meaning of an operation",
)
def sums_of_sparse(lab: Lab) -> None:
    """Sums and differences of sparse tensors, also with dense tensors, equal the results of dense tensors.
    This holds with ``alpha``, in place and for different sparsity patterns.
    """
    for dense in ((), (2,)):
        a, b = uncoalesced_coo_tensor(lab, *dense), uncoalesced_coo_tensor(lab, *dense).coalesce()
        empty = untyped_torch.sparse_coo_tensor(a.shape, dtype=a.dtype, device=a.device)
        full = lab.integers(*a.shape)
        results = {
            "sum": a + b,
            "difference": a - b,
            "with a factor": torch.add(a, b, alpha=3),
            "with itself": a + a,
            "with none": a + empty,
            "of none": empty + empty,
            "none with": empty + b,
            "dense and sparse": full + a,
            "dense, factor": torch.add(full, a, alpha=2),
            "sub": torch.sub(a, b, alpha=2),
            "in place": a.clone().add_(b),
            "in place, factor": a.clone().sub_(b, alpha=2),
            "dense in place": full.clone().add_(a),
            "strided dense": full.transpose(0, 1).contiguous().transpose(0, 1) + a,
        }
        for name, result in results.items():
            lab.same(f"{name} {dense}", _to_dense(result))
            lab.same(f"layout of {name} {dense}", result.layout)
    out = torch.empty(3, 4, dtype=lab.dtype, device=lab.device, layout=torch.sparse_coo)
    first = uncoalesced_coo_tensor(lab)
    lab.holds("out= is returned", torch.add(first, first, out=out) is out)
    lab.same("out=", out.to_dense())


@behaviour(
    "sparse",
    level="core",
    must_detect=("error",),
    basis="parity",
    ground="No page says that division by sparse tensors and powers of sparse tensors are refused",
)
def refused_sparse_sums(lab: Lab) -> None:
    """Sums of sparse tensors with different sizes raise an error. Division by a sparse tensor, powers of
    sparse tensors, and ``exp``, which does not map zero to zero, raise errors too.
    """
    a = uncoalesced_coo_tensor(lab)
    with lab.documented():
        lab.raises("other sizes", lambda: a + untyped_torch.sparse_coo_tensor((2, 2), device=lab.device))
        lab.raises("adding a dense tensor of another size", lambda: a + lab.integers(2, 4))
    lab.raises("dense by sparse", lambda: lab.integers(3, 4) / a)
    lab.raises("sparse by sparse", lambda: a / a)
    lab.raises("floor division by sparse", lambda: a // a)
    lab.raises("sparse tensor to the power of a sparse tensor", lambda: a**a)
    with lab.documented():
        lab.raises("exp of a sparse tensor", lambda: torch.exp(a), RuntimeError, NotImplementedError)


@behaviour(
    "sparse",
    dtypes=NUMBERS,
    level="core",
    must_detect=("value",),
    ground="The page says that the storage format does not influence the meaning of an operation",
)
def products_of_sparse(lab: Lab) -> None:
    """Sparse tensors can be multiplied elementwise by numbers, sparse tensors and dense tensors, and divided
    by numbers. The results equal the results of dense tensors.
    """
    a, b = uncoalesced_coo_tensor(lab), uncoalesced_coo_tensor(lab).coalesce()
    full = lab.integers(3, 4)
    results = {
        "number": a * 3,
        "number on the left": 3 * a,
        "tensor of no dimensions": a * torch.tensor(2, device=lab.device),
        "sparse": a * b,
        "sparse of other pattern": a
        * untyped_torch.sparse_coo_tensor(lab.put([[0, 1], [1, 1]]), lab.integers(2), (3, 4)),
        "with none": a * untyped_torch.sparse_coo_tensor((3, 4), dtype=a.dtype, device=a.device),
        "dense": a * full,
        "dense on the left": full * a,
        "in place": a.clone().mul_(2),
        "hybrid": uncoalesced_coo_tensor(lab, 2) * uncoalesced_coo_tensor(lab, 2),
        "negative": -a,
    }
    if lab.dtype != torch.int64:
        results["quotient"] = a / 2
        results["quotient in place"] = a.clone().div_(4)
    for name, result in results.items():
        lab.same(name, _to_dense(result))
    with lab.parity("No page gives the layout of the product of a sparse and a dense tensor"):
        lab.same("layouts", {name: result.layout for name, result in results.items()})
    if lab.dtype == torch.float32:
        for mode in ("floor", "trunc"):
            lab.same(f"rounded {mode}", torch.div(a.coalesce(), 2, rounding_mode=mode).to_dense())
        lab.same("floor division", (a.coalesce() // 2).to_dense())


@behaviour("sparse", level="core", dtypes=("float32", "float64", "complex64"), must_detect=("value",))
def sparse_matrix_products(lab: Lab) -> None:
    """Products of sparse matrices with dense matrices, vectors, batches and sparse matrices equal the
    products of dense tensors.
    """
    a = uncoalesced_coo_tensor(lab)
    right, vector = lab.integers(4, 2), lab.integers(4)
    added = lab.integers(3, 2)
    right_sparse = lab.integers(4, 3, low=-1, high=2).to_sparse()
    results = {
        "mm": torch.mm(a, right),
        "sparse.mm": torch.sparse.mm(a, right),
        "matmul": a @ right,
        "mv": torch.mv(a, vector),
        "matmul of a vector": a @ vector,
        "addmm": torch.addmm(added, a, right, beta=2, alpha=3),
        "sparse.addmm": torch.sparse.addmm(added, a, right, beta=2, alpha=3),
        "sparse by sparse": torch.sparse.mm(a, right_sparse),
        "matmul sparse": a @ right_sparse,
        "transposed": torch.mm(a.t(), lab.integers(3, 2)),
        "coalesced transposed": torch.mm(a.coalesce().t().coalesce(), lab.integers(3, 2)),
        "strided right": torch.mm(a, lab.integers(2, 4).t()),
        "of none": torch.mm(untyped_torch.sparse_coo_tensor((3, 4), dtype=a.dtype, device=a.device), right),
        "of no columns": torch.mm(a, lab.integers(4, 0)),
        "in place": added.clone().addmm_(a, right, beta=0.5, alpha=2),
        "hspmm": torch.hspmm(a, right),
        "smm": torch.smm(a, right),
        "sspaddmm": torch.sspaddmm(lab.integers(3, 2, low=0, high=2).to_sparse(), a, right),
    }
    for name, result in results.items():
        lab.same(name, _to_dense(result))
    out = torch.empty(3, 2, dtype=lab.dtype, device=lab.device)
    lab.same("out=", torch.mm(a, right, out=out))
    batch = lab.integers(2, 3, 4, low=-1, high=2)
    rest = lab.integers(2, 4, 2)
    lab.same("bmm", torch.bmm(batch.to_sparse(), rest))
    lab.same("bmm of an empty matrix", torch.bmm((batch * lab.put([[[1]], [[0]]])).to_sparse(), rest))
    with lab.parity("No page says that matrices whose sizes do not match are refused"):
        lab.raises("mm of matrices whose sizes do not match", lambda: torch.mm(a, lab.integers(3, 2)))
        lab.raises("mv with a vector of a wrong size", lambda: torch.mv(a, lab.integers(3)))


@behaviour(
    "sparse",
    level="core",
    dtypes=("float32", "float64"),
    must_detect=("value",),
    page="generated/torch.sparse.sum.html",
)
def sparse_reductions(lab: Lab) -> None:
    """``sum``, ``sparse.sum``, ``norm`` and ``softmax`` of sparse tensors equal their definitions over the
    stored elements.
    """
    a = uncoalesced_coo_tensor(lab, 2)
    flat = a.coalesce()
    with lab.parity("The page lists torch.sparse.sum for sparse tensors, but not torch.sum"):
        whole, over_first = a.sum(), torch.sum(flat, 0)
    lab.same("sum", whole)
    lab.same("sparse.sum", torch.sparse.sum(a))
    for dims in ((0,), (1,), (2,), (0, 1), (0, 2), (0, 1, 2), (-1,), (-3,)):
        result = torch.sparse.sum(a, dims)
        lab.same(f"over {dims}", _to_dense(result))
        lab.same(f"layout over {dims}", result.layout)
    lab.same("in another dtype", _to_dense(torch.sparse.sum(a, 0, dtype=torch.float64)))
    lab.same("sum over a dimension", _to_dense(over_first))
    with lab.parity("The page of sparse tensors does not list torch.norm"):
        norms = torch.norm(a), flat.norm(2)
    lab.close("norm", norms[0], roundings=64)
    lab.close("norm of the coalesced", norms[1], roundings=64)
    matrix = uncoalesced_coo_tensor(lab)
    for function in (torch.sparse.softmax, torch.sparse.log_softmax):
        for dim in (0, 1):
            result = function(matrix, dim).coalesce()
            lab.same(f"indices of {function.__name__} over {dim}", result.indices())
            lab.close(f"{function.__name__} over {dim}", result.values(), roundings=64)
        none = function(untyped_torch.sparse_coo_tensor((2, 3), dtype=lab.dtype, device=lab.device), 1)
        lab.same(f"{function.__name__} of none", [none._nnz(), none.shape])
    lab.same("any", [torch.any(matrix).item()])
    with lab.parity("No page says that a repeated dimension is refused"):
        lab.raises("a dimension twice", lambda: torch.sparse.sum(a, (0, 0)))
    with lab.parity("No page says that a dimension out of range is refused"):
        lab.raises("a dimension outside", lambda: torch.sparse.sum(a, 5), IndexError, RuntimeError)


@behaviour("sparse", level="core", dtypes=("float32", "float64", "int64"), must_detect=("value",))
def functions_of_sparse(lab: Lab) -> None:
    """Functions that map zero to zero accept sparse tensors: out of place, with ``out=``, in place, and for
    integers.
    """
    a = uncoalesced_coo_tensor(lab)
    names = [
        "abs",
        "neg",
        "negative",
        "sign",
        "sgn",
        "relu",
        "ceil",
        "floor",
        "round",
        "trunc",
        "isnan",
        "isinf",
        "signbit",
        "positive",
    ]
    floats = [
        "sin",
        "tan",
        "sinh",
        "tanh",
        "asin",
        "arcsin",
        "asinh",
        "atan",
        "atanh",
        "sqrt",
        "expm1",
        "log1p",
        "erf",
        "deg2rad",
        "rad2deg",
    ]
    for name in names + floats:
        if lab.dtype == torch.int64 and name in ("isinf", "signbit"):
            continue
        source = a if name in names else (a.coalesce() * a.coalesce())
        if name in ("asin", "arcsin", "atanh"):
            source = source / 64
        function = getattr(torch, name)
        with (
            lab.parity("The page does not list this function for sparse tensors")
            if name in ("relu", "positive")
            else contextlib.nullcontext()
        ):
            result = function(source)
        lab.same(f"layout and dtype of {name}", [result.layout, result.dtype])
        if name in floats:
            lab.close(name, result.to_dense(), roundings=64)
        else:
            lab.same(name, result.to_dense())
        if result.dtype == source.dtype and hasattr(torch.Tensor, f"{name}_"):
            changed = source.coalesce().clone()
            back = getattr(changed, f"{name}_")()
            lab.holds(f"{name}_ returns its tensor", back is changed)
            lab.close(f"{name}_", changed.to_dense(), roundings=64)
    whole = uncoalesced_coo_tensor(lab).coalesce()
    out = torch.zeros_like(whole)
    lab.same("out=", torch.abs(whole, out=out).to_dense())
    empty = untyped_torch.sparse_coo_tensor((0, 3), dtype=lab.dtype, device=lab.device)
    lab.same("of no elements", [torch.sin(empty).shape, torch.neg(empty).to_dense()])


@behaviour(
    "sparse",
    level="core",
    dtypes=("float32", "float64", "int64"),
    must_detect=("value",),
    page="generated/torch.Tensor.sparse_mask.html",
)
def masks_of_dense(lab: Lab) -> None:
    """``sparse_mask`` returns the elements of a dense or sparse tensor at the positions of the mask."""
    dense = lab.integers(3, 4)
    mask = uncoalesced_coo_tensor(lab).coalesce()
    result = dense.sparse_mask(mask)
    lab.same("positions", result.coalesce().indices())
    lab.same("values", result.coalesce().values())
    lab.same("dense", result.to_dense())
    hybrid = lab.integers(3, 4, 2).sparse_mask(uncoalesced_coo_tensor(lab, 2).coalesce())
    lab.same("hybrid", hybrid.to_dense())
    with lab.parity("The page masks strided tensors only"):
        lab.same("of a sparse tensor", uncoalesced_coo_tensor(lab).coalesce().sparse_mask(mask).to_dense())
    none = dense.sparse_mask(untyped_torch.sparse_coo_tensor((3, 4), dtype=lab.dtype, device=lab.device))
    lab.same("by none", [none._nnz(), none.to_dense()])
    lab.raises("sizes that differ", lambda: lab.integers(2, 4).sparse_mask(mask))
    with lab.parity("No page says that a dense mask is refused"):
        lab.raises("a dense mask", lambda: dense.sparse_mask(dense))
