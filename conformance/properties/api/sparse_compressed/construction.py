"""CSR, CSC, BSR and BSC tensors: construction, parts, and conversions among layouts."""

from __future__ import annotations

import io

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab

LAYOUTS = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
KINDS = ("float32", "float64", "int64", "bool", "complex64")


def compressed(dense: torch.Tensor, layout: torch.layout) -> torch.Tensor:
    """A dense matrix of even sizes in a compressed layout, with blocks of two by two."""
    if layout in (torch.sparse_bsr, torch.sparse_bsc):
        return dense.to_sparse(layout=layout, blocksize=(2, 2))
    return dense.to_sparse(layout=layout)


def parts(sparse: torch.Tensor) -> list[torch.Tensor]:
    """Compressed indices, plain indices and values."""
    if sparse.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [sparse.crow_indices(), sparse.col_indices(), sparse.values()]
    return [sparse.ccol_indices(), sparse.row_indices(), sparse.values()]


@behaviour("sparse-compressed", dtypes=KINDS, level="core", sees=("value",))
def compressed_conversions(lab: Lab) -> None:
    """Dense to compressed and back keeps values; indices are sorted; layouts convert into one another."""
    dense = lab.integers(4, 6, low=-1, high=2)
    for layout in LAYOUTS:
        sparse = compressed(dense, layout)
        lab.same(f"parts of {layout}", parts(sparse))
        lab.same(f"dense of {layout}", sparse.to_dense())
        lab.same(
            f"flags of {layout}",
            [sparse.layout, sparse.shape, sparse.dtype, sparse._nnz(), sparse.dense_dim()],
        )
        back = sparse.to_sparse(layout=torch.sparse_coo) if layout in LAYOUTS[:2] else sparse.to_sparse()
        lab.same(f"COO of {layout}", [back.layout, back.to_dense()])
        lab.same(f"to itself {layout}", compressed(dense, layout).to(lab.device).to_dense())
    csr = dense.to_sparse_csr()
    for layout, converted in {  # type: ignore[assignment]
        "CSC": csr.to_sparse_csc(),
        "BSR": csr.to_sparse_bsr((2, 3)),
        "BSC": csr.to_sparse_bsc((2, 3)),
        "CSR": dense.to_sparse_csc().to_sparse_csr(),
        "of COO": dense.to_sparse().to_sparse_csr(),
        "CSC of COO": dense.to_sparse().to_sparse_csc(),
    }.items():
        lab.same(f"{layout}: dense", converted.to_dense())
        lab.same(f"{layout}: parts", parts(converted))
    batch = torch.ones(2, 4, 4, dtype=lab.dtype, device=lab.device)
    for layout in LAYOUTS:
        sparse = compressed(batch, layout)
        lab.same(f"batch of {layout}", [sparse.shape, sparse.to_dense(), *parts(sparse)])
    hybrid = lab.integers(4, 2, 3).to_sparse(layout=torch.sparse_csr, dense_dim=1)
    lab.same("with a dense dimension", [hybrid.dense_dim(), hybrid.to_dense()])
    zeros = torch.zeros(2, 4, device=lab.device, dtype=lab.dtype)
    for layout in LAYOUTS:
        lab.same(
            f"zeros in {layout}", [compressed(zeros, layout)._nnz(), compressed(zeros, layout).to_dense()]
        )


@behaviour("sparse-compressed", level="core", dtypes=("float32", "int64"), sees=("value",))
def compressed_factories(lab: Lab) -> None:
    """The factories take indices of int32 and int64, infer sizes, and run the checks that they
    are asked for.
    """
    heads, tails = lab.put([0, 1, 3]), lab.put([1, 0, 2])
    values = lab.integers(3)
    blocks = lab.integers(3, 2, 1)
    for name, call, given in (
        ("csr", torch.sparse_csr_tensor, values),
        ("csc", torch.sparse_csc_tensor, values),
        ("bsr", torch.sparse_bsr_tensor, blocks),
        ("bsc", torch.sparse_bsc_tensor, blocks),
    ):
        sparse = call(heads, tails, given)
        lab.same(f"{name}: inferred size", sparse.shape)
        lab.same(f"{name}: parts", parts(sparse))
        lab.same(f"{name}: dense", sparse.to_dense())
        narrow = call(heads.int(), tails.int(), given)
        lab.same(f"{name}: int32", [part.dtype for part in parts(narrow)])
        sized = call(heads, tails, given, sparse.shape, dtype=torch.float64)
        lab.same(f"{name}: size and dtype", [sized.shape, sized.dtype, sized.to_dense()])
        # Wrong values of indices on the host: a device may find them in its kernels, by an assertion that
        # ends its use.
        first, last, held = heads.cpu(), tails.cpu(), given.cpu()
        lab.raises(
            f"{name}: heads that do not start at 0",
            lambda: call(first + 1, last, held, check_invariants=True),
        )
        lab.raises(
            f"{name}: heads that fall",
            lambda: call(torch.tensor([0, 3, 0]), last, held, check_invariants=True),
        )
        lab.raises(
            f"{name}: indices of two dtypes",
            lambda: call(heads, tails.int(), given, check_invariants=True),
        )
        lab.raises(f"{name}: too few values", lambda: call(heads, tails, given[:2], check_invariants=True))
        lab.raises(f"{name}: a negative place", lambda: call(first, last - 1, held, check_invariants=True))
    lab.raises(
        "a place outside",
        lambda: torch.sparse_csr_tensor(
            heads.cpu(), tails.cpu(), values.cpu(), (2, 2), check_invariants=True
        ),
    )
    lab.raises(
        "floating indices",
        lambda: torch.sparse_csr_tensor(heads.float(), tails.float(), values, check_invariants=True),
    )
    by_layout = torch.sparse_compressed_tensor(heads, tails, values, layout=torch.sparse_csr)
    lab.same("by layout", [by_layout.layout, by_layout.to_dense()])
    lists = torch.sparse_csr_tensor([0, 1, 2], [1, 0], [1.0, 2.0], device=lab.device)
    lab.expect("of lists", lists.to_dense(), [[0.0, 1.0], [2.0, 0.0]])
    lab.raises(
        "a layout that is not compressed",
        lambda: torch.sparse_compressed_tensor(heads, tails, values, layout=torch.strided),
    )
    lab.raises("blocks that do not fit", lambda: lab.integers(4, 6).to_sparse_bsr((3, 4)))


@behaviour("sparse-compressed", level="core", dtypes=("float32", "int64"), sees=("value",))
def compressed_parts_and_copies(lab: Lab) -> None:
    """Values are shared with the tensor; clones, pickles, saved files and host copies have the same parts."""
    dense = lab.integers(4, 4, low=-1, high=2)
    for layout in LAYOUTS:
        sparse = compressed(dense, layout)
        sparse.values().mul_(3)
        lab.same(f"after its values were changed {layout}", sparse.to_dense())
        buffer = io.BytesIO()
        torch.save(sparse, buffer)
        buffer.seek(0)
        for name, copied in {
            "clone": sparse.clone(),
            "saved": torch.load(buffer, weights_only=True),
            "round trip": sparse.cpu().to(lab.device),
            "copy": sparse.clone().copy_(sparse),
            "detach": sparse.detach(),
        }.items():
            lab.same(f"{name} {layout}", parts(copied))
        lab.same(f"on the host {layout}", parts(sparse.cpu()), host=True)
        lab.same(f"another dtype {layout}", sparse.to(torch.float64).to_dense())
        empty = torch.empty(4, 4, layout=layout, device=lab.device) if layout in LAYOUTS[:2] else sparse
        lab.same(f"empty {layout}", [empty.layout, empty.shape])
        wrong = "ccol_indices" if layout in (torch.sparse_csr, torch.sparse_bsr) else "crow_indices"
        lab.raises(f"the other kind of indices {layout}", lambda: getattr(sparse, wrong)())
        lab.raises(f"COO indices {layout}", lambda: sparse.indices())
        text = repr(sparse)
        lab.holds(f"{layout} prints its layout and values", f"layout={layout}" in text and "values=" in text)
        like = torch.zeros_like(sparse)
        lab.same(f"zeros_like {layout}", [like.layout, like.shape, like.to_dense()])
    lab.raises("values of a dense tensor", lambda: dense.crow_indices())


@behaviour("sparse-compressed", level="core", dtypes=("float32", "float64", "int64"), sees=("value",))
def compressed_views(lab: Lab) -> None:
    """Rows, transposes and batches of compressed tensors equal those of dense ones; the transpose has the
    sibling layout.
    """
    dense = lab.integers(4, 6, low=-1, high=2)
    for layout in LAYOUTS:
        sparse = compressed(dense, layout)
        turned = sparse.transpose(0, 1)
        lab.same(f"transposed {layout}", [turned.layout, turned.shape, turned.to_dense()])
    csr, csc = dense.to_sparse_csr(), dense.to_sparse_csc()
    for place in (0, 1, -1):
        lab.same(
            f"row {place}",
            csr.select(0, place).to_dense()
            if csr.select(0, place).layout is not torch.strided
            else csr.select(0, place),
        )
        lab.same(f"element {place}", csr[place, 0])
        column = csc.select(1, place)
        lab.same(f"column {place}", column.to_dense() if column.layout is not torch.strided else column)
    batch = lab.integers(2, 4, 4, low=1).to_sparse_csr()
    lab.same("one of a batch", [batch[1].layout, batch[1].to_dense()])
    lab.raises("a row outside", lambda: csr.select(0, 9), IndexError)
    resized = csr.clone()
    resized.resize_(5, 6)
    lab.same("with one more row", [resized.shape, resized.crow_indices()])
