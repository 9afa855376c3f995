"""Check arithmetic of compressed tensors: the results equal the results of dense tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.sparse_compressed.construction import LAYOUTS, to_compressed


def _to_dense(value: torch.Tensor) -> torch.Tensor:
    """Return the value as a dense tensor."""
    return value.to_dense() if value.layout is not torch.strided else value


@behaviour(
    "sparse-compressed",
    level="core",
    dtypes=("float32", "float64", "complex64"),
    must_detect=("value",),
    ground="The page lists products of CSR and dense; formats do not influence the meaning of other products",
)
def compressed_products(lab: Lab) -> None:
    """Products of CSR and CSC matrices with dense matrices, with vectors and with each other equal the
    products of dense tensors.
    """
    dense = lab.integers(4, 6, low=-1, high=2)
    right, vector, added = lab.integers(6, 2), lab.integers(6), lab.integers(4, 2)
    for layout in LAYOUTS[:2]:
        sparse = to_compressed(dense, layout)
        factor = to_compressed(lab.integers(6, 4, low=-1, high=2), layout)
        listed: dict[str, Callable[[], torch.Tensor]] = {
            "mm": lambda: sparse @ right,
            "strided right": lambda: sparse @ lab.integers(2, 6).t(),
            "sparse.mm": lambda: torch.sparse.mm(sparse, right),
        }
        others: dict[str, Callable[[], torch.Tensor]] = {
            "addmm": lambda: torch.addmm(added, sparse, right, beta=2, alpha=3),
            "sparse by sparse": lambda: sparse @ factor,
            "dense on the left": lambda: lab.integers(2, 4) @ sparse,
        }
        for name, call in {**listed, **others}.items():
            with (
                contextlib.nullcontext()
                if name in listed and layout is torch.sparse_csr
                else lab.parity("No page lists this product, and the page of sparse.mm calls CSC unsupported")
            ):
                result = call()
            lab.same(f"{name} {layout}", _to_dense(result))
        with lab.parity("No page says that matrices whose sizes do not match are refused"):
            lab.raises(f"matrices whose sizes do not match, {layout}", lambda: sparse @ lab.integers(4, 2))
    csr = dense.to_sparse_csr()
    lab.same("vector", csr @ vector)
    with lab.parity("No page lists addmv for CSR matrices"):
        sum_of_vectors = torch.addmv(lab.integers(4), csr, vector, beta=3, alpha=2)
    lab.same("addmv", sum_of_vectors)
    out = torch.empty(4, 2, dtype=lab.dtype, device=lab.device)
    lab.holds("out= is returned", torch.mm(csr, right, out=out) is out)
    lab.same("out=", out)
    lab.same("of none", torch.zeros(4, 6, dtype=lab.dtype, device=lab.device).to_sparse_csr() @ right)
    lab.same("of no columns", csr @ lab.integers(6, 0))
    sampled = torch.sparse.sampled_addmm(csr, lab.integers(4, 3), lab.integers(3, 6), beta=0.5, alpha=2)
    lab.same("sampled_addmm", [sampled.layout, sampled.to_dense()])


@behaviour(
    "sparse-compressed",
    level="core",
    dtypes=("float32", "float64"),
    must_detect=("value",),
    ground="The page says that formats do not influence the meaning; no table lists block products",
)
def block_products(lab: Lab) -> None:
    """Products of block-sparse matrices with dense matrices equal the products of dense tensors."""
    dense = lab.integers(4, 6, low=-1, high=2)
    bsr = to_compressed(dense, torch.sparse_bsr)
    right = lab.integers(6, 4)
    with lab.parity("No table lists block products, and the page of sparse.mm calls them unsupported"):
        results = {
            "mm": bsr @ right,
            "addmm": torch.addmm(lab.integers(4, 4), bsr, right, beta=2, alpha=3),
        }
    with lab.parity("The page of linear does not say which sparse layouts it supports"):
        results["linear"] = torch.nn.functional.linear(lab.integers(2, 6), bsr)
    for name, result in results.items():
        lab.same(name, _to_dense(result))


@behaviour(
    "sparse-compressed",
    level="core",
    dtypes=("float32", "float64", "complex64"),
    must_detect=("value",),
    ground="The page says that the storage format does not influence the meaning of an operation",
)
def compressed_sums(lab: Lab) -> None:
    """Sums of CSR matrices of any sparsity patterns, with ``alpha`` and with dense matrices, equal the sums
    of dense tensors. Products with numbers equal the products of dense tensors.
    """
    a, b = (
        lab.integers(4, 6, low=-1, high=2).to_sparse_csr(),
        lab.integers(4, 6, low=-1, high=2).to_sparse_csr(),
    )
    full = lab.integers(4, 6)
    none = torch.zeros(4, 6, dtype=lab.dtype, device=lab.device).to_sparse_csr()
    with lab.parity("The page lists elementwise sums and products for COO tensors, not for CSR"):
        results = {
            "sum": a + b,
            "factor": torch.add(a, b, alpha=2),
            "with none": a + none,
            "dense": full + a,
            "dense factor": torch.add(full, a, alpha=3),
            "number": a * 3,
            "number in place": a.clone().mul_(2),
            "product": a * b,
            "with a dense": a * full,
            "negative": -a,
            "in place": a.clone().add_(b),
        }
        whole = a.sum()
    for name, result in results.items():
        lab.same(name, _to_dense(result))
        with lab.parity("The page gives the layout only of a sparse tensor added to a dense one"):
            lab.same(f"layout of {name}", result.layout)
    lab.raises("other sizes", lambda: a + lab.integers(2, 6).to_sparse_csr())
    lab.same("sum of everything", whole)


@behaviour("sparse-compressed", level="core", dtypes=("float32", "float64"), must_detect=("value",))
def compressed_functions(lab: Lab) -> None:
    """Functions that map zero to zero preserve the sparsity pattern of compressed tensors, also in place and
    with ``out=``.
    """
    dense = lab.integers(4, 6, low=-1, high=2)
    for layout in LAYOUTS:
        sparse = to_compressed(dense, layout)
        for name in [
            "abs",
            "neg",
            "sign",
            "sin",
            "tanh",
            "relu",
            "sqrt",
            "expm1",
            "floor",
            "isnan",
            "signbit",
            "angle",
            "round",
            "positive",
        ]:
            source = to_compressed(dense * dense, layout) if name == "sqrt" else sparse
            with (
                lab.parity("The page does not list this function for sparse tensors")
                if name in ("relu", "positive")
                else contextlib.nullcontext()
            ):
                result = getattr(torch, name)(source)
            lab.same(f"layout and dtype of {name} {layout}", [result.layout, result.dtype])
            with lab.parity("No page says that zeros among the results are stored"):
                lab.same(f"elements of {name} {layout}", result._nnz())
            lab.close(f"{name} {layout}", result.to_dense().float(), roundings=64)
    csr = dense.to_sparse_csr()
    changed = csr.clone()
    lab.holds("sin_ returns its tensor", changed.sin_() is changed)
    lab.close("in place", changed.to_dense(), roundings=64)
    out = csr.clone()
    torch.neg(csr, out=out)
    lab.same("out=", out.to_dense())


@behaviour(
    "sparse-compressed",
    capabilities=("autograd",),
    level="core",
    dtypes=("float32",),
    must_detect=("value",),
    page="generated/torch.sparse.mm.html",
    ground="The page promises gradients of CSR products; gradients of conversions follow from the definition",
)
def compressed_gradients(lab: Lab) -> None:
    """Gradients flow through conversions to and from compressed layouts, and through products with compressed
    tensors.
    """
    dense = lab.integers(4, 6, low=-1, high=2)
    weights = lab.integers(4, 6)
    for layout in LAYOUTS:
        leaf: Any = dense.clone().requires_grad_()
        (to_compressed(leaf, layout).to_dense() * weights).sum().backward()
        lab.same(f"gradient through conversion to {layout} and back", _to_dense(leaf.grad) * (dense != 0))
    csr: Any = dense.to_sparse_csr().requires_grad_()
    right = lab.integers(6, 2, requires_grad=True)
    torch.sparse.mm(csr, right).sum().backward()
    lab.same("gradient of the dense factor", right.grad)
    lab.same("gradient of the CSR factor", [_to_dense(csr.grad) * (dense != 0)])
    values = lab.integers(3, requires_grad=True)
    sparse = torch.sparse_csr_tensor(lab.put([0, 1, 3]), lab.put([1, 0, 2]), values, (2, 3))
    (sparse.to_dense() * lab.integers(2, 3)).sum().backward()
    lab.same("gradient of values", values.grad)


@behaviour(
    "sparse-compressed",
    level="core",
    dtypes=("float32", "float64"),
    must_detect=("value",),
    page="generated/torch.triangular_solve.html",
    basis="consistency",
    ground="The solution for the CSR matrix must agree with the solution for the dense matrix",
)
def compressed_solves(lab: Lab) -> None:
    """``triangular_solve`` with a CSR matrix returns the solution of the dense system."""
    lower = torch.tril(lab.integers(4, 4)) + 5 * torch.eye(4, dtype=lab.dtype, device=lab.device)
    right = lab.integers(4, 2)
    dense = torch.linalg.solve_triangular(lower, right, upper=False)
    lab.close("dense", dense, roundings=512)
    with lab.parity("No page lists triangular_solve for CSR matrices"):
        result = torch.triangular_solve(right, lower.to_sparse_csr(), upper=False)
    lab.close("CSR", result.solution, roundings=512)
    lab.close("residual", lower @ result.solution, roundings=512)
