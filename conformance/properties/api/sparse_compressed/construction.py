"""Check CSR, CSC, BSR and BSC tensors: construction, indices and values, copies, and conversions between
layouts.
"""

from __future__ import annotations

import io

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab

LAYOUTS = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
DTYPES = ("float32", "float64", "int64", "bool", "complex64")


def to_compressed(dense: torch.Tensor, layout: torch.layout) -> torch.Tensor:
    """Return a dense matrix converted to a compressed layout. Block layouts have blocks of 2 by 2, so the
    sizes of the matrix must be even.
    """
    if layout in (torch.sparse_bsr, torch.sparse_bsc):
        return dense.to_sparse(layout=layout, blocksize=(2, 2))
    return dense.to_sparse(layout=layout)


def indices_and_values(sparse: torch.Tensor) -> list[torch.Tensor]:
    """Return the compressed indices, the plain indices and the values of a compressed tensor."""
    if sparse.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [sparse.crow_indices(), sparse.col_indices(), sparse.values()]
    return [sparse.ccol_indices(), sparse.row_indices(), sparse.values()]


@behaviour(
    "sparse-compressed",
    capabilities=("sparse",),
    dtypes=DTYPES,
    level="core",
    must_detect=("value",),
    ground="Examples show the order of the indices",
)
def compressed_conversions(lab: Lab) -> None:
    """Conversion from dense to a compressed layout and back preserves values. The indices are sorted. Each
    layout can be converted to other layouts.
    """
    dense = lab.integers(4, 6, low=-1, high=2)
    for layout in LAYOUTS:
        sparse = to_compressed(dense, layout)
        lab.same(f"parts of {layout}", indices_and_values(sparse))
        lab.same(f"dense of {layout}", sparse.to_dense())
        lab.same(
            f"flags of {layout}",
            [sparse.layout, sparse.shape, sparse.dtype, sparse._nnz(), sparse.dense_dim()],
        )
        back = sparse.to_sparse(layout=torch.sparse_coo) if layout in LAYOUTS[:2] else sparse.to_sparse()
        lab.same(f"COO of {layout}", [back.layout, back.to_dense()])
        lab.same(f"to itself {layout}", to_compressed(dense, layout).to(lab.device).to_dense())
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
        lab.same(f"{layout}: parts", indices_and_values(converted))
    batch = torch.ones(2, 4, 4, dtype=lab.dtype, device=lab.device)
    for layout in LAYOUTS:
        sparse = to_compressed(batch, layout)
        lab.same(f"batch of {layout}", [sparse.shape, sparse.to_dense(), *indices_and_values(sparse)])
    hybrid = lab.integers(4, 2, 3).to_sparse(layout=torch.sparse_csr, dense_dim=1)
    lab.same("with a dense dimension", [hybrid.dense_dim(), hybrid.to_dense()])
    zeros = torch.zeros(2, 4, device=lab.device, dtype=lab.dtype)
    for layout in LAYOUTS:
        lab.same(
            f"zeros in {layout}",
            [to_compressed(zeros, layout)._nnz(), to_compressed(zeros, layout).to_dense()],
        )


@behaviour("sparse-compressed", level="core", dtypes=("float32", "int64"), must_detect=("value",))
def compressed_factories(lab: Lab) -> None:
    """The factories of compressed tensors accept int32 and int64 indices and infer the size. With
    ``check_invariants``, they check their arguments.
    """
    compressed_indices, plain_indices = lab.put([0, 1, 3]), lab.put([1, 0, 2])
    values = lab.integers(3)
    blocks = lab.integers(3, 2, 1)
    for name, call, values_or_blocks in (
        ("csr", torch.sparse_csr_tensor, values),
        ("csc", torch.sparse_csc_tensor, values),
        ("bsr", torch.sparse_bsr_tensor, blocks),
        ("bsc", torch.sparse_bsc_tensor, blocks),
    ):
        sparse = call(compressed_indices, plain_indices, values_or_blocks)
        lab.same(f"{name}: inferred size", sparse.shape)
        lab.same(f"{name}: parts", indices_and_values(sparse))
        lab.same(f"{name}: dense", sparse.to_dense())
        narrow = call(compressed_indices.int(), plain_indices.int(), values_or_blocks)
        lab.same(f"{name}: int32", [part.dtype for part in indices_and_values(narrow)])
        sized = call(compressed_indices, plain_indices, values_or_blocks, sparse.shape, dtype=torch.float64)
        lab.same(f"{name}: size and dtype", [sized.shape, sized.dtype, sized.to_dense()])
        # Invalid index values are checked on the CPU, because a device kernel may detect them by an assertion
        # that makes the device unusable.
        host_compressed, host_plain, host_values = (
            compressed_indices.cpu(),
            plain_indices.cpu(),
            values_or_blocks.cpu(),
        )
        lab.raises(
            f"{name}: compressed indices that do not start at 0",
            lambda: call(host_compressed + 1, host_plain, host_values, check_invariants=True),
        )
        lab.raises(
            f"{name}: heads that fall",
            lambda: call(torch.tensor([0, 3, 0]), host_plain, host_values, check_invariants=True),
        )
        with lab.parity("No page says that both indices must have one dtype"):
            lab.raises(
                f"{name}: indices of two dtypes",
                lambda: call(
                    compressed_indices, plain_indices.int(), values_or_blocks, check_invariants=True
                ),
            )
        lab.raises(
            f"{name}: too few values",
            lambda: call(compressed_indices, plain_indices, values_or_blocks[:2], check_invariants=True),
        )
        lab.raises(
            f"{name}: a negative place",
            lambda: call(host_compressed, host_plain - 1, host_values, check_invariants=True),
        )
    lab.raises(
        "a place outside",
        lambda: torch.sparse_csr_tensor(
            compressed_indices.cpu(), plain_indices.cpu(), values.cpu(), (2, 2), check_invariants=True
        ),
    )
    lab.raises(
        "floating indices",
        lambda: torch.sparse_csr_tensor(
            compressed_indices.float(), plain_indices.float(), values, check_invariants=True
        ),
    )
    by_layout = torch.sparse_compressed_tensor(
        compressed_indices, plain_indices, values, layout=torch.sparse_csr
    )
    lab.same("by layout", [by_layout.layout, by_layout.to_dense()])
    lists = torch.sparse_csr_tensor([0, 1, 2], [1, 0], [1.0, 2.0], device=lab.device)
    lab.expect("of lists", lists.to_dense(), [[0.0, 1.0], [2.0, 0.0]])
    with lab.parity("The page lists four layouts, but does not say that other layouts are refused"):
        lab.raises(
            "a layout that is not compressed",
            lambda: torch.sparse_compressed_tensor(
                compressed_indices, plain_indices, values, layout=torch.strided
            ),
        )
    lab.raises(
        "blocks that do not divide the matrix",
        lambda: lab.integers(4, 6).to_sparse_bsr((3, 4)),
        type_is_documented=True,
    )


@behaviour(
    "sparse-compressed",
    capabilities=("serialization",),
    level="core",
    dtypes=("float32", "int64"),
    must_detect=("value",),
    basis="consistency",
    ground="each copy must agree with the original in indices and values",
)
def compressed_parts_and_copies(lab: Lab) -> None:
    """``values()`` shares the tensor's memory. Clones, saved files and copies on the CPU have the same
    indices and values.
    """
    dense = lab.integers(4, 4, low=-1, high=2)
    for layout in LAYOUTS:
        sparse = to_compressed(dense, layout)
        sparse.values().mul_(3)
        with lab.documented():
            lab.same(f"dense form after a write to the values, {layout}", sparse.to_dense())
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
            lab.same(f"{name} {layout}", indices_and_values(copied))
        lab.same(f"on the host {layout}", indices_and_values(sparse.cpu()), host=True)
        with lab.documented():
            lab.same(f"another dtype {layout}", sparse.to(torch.float64).to_dense())
        empty = torch.empty(4, 4, layout=layout, device=lab.device) if layout in LAYOUTS[:2] else sparse
        with lab.documented():
            lab.same(f"empty {layout}", [empty.layout, empty.shape])
        wrong = "ccol_indices" if layout in (torch.sparse_csr, torch.sparse_bsr) else "crow_indices"
        with lab.documented():
            lab.raises(f"indices of another compressed layout, {layout}", lambda: getattr(sparse, wrong)())
            lab.raises(f"COO indices {layout}", lambda: sparse.indices())
        text = repr(sparse)
        with lab.documented():
            lab.holds(
                f"{layout} prints its layout and values", f"layout={layout}" in text and "values=" in text
            )
        like = torch.zeros_like(sparse)
        with lab.documented():
            lab.same(f"zeros_like {layout}", [like.layout, like.shape, like.to_dense()])
    with lab.documented():
        lab.raises("crow_indices of a dense tensor", lambda: dense.crow_indices())


@behaviour(
    "sparse-compressed",
    level="core",
    dtypes=("float32", "float64", "int64"),
    must_detect=("value",),
    page="generated/torch.transpose.html",
    ground="rows, columns and elements have the values of the dense matrix",
)
def compressed_views(lab: Lab) -> None:
    """Rows, columns, transposes and batch elements of compressed tensors equal the results of dense tensors.
    The transpose of a row layout has the corresponding column layout, and the transpose of a column layout
    has the row layout.
    """
    dense = lab.integers(4, 6, low=-1, high=2)
    for layout in LAYOUTS:
        sparse = to_compressed(dense, layout)
        turned = sparse.transpose(0, 1)
        lab.same(f"transposed {layout}", [turned.layout, turned.shape, turned.to_dense()])
    csr, csc = dense.to_sparse_csr(), dense.to_sparse_csc()
    for index in (0, 1, -1):
        with lab.parity("The page of select allows an error if a sparse tensor has no view"):
            row, element, column = csr.select(0, index), csr[index, 0], csc.select(1, index)
        lab.same(f"row {index}", row.to_dense() if row.layout is not torch.strided else row)
        lab.same(f"element {index}", element)
        lab.same(f"column {index}", column.to_dense() if column.layout is not torch.strided else column)
    batch = lab.integers(2, 4, 4, low=1).to_sparse_csr()
    with lab.parity("The page of select allows an error if a sparse tensor has no view"):
        part = batch[1]
    lab.same("one of a batch", [part.layout, part.to_dense()])
    lab.raises("a row outside", lambda: csr.select(0, 9), IndexError)
    resized = csr.clone()
    resized.resize_(5, 6)
    with lab.parity("No page says that resize_ supports compressed layouts"):
        lab.same("with one more row", [resized.shape, resized.crow_indices()])
