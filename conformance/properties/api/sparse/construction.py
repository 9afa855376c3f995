"""Check COO tensors: construction, attributes, copies, and conversion to and from dense."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import torch

from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab

#: ``torch`` as an untyped object: its type stubs do not allow some calls of ``sparse_coo_tensor``, such as
#: calls with lists or with a size only.
untyped_torch: Any = torch

#: Indices of five elements of a tensor of shape (3, 4). The first and the fourth element have the same
#: position.
POSITIONS = [[0, 2, 2, 0, 0], [1, 3, 0, 1, 3]]


def uncoalesced_coo_tensor(lab: Lab, *dense_sizes: int) -> Any:
    """Return an uncoalesced COO tensor of shape ``(3, 4, *dense_sizes)`` with five stored elements. Two of
    the elements have the same position.
    """
    return untyped_torch.sparse_coo_tensor(
        lab.put(POSITIONS), lab.integers(5, *dense_sizes), (3, 4, *dense_sizes), device=lab.device
    )


@behaviour("sparse", dtypes=ALL, level="core", must_detect=("value",))
def sparse_to_dense(lab: Lab) -> None:
    """``to_dense`` adds the values of a repeated position. Positions without values are zero. This also holds
    with dense dimensions.
    """
    for dense in ((), (2,), (2, 0), (1, 2)):
        sparse = uncoalesced_coo_tensor(lab, *dense)
        lab.same(f"dense of {dense}", sparse.to_dense())
        lab.same(
            f"shape, counts and coalesced state with dense sizes {dense}",
            [sparse.shape, sparse._nnz(), sparse.sparse_dim(), sparse.dense_dim(), sparse.is_coalesced()],
        )
    empty = untyped_torch.sparse_coo_tensor(
        torch.zeros(2, 0, dtype=torch.int64, device=lab.device), lab.integers(0), (2, 3)
    )
    lab.same("without elements", [empty.to_dense(), empty._nnz()])
    scalar = untyped_torch.sparse_coo_tensor(
        torch.zeros(0, 2, dtype=torch.int64, device=lab.device), lab.integers(2), ()
    )
    lab.same("of no dimensions", scalar.to_dense())
    none = untyped_torch.sparse_coo_tensor((3, 0), dtype=lab.dtype, device=lab.device)
    lab.same("of no elements", none.to_dense())
    lab.same(
        "masked",
        uncoalesced_coo_tensor(lab).to_dense(masked_grad=False) if lab.dtype.is_floating_point else 0,
    )


@behaviour(
    "sparse", level="core", dtypes=ALL, must_detect=("value",), page="generated/torch.Tensor.coalesce.html"
)
def coalescing(lab: Lab) -> None:
    """``coalesce`` sorts the positions and adds the values of repeated positions. ``coalesce`` of a coalesced
    tensor returns the same tensor.
    """
    for dense in ((), (2,)):
        sparse = uncoalesced_coo_tensor(lab, *dense)
        result = sparse.coalesce()
        lab.same(f"positions of {dense}", result.indices())
        lab.same(f"values of {dense}", result.values())
        lab.same(f"flags of {dense}", [sparse.is_coalesced(), result.is_coalesced(), result._nnz()])
        lab.same(f"dense of {dense}", result.to_dense())
        lab.holds(
            f"coalesce of a coalesced tensor returns it, dense sizes {dense}", result.coalesce() is result
        )
    vector = untyped_torch.sparse_coo_tensor(lab.put([[1]]), lab.integers(1), (3,))
    lab.same("one element", [vector.is_coalesced(), vector.coalesce().indices()])
    none = untyped_torch.sparse_coo_tensor((2, 2), dtype=lab.dtype, device=lab.device)
    lab.same("none", [none.is_coalesced(), none._nnz()])
    claimed = untyped_torch.sparse_coo_tensor(lab.put([[0, 2]]), lab.integers(2), (3,), is_coalesced=True)
    lab.same(
        "a tensor created with is_coalesced=True",
        [claimed.is_coalesced(), claimed.indices(), claimed.values()],
    )


@behaviour(
    "sparse", level="core", dtypes=ALL, must_detect=("value",), page="generated/torch.Tensor.to_sparse.html"
)
def dense_to_sparse(lab: Lab) -> None:
    """``to_sparse`` returns a coalesced tensor that stores the nonzero elements, for any number of sparse
    dimensions.
    """
    dense = lab.integers(3, 4, 2, low=-1, high=2)
    for count in (None, 1, 2, 3):
        sparse = dense.to_sparse() if count is None else dense.to_sparse(count)
        lab.same(
            f"dimensions and layout of to_sparse({count})",
            [sparse.sparse_dim(), sparse.dense_dim(), sparse.layout],
        )
        with lab.parity("No page says that to_sparse returns a coalesced tensor"):
            lab.holds(f"to_sparse({count}) is coalesced", sparse.is_coalesced())
        lab.same(f"positions over {count}", sparse.coalesce().indices())
        lab.same(f"values over {count}", sparse.coalesce().values())
        lab.same(f"dense over {count}", sparse.to_dense())
    lab.same("a number", lab.integers(1)[0].to_sparse().to_dense())
    lab.same("zeros", torch.zeros(2, 3, device=lab.device).to_sparse()._nnz())
    lab.same("empty", lab.integers(0, 3).to_sparse().shape)
    lab.same("transposed", dense[:, :, 0].t().to_sparse().coalesce().indices())
    with lab.parity("No page says that too many sparse dimensions are refused"):
        lab.raises("too many dimensions", lambda: dense.to_sparse(4))


@behaviour(
    "sparse", level="core", must_detect=("value", "error"), page="generated/torch.sparse_coo_tensor.html"
)
def sparse_factory(lab: Lab) -> None:
    """``sparse_coo_tensor`` infers size, dtype and device, and shares the memory of its values. With
    ``check_invariants``, it checks its arguments.
    """
    indices, values = lab.put([[0, 1, 1], [2, 0, 2]]), lab.integers(3)
    sparse = untyped_torch.sparse_coo_tensor(indices, values)
    lab.same("inferred size", sparse.shape)
    lab.same("value", sparse.to_dense())
    with lab.parity("No page says that the tensor shares the memory of the given values"):
        lab.shares("values and those given", sparse._values(), values)
    lab.same("hybrid size", untyped_torch.sparse_coo_tensor(indices, lab.integers(3, 2)).shape)
    for name, options in {
        "dtype": {"dtype": torch.float64},
        "size": {"size": (4, 5)},
        "device": {"device": lab.device},
        "need of a gradient": {"requires_grad": True},
    }.items():
        sparse_with_option = untyped_torch.sparse_coo_tensor(indices, values, **options)  # type: ignore[arg-type]
        lab.same(
            name,
            [
                sparse_with_option.dtype,
                sparse_with_option.shape,
                sparse_with_option.requires_grad,
                sparse_with_option.is_leaf,
                sparse_with_option.device.type == lab.device.type,
            ],
        )
    lists = untyped_torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.5, 2.5], device=lab.device)
    lab.expect("of lists", lists.to_dense(), [[0.0, 1.5], [2.5, 0.0]])
    whole = untyped_torch.sparse_coo_tensor([[0, 1]], [1, 2], device=lab.device)
    lab.same("of whole numbers", [whole.dtype, whole.to_dense()])
    narrow = untyped_torch.sparse_coo_tensor(indices.to(torch.int32), values)
    lab.same("positions become int64", narrow._indices().dtype)
    lab.same(
        "of nothing",
        untyped_torch.sparse_coo_tensor(lab.put([[], []], dtype=torch.int64), lab.integers(0)).shape,
    )
    lab.same("a size alone", untyped_torch.sparse_coo_tensor((2, 3), device=lab.device).to_dense())
    lab.raises(
        "a position outside",
        lambda: untyped_torch.sparse_coo_tensor(indices, values, (1, 3), check_invariants=True),
    )
    lab.raises(
        "a negative position",
        lambda: untyped_torch.sparse_coo_tensor(indices - 1, values, (2, 3), check_invariants=True),
        match="negative",
    )
    lab.raises(
        "sizes of another rank",
        lambda: untyped_torch.sparse_coo_tensor(indices, values, (2,), check_invariants=True),
    )
    lab.raises(
        "another number of values",
        lambda: untyped_torch.sparse_coo_tensor(indices, lab.integers(2), (2, 3), check_invariants=True),
    )
    lab.raises(
        "dense sizes that differ",
        lambda: untyped_torch.sparse_coo_tensor(
            indices, lab.integers(3, 2), (2, 3, 4), check_invariants=True
        ),
    )


@behaviour(
    "sparse", must_detect=("value",), page="generated/torch.sparse.check_sparse_tensor_invariants.html"
)
def sparse_invariants(lab: Lab) -> None:
    """``check_sparse_tensor_invariants`` enables and disables the checks when it is used as a function,
    context manager or decorator. Contexts can be nested.
    """
    checks = torch.sparse.check_sparse_tensor_invariants
    before = checks.is_enabled()
    results = []
    indices, values = lab.put([[0, 5]]), lab.integers(2)

    def try_invalid_indices() -> str:
        try:
            untyped_torch.sparse_coo_tensor(indices, values, (3,))
        except RuntimeError:
            return "refused"
        return "made"

    try:
        checks.disable()
        results += [checks.is_enabled(), try_invalid_indices()]
        with checks():
            results += [checks.is_enabled(), try_invalid_indices()]
            with checks(False):
                results += [checks.is_enabled(), try_invalid_indices()]
            results.append(checks.is_enabled())
        results.append(checks.is_enabled())
        checks.enable()
        results += [checks.is_enabled(), try_invalid_indices()]
        checks.disable()
        results.append(checks(True)(try_invalid_indices)())
        results.append(checks.is_enabled())
    finally:
        (checks.enable if before else checks.disable)()
    lab.same("seen", results)
    lab.same("values", values * 1)


@behaviour(
    "sparse",
    dtypes=("float32", "float64", "int64"),
    level="core",
    must_detect=("value",),
    page="generated/torch.Tensor.indices.html",
)
def parts_of_sparse(lab: Lab) -> None:
    """``indices()`` and ``values()`` of a coalesced tensor return tensors that share its memory. For an
    uncoalesced tensor, the two methods raise an error. ``is_coalesced`` reports whether the tensor is
    coalesced.
    """
    sparse = uncoalesced_coo_tensor(lab)
    lab.raises(
        "indices() of an uncoalesced tensor",
        lambda: sparse.indices(),
        match="coalesced",
        type_is_documented=True,
        text_is_documented=True,
    )
    lab.raises("its values", lambda: sparse.values(), match="coalesced")
    result = sparse.coalesce()
    values = result.values()
    lab.shares("values and those within", values, result._values())
    result._values().mul_(2)
    lab.same("values after a change", [values, result.to_dense()])
    lab.same("flags", [sparse.is_sparse, sparse.to_dense().is_sparse, sparse.layout, sparse.is_sparse_csr])
    lab.same("sizes", [sparse.dim(), sparse.numel(), sparse.size(), sparse.size(1), len(sparse)])
    with lab.parity("The attribute or function is private and undocumented"):
        lab.same("elements set", [sparse._nnz(), result._nnz(), sparse._dimI(), sparse._dimV()])
    lab.raises("a dense tensor's positions", lambda: sparse.to_dense().coalesce())
    lab.raises("as NumPy", lambda: sparse.cpu().numpy(), TypeError, RuntimeError)
    with lab.parity(
        "No page says that bool of several elements is refused; only is_nonzero documents an error"
    ):
        lab.raises("its truth", lambda: bool(sparse))
    number = untyped_torch.sparse_coo_tensor(lab.put([[0, 0]]), lab.put([1, -1], dtype=lab.dtype), (1,))
    lab.same("truth of one element", [number.is_nonzero(), (number + number.coalesce() * 0).is_nonzero()])
    lab.raises("is_nonzero of several", lambda: sparse.is_nonzero(), type_is_documented=True)


@behaviour(
    "sparse",
    capabilities=("serialization",),
    dtypes=("float32", "int64", "bool", "complex64"),
    level="core",
    must_detect=("value",),
    page="generated/torch.clone.html",
    basis="consistency",
    ground="each copy must agree with the tensor from which it was made",
)
def sparse_copies(lab: Lab) -> None:
    """``clone``, ``copy_``, conversions, ``pickle`` and ``deepcopy`` preserve the values, the sizes and the
    coalesced state.
    """
    for name, sparse in {
        "repeated": uncoalesced_coo_tensor(lab),
        "coalesced": uncoalesced_coo_tensor(lab).coalesce(),
        "hybrid": uncoalesced_coo_tensor(lab, 2),
    }.items():
        buffer = io.BytesIO()
        torch.save(sparse, buffer)
        buffer.seek(0)
        copies = {
            "clone": sparse.clone(),
            "deepcopy": copy.deepcopy(sparse),
            "pickle": pickle.loads(pickle.dumps(sparse)),
            "save": torch.load(buffer, weights_only=True),
            "to itself": sparse.to(lab.device),
            "round trip": sparse.cpu().to(lab.device),
            "copy": torch.zeros_like(sparse).copy_(sparse),
            "detach": sparse.detach(),
        }
        for kind, duplicate in copies.items():
            lab.same(f"{kind} of {name}: dense", duplicate.to_dense())
            lab.same(
                f"{kind} of {name}: flags",
                [duplicate.shape, duplicate.dtype, duplicate.is_coalesced(), duplicate.sparse_dim()],
            )
        lab.same(f"host copy of {name}", sparse.cpu().to_dense(), host=True)
        # True and True at one position are True, but both converted to numbers are 2.
        single = sparse.coalesce() if lab.dtype == torch.bool else sparse
        wider = single.to(torch.complex128)
        with lab.documented():
            lab.same(f"another dtype of {name}", wider.to_dense())
    apart = uncoalesced_coo_tensor(lab)
    copied = apart.clone()
    copied._values().zero_()
    with lab.documented():
        lab.same("original after a write to its clone", apart.to_dense())
    with lab.parity("No page says how values of a repeated position, or complex values, are converted"):
        lab.same(
            "long and bool",
            [
                uncoalesced_coo_tensor(lab).real.long().to_dense()
                if lab.dtype.is_complex
                else uncoalesced_coo_tensor(lab).long().to_dense()
            ],
        )


@behaviour(
    "sparse",
    level="core",
    must_detect=("value",),
    page="generated/torch.zeros_like.html",
    ground="The pages give size, dtype and values; the page of sparse tensors lists these functions",
)
def sparse_like_and_new(lab: Lab) -> None:
    """``zeros_like``, ``empty_like``, ``new_*`` and ``zeros`` with ``layout=sparse_coo`` return sparse
    tensors without stored elements, in the size of the template or the requested size. ``sparse_resize_``
    changes the size, and ``zero_`` removes the elements.
    """
    hybrid = uncoalesced_coo_tensor(lab, 2)
    for name, similar in {
        "zeros_like": torch.zeros_like(hybrid),
        "zeros": torch.zeros(3, 4, layout=torch.sparse_coo, device=lab.device),
        "empty": torch.empty(3, 4, layout=torch.sparse_coo, device=lab.device),
        "empty_like": torch.empty_like(hybrid),
        "zeros_like in another dtype": torch.zeros_like(hybrid, dtype=torch.float64),
        "new": hybrid.new_zeros(2, 2),
        "new_empty": hybrid.new_empty((2, 3)),
    }.items():
        lab.same(f"{name}: dtype and size", [similar.dtype, similar.shape])
        if name.startswith("new"):
            with lab.parity("The pages of the new_* methods call strided the default layout"):
                lab.same(f"{name}: layout", similar.layout)
        else:
            lab.same(f"{name}: layout", similar.layout)
        with lab.parity("No page says that such a tensor stores no elements"):
            stored = [similar._nnz(), similar.is_coalesced()] if similar.layout is torch.sparse_coo else None
            lab.same(f"{name}: elements", stored)
            lab.same(f"{name}: dense", similar.to_dense())
        if "zeros" in name or name == "new":
            lab.holds(f"{name} contains only zeros", not bool(similar.to_dense().any()))
        lab.same(f"{name}: device", similar.device.type == lab.device.type)
    dense = torch.zeros_like(hybrid, layout=torch.strided)
    lab.same("zeros_like, dense", dense)
    like = torch.zeros_like(hybrid.to_dense(), layout=torch.sparse_coo)
    lab.same("zeros_like, sparse", like.to_dense())
    resized = hybrid.clone()
    resized.zero_()
    lab.same("zero_", resized.to_dense())
    with lab.parity("No page says that zero_ removes the stored elements"):
        lab.same("elements after zero_", [like._nnz(), resized._nnz()])
    for size, sparse, rest in (((3, 4, 2), 2, 1), ((5, 4, 2), 2, 1)):
        grown = hybrid.clone()
        grown.sparse_resize_(size, sparse, rest)
        lab.same(f"resized to {size}", [grown.shape, grown.to_dense()])
    cleared = hybrid.clone().sparse_resize_and_clear_((2, 2, 3), 1, 2)
    lab.same("resized and cleared", [cleared.shape, cleared.sparse_dim(), cleared._nnz()])
    lab.raises("fewer sparse dimensions", lambda: hybrid.clone().sparse_resize_((3, 4, 2), 1, 2))
    resized_like = torch.empty(1, layout=torch.sparse_coo, device=lab.device).resize_as_sparse_(hybrid)
    with lab.parity("The method is undocumented"):
        lab.same("resize_as_sparse_", resized_like.shape)


@behaviour(
    "sparse",
    must_detect=("value",),
    ground="printed tensors in the examples of the page have all these parts",
)
def printing_of_coo(lab: Lab) -> None:
    """``repr`` of a sparse tensor of any shape contains its indices, values, size and number of stored
    elements.
    """
    for name, sparse in {
        "repeated": uncoalesced_coo_tensor(lab),
        "coalesced": uncoalesced_coo_tensor(lab).coalesce(),
        "hybrid": uncoalesced_coo_tensor(lab, 2),
        "none": untyped_torch.sparse_coo_tensor((2, 0), device=lab.device),
        "whole": uncoalesced_coo_tensor(lab).to(torch.int64),
        "with gradient": uncoalesced_coo_tensor(lab).requires_grad_(),
    }.items():
        text = repr(sparse)
        for fragment in ("indices=", "values=", "size=", f"nnz={sparse._nnz()}", "layout=torch.sparse_coo"):
            lab.holds(f"{name} prints {fragment}", fragment in text)
        lab.same(f"{name}: gradient and dtype", ["requires_grad" in text, "int64" in text])
    lab.same("dense", uncoalesced_coo_tensor(lab).to_dense())
