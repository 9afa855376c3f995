"""Check COO tensors in rare cases: zero or one element, sizes beyond 64 bits, shared memory, and freed
objects.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.sparse.construction import uncoalesced_coo_tensor

#: ``torch`` as an untyped object: its type stubs do not allow some calls of ``sparse_coo_tensor``, such as
#: calls with lists or with a size only.
untyped_torch: Any = torch


@behaviour(
    "sparse",
    dtypes=("float32", "int64"),
    must_detect=("value", "alias"),
    page="generated/torch.sparse_coo_tensor.html",
    basis="parity",
    ground="No page says that the tensor uses the memory of the given indices and values",
)
def parts_given_to_a_sparse_tensor(lab: Lab) -> None:
    """A sparse tensor uses the memory of the given indices and values. A write into the indices or values
    changes the tensor.
    """
    indices, values = lab.put([[2]]), lab.put([5], dtype=lab.dtype)
    sparse = untyped_torch.sparse_coo_tensor(indices, values, (3,))
    values[0] = 6
    lab.expect("after a write into the values", sparse.to_dense(), [0, 0, 6])
    indices[0][0] = 0
    lab.expect("after a write into the indices", sparse.to_dense(), [6, 0, 0])
    none = untyped_torch.sparse_coo_tensor(lab.put([[2]]), lab.integers(1, 0), (3, 0))
    lab.same("values of no elements", [none.to_dense(), none._values()])
    lab.raises(
        "an item is assigned", lambda: sparse.__setitem__(0, 1), TypeError, RuntimeError, NotImplementedError
    )


@behaviour("sparse", dtypes=ALL, must_detect=("value",), page="generated/torch.sparse_coo_tensor.html")
def sparse_of_few_elements(lab: Lab) -> None:
    """A new sparse tensor with zero or one stored element is coalesced. A new sparse tensor with more
    stored elements is not coalesced. Both hold in every dtype, and ``clone`` preserves the state.
    """
    for count in (0, 1, 2):
        for dense in ((), (2,)):
            indices = lab.put(torch.arange(2 * count).reshape(2, count))
            sparse = untyped_torch.sparse_coo_tensor(indices, lab.integers(count, *dense), (4, 4, *dense))
            few = count < 2
            lab.holds(
                f"{count} elements of {dense}: only tensors with fewer than two are coalesced",
                sparse.is_coalesced() == few,
            )
            with lab.consistent("A clone must agree with its source in the coalesced state"):
                lab.holds(
                    f"{count} elements of {dense}: a clone has the coalesced state of its source",
                    sparse.clone().is_coalesced() == few,
                )
            lab.same(f"{count} of {dense}", [sparse.to_dense(), sparse.dtype, sparse._nnz()])
            if lab.dtype != torch.bool:
                lab.same(f"{count} of {dense}: joined", torch.cat((sparse, sparse)).to_dense())
    for shape in ((0,), (2, 0), (0, 3, 2), (1, 0, 2, 0)):
        for sparse_dims in range(1, len(shape) + 1):
            indices = torch.empty(sparse_dims, 0, dtype=torch.int64, device=lab.device)
            values = torch.empty(0, *shape[sparse_dims:], dtype=lab.dtype, device=lab.device)
            none = untyped_torch.sparse_coo_tensor(indices, values, shape)
            form = [none.shape, none.sparse_dim(), none.dense_dim(), none._nnz(), none.dtype]
            lab.same(f"empty tensor of {shape}, {sparse_dims} sparse dimensions", form)
            lab.same(
                f"dense form of an empty tensor of {shape}, {sparse_dims} sparse dimensions", none.to_dense()
            )
    for name, created in {
        "zeros": torch.zeros(2, 3, dtype=lab.dtype, layout=torch.sparse_coo, device=lab.device),
        "empty": torch.empty(2, 3, dtype=lab.dtype, layout=torch.sparse_coo, device=lab.device),
    }.items():
        lab.same(name, [created.dtype, created.layout])
        with lab.parity("No page says that such a tensor stores no elements"):
            lab.same(f"elements of {name}", [created._nnz(), created.to_dense()])


@behaviour(
    "sparse",
    must_detect=("error",),
    page="generated/torch.sparse_coo_tensor.html",
    basis="parity",
    ground="by default the checks are disabled; no page says that unequal counts or huge sizes are refused",
)
def refused_sparse_factories(lab: Lab) -> None:
    """``sparse_coo_tensor`` raises an error if the numbers of indices and values differ. A size with more
    elements than a 64-bit integer can represent raises an error.
    """
    indices, values = lab.put([[0, 1, 2], [0, 1, 2]]), lab.integers(2)
    lab.raises(
        "more indices", lambda: untyped_torch.sparse_coo_tensor(indices, values, (3, 3)), match="same nnz"
    )
    lab.raises(
        "fewer indices",
        lambda: untyped_torch.sparse_coo_tensor(indices[:, :1], values, (3, 3)),
        match="same nnz",
    )
    lab.raises(
        "none for a value",
        lambda: untyped_torch.sparse_coo_tensor(indices[:, :0], values, (3, 3)),
        match="same nnz",
    )
    large = (2**31, 2**31, 2**31)
    single = lab.put([[1], [2], [3]])
    lab.raises(
        "sizes past 64 bits",
        lambda: untyped_torch.sparse_coo_tensor(single, lab.integers(1), large).numel(),
        match="overflow",
    )
    half = untyped_torch.sparse_coo_tensor(single[:2], lab.integers(1, low=1), large[:2])
    with lab.documented():
        lab.same("sizes within", [half.shape, half._nnz(), half.is_coalesced()])


@behaviour(
    "sparse",
    dtypes=("float32", "float64", "int64", "complex64"),
    must_detect=("value",),
    basis="parity",
    ground="The page says that sums concatenate; no page bounds the number of stored elements",
)
def sums_do_not_grow(lab: Lab) -> None:
    """However often a sparse tensor is added to or subtracted from itself, the result stores at most twice
    its elements. ``coalesce`` merges repeated positions.
    """
    x = uncoalesced_coo_tensor(lab)
    count = x._nnz()
    x.add_(x)
    x.add_(x)
    lab.holds("four times x stores at most twice the elements of x", x._nnz() <= 2 * count)
    with lab.documented():
        lab.same("four times", x.to_dense())
    x.sub_(2 * x)
    x.sub_(2 * x)
    lab.holds("a difference stores at most twice the elements of x", x._nnz() <= 2 * count)
    with lab.documented():
        lab.same("differences", x.to_dense())
    with lab.documented():
        lab.same("coalesced", [x.coalesce()._nnz(), x.coalesce().values()])


@behaviour(
    "sparse",
    dtypes=("bfloat16",),
    must_detect=("value",),
    page="generated/torch.add.html",
    ground="The page says that the storage format does not influence the meaning of an operation",
)
def sums_of_sparse_into_bfloat16(lab: Lab) -> None:
    """A sum of sparse tensors into a bfloat16 ``out=`` equals the sum rounded to bfloat16."""
    for dense in ((), (3,)):
        x, y = (uncoalesced_coo_tensor(lab, *dense).coalesce() for _ in range(2))
        out = torch.zeros_like(x)
        lab.holds(f"add returns its out=, dense sizes {dense}", torch.add(x, y, out=out) is out)
        lab.same(f"out= of {dense}", [out.to_dense(), out.dtype])
        lab.same(f"sum of {dense}", (x + y).to_dense())
        expected = (x.float() + y.float()).to_dense().to(torch.bfloat16)
        lab.holds(
            f"out= equals the rounded float32 sum, dense sizes {dense}", torch.equal(out.to_dense(), expected)
        )


@behaviour(
    "sparse",
    dtypes=ALL,
    must_detect=("value",),
    ground="selected elements are elements of the tensor, so they have the tensor's dtype",
)
def selections_keep_their_dtype(lab: Lab) -> None:
    """Rows and elements selected from a sparse tensor have the tensor's dtype, also if values of a repeated
    position are added.
    """
    indices = lab.put([[0, 0, 0, 1], [0, 0, 1, 1], [1, 1, 0, 0]])
    values = lab.integers(4)
    sparse = untyped_torch.sparse_coo_tensor(indices, values, (2, 2, 2))
    if lab.dtype == torch.bool:
        sparse = sparse.coalesce()
    for name, chosen in {
        "a row": sparse[0],
        "a column": sparse.select(2, 1),
        "two": sparse[0, 0],
        "an element": sparse[0, 0, 1],
        "an element that is not stored": sparse[1, 0, 1],
    }.items():
        dense = chosen.to_dense() if chosen.layout is torch.sparse_coo else chosen
        lab.same(name, [dense, chosen.dtype])
        lab.holds(f"{name} has the dtype of the tensor", chosen.dtype == sparse.dtype)


@behaviour(
    "sparse",
    dtypes=("float32", "int64"),
    must_detect=("value",),
    page="generated/torch.index_select.html",
    ground="The page says that the storage format does not influence the meaning of an operation",
)
def many_indices_into_sparse(lab: Lab) -> None:
    """``index_select`` of a sparse tensor with many indices equals ``index_select`` of the dense tensor. The
    indices may be unsorted or repeated, along sparse or dense dimensions.
    """
    for shape, sparse_dims in (((60, 40), 2), ((40, 300), 2), ((300, 20, 3), 2), ((40000,), 1)):
        dense = lab.integers(*shape, low=-1, high=2)
        sparse = dense.to_sparse(sparse_dims)
        for dim in range(len(shape)):
            size = shape[dim]
            for name, index in {
                "all": torch.arange(size, device=lab.device),
                "shuffled": lab.permutation(size),
                "repeated": lab.integers(3 * size, low=0, high=size, dtype=torch.int64),
                "every third": torch.arange(0, size, 3, device=lab.device),
            }.items():
                result = sparse.index_select(dim, index).to_dense()
                lab.same(f"{name} along {dim} of {shape}", result)
                expected = dense.index_select(dim, index)
                lab.holds(
                    f"{name} along {dim} of {shape} equals the dense result", torch.equal(result, expected)
                )


@behaviour(
    "sparse",
    dtypes=("float32", "complex64"),
    must_detect=("value",),
    basis="parity",
    ground="tensor.new is undocumented",
)
def new_from_a_sparse_tensor(lab: Lab) -> None:
    """``new`` of a sparse tensor returns a sparse tensor with the given indices and values. Its size is the
    size argument or, without this argument, the smallest size that contains all indices.
    """
    sparse = uncoalesced_coo_tensor(lab, 2)
    indices, values = sparse._indices(), sparse._values()
    for name, created in {
        "without a size": sparse.new(indices, values),
        "with a size": sparse.new(indices, values, sparse.size()),
    }.items():
        lab.same(name, [created.shape, created.dtype, created.layout, created.device.type == lab.device.type])
        lab.same(f"{name}: dense", created.to_dense())


@behaviour(
    "sparse",
    must_detect=(),
    page="generated/torch.Tensor.coalesce.html",
    basis="parity",
    ground="No page says when a tensor and its attributes are freed",
)
def coalesced_tensors_are_freed(lab: Lab) -> None:
    """``coalesce`` of a coalesced tensor returns the same Python object with its attributes. The object and
    its attributes are freed when the last reference is deleted.
    """

    class WeakReferenceableObject:
        pass

    sparse = uncoalesced_coo_tensor(lab).coalesce()
    second_name = sparse.coalesce()
    with lab.documented():
        lab.holds("coalesce of a coalesced tensor returns it", second_name is sparse)
    sparse.tracker = WeakReferenceableObject()
    watched, tracked = weakref.ref(sparse), weakref.ref(sparse.tracker)
    lab.holds("the tensor is alive", watched() is not None)
    del sparse
    lab.holds("a second reference keeps the tensor and its attribute alive", second_name.tracker is tracked())
    del second_name
    lab.collect()
    lab.holds("the tensor and its attribute are freed", lab.gone(watched, tracked))


@behaviour(
    "sparse",
    capabilities=("sparse_compressed",),
    must_detect=("error",),
    ground="The pages limit these methods to certain layouts; methods of COO tensors throw for other layouts",
)
def parts_of_other_layouts(lab: Lab) -> None:
    """``indices``, ``crow_indices`` and similar methods accept tensors of certain layouts. For any other
    layout, the error names the expected and the actual layout.
    """
    coo, rows, columns = "sparse coordinate", "sparse row compressed", "sparse column compressed"
    methods: dict[str, tuple[str, tuple[str, ...]]] = {
        "is_coalesced": (coo, ("sparse_coo",)),
        "coalesce": (coo, ("sparse_coo",)),
        "indices": (coo, ("sparse_coo",)),
        "values": ("sparse", ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")),
        "crow_indices": (rows, ("sparse_csr", "sparse_bsr")),
        "col_indices": (rows, ("sparse_csr", "sparse_bsr")),
        "ccol_indices": (columns, ("sparse_csc", "sparse_bsc")),
        "row_indices": (columns, ("sparse_csc", "sparse_bsc")),
    }
    names = {
        "strided": "Strided",
        "sparse_coo": "Sparse",
        "sparse_csr": "SparseCsr",
        "sparse_csc": "SparseCsc",
        "sparse_bsr": "SparseBsr",
        "sparse_bsc": "SparseBsc",
    }
    dense = lab.put([[1.0, 2.0], [3.0, 4.0]])
    for layout, layout_text in names.items():
        block = (1, 1) if layout in ("sparse_bsr", "sparse_bsc") else None
        tensor = (
            dense if layout == "strided" else dense.to_sparse(layout=getattr(torch, layout), blocksize=block)
        )
        if layout == "sparse_coo":
            tensor = tensor.coalesce()
        for method, (expected, accepted) in methods.items():
            call = getattr(tensor, method)
            if layout in accepted:
                lab.same(f"{method} of {layout}", isinstance(call(), (bool, torch.Tensor)))
            else:
                lab.raises(
                    f"{method} of {layout}",
                    call,
                    match=f"{method} expected {expected} tensor layout but got {layout_text}$",
                )


@behaviour(
    "sparse",
    dtypes=("float64",),
    must_detect=("error",),
    page="generated/torch.Tensor.to_sparse.html",
    basis="parity",
    ground="No page says that to_sparse refuses another number of sparse dimensions",
)
def sparse_dimensions_stay(lab: Lab) -> None:
    """``to_sparse`` of a sparse tensor accepts only the number of sparse dimensions that the tensor has. A
    different number raises an error.
    """
    for size in (2, 3):
        dense = torch.eye(size, dtype=lab.dtype, device=lab.device).expand(*(size,) * size).contiguous()
        for actual_dims in range(1, size):
            sparse = dense.to_sparse(actual_dims)
            for requested_dims in range(size):
                name = f"{actual_dims} of {size} sparse dimensions to {requested_dims}"
                if requested_dims == actual_dims:
                    lab.same(
                        name,
                        [
                            sparse.to_sparse(requested_dims).sparse_dim(),
                            sparse.to_sparse(requested_dims).to_dense(),
                        ],
                    )
                else:
                    lab.raises(name, lambda s=sparse, n=requested_dims: s.to_sparse(n), match="sparse_dim")  # type: ignore[misc]
    counts = [
        (t.sparse_dim(), t.dense_dim()) for t in (torch.ones((), device=lab.device), lab.integers(2, 3))
    ]
    with lab.documented():
        lab.same("numbers of sparse and dense dimensions of dense tensors", counts)
