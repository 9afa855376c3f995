"""Check ``Embedding`` and ``EmbeddingBag``: padding, norms, sparse gradients, offsets, sample weights, and
errors.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._exact_modules import with_whole_number_state

MODES = ("sum", "mean", "max")


@behaviour(
    "nn",
    level="core",
    dtypes=("float32", "bfloat16", "float64"),
    capabilities=("autograd", "double_backward"),
    must_detect=("value", "error"),
    page="generated/torch.nn.Embedding.html",
)
def embeddings(lab: Lab) -> None:
    """An embedding selects rows of its weight. The gradients of a repeated row add up. The gradient of the
    padding row is zero.
    """
    table = lab.integers(6, 3, requires_grad=True)
    index = lab.put([[0, 2, 5], [2, 2, 1]])
    y = F.embedding(index, table)
    lab.same("rows", y)
    output_gradient = lab.integers(2, 3, 3)
    lab.same("gradient", torch.autograd.grad(y, table, output_gradient))
    lab.same("int32 indices", F.embedding(index.int(), table))
    lab.same("one index", F.embedding(lab.put(3), table))
    lab.same("no index", F.embedding(lab.put(torch.empty(0, dtype=torch.int64)), table))
    for padding in (2, -4):
        result = F.embedding(index, table, padding_idx=padding)
        lab.same(f"rows with padding {padding}", result)
        lab.same(f"gradient with padding {padding}", torch.autograd.grad(result, table, output_gradient))
    scaled = F.embedding(index, table, scale_grad_by_freq=True)
    lab.close("gradient by frequency", torch.autograd.grad(scaled, table, output_gradient), roundings=8)
    for padding in (0, -2):
        module = nn.Embedding(10, 4, padding_idx=padding, device=lab.device, dtype=lab.dtype)
        row = padding % 10
        lab.expect(f"the row of padding {padding} starts at zero", module(lab.put([row])), [[0.0] * 4])
        for count in (1, 40):
            module.zero_grad()
            module(lab.put([row] * count + [1, 3])).sum().backward()
            lab.expect(
                f"gradient of the padding row, {count} times index {padding}",
                module.weight.grad[row],  # type: ignore[index]
                [0.0] * 4,
            )
            lab.expect(f"gradient of another row, {count} times padding", module.weight.grad[1], [1.0] * 4)  # type: ignore[index]
    pretrained = nn.Embedding.from_pretrained(table.detach(), padding_idx=1)
    lab.same("from given rows", pretrained(index))
    lab.holds("from_pretrained freezes the weight by default", not pretrained.weight.requires_grad)
    lab.holds(
        "freeze=False does not freeze the weight",
        nn.Embedding.from_pretrained(table.detach(), freeze=False).weight.requires_grad,
    )
    ints = lab.integers(4, 2, dtype=torch.int32)
    with lab.parity("The page describes a floating-point table; a table of integers is undocumented"):
        lab.same("from rows of integers", nn.Embedding.from_pretrained(ints)(lab.put([0, 3])))
    first = torch.autograd.grad(F.embedding(index, table).square().sum(), table, create_graph=True)
    lab.same("second gradient", torch.autograd.grad(first[0].sum(), table))
    lab.raises("a dimensionless table", lambda: F.embedding(index, table.sum()), RuntimeError, IndexError)
    lab.raises("a table of three", lambda: F.embedding(index, table[None]), match="2-D")
    with lab.parity("The page describes integer indices, but does not say that other indices are an error"):
        lab.raises("indices of floats", lambda: F.embedding(index.float(), table))
    for padding in (6, -7):
        with lab.parity("No page says that padding_idx out of range is an error"):
            lab.raises(
                f"padding {padding}",
                lambda: F.embedding(index, table, padding_idx=padding),
                AssertionError,
            )
            lab.raises(
                f"padding {padding} of the module",
                lambda: nn.Embedding(6, 3, padding_idx=padding),
                AssertionError,
            )


@behaviour(
    "nn",
    capabilities=("sparse", "autograd"),
    must_detect=("value",),
    page="generated/torch.nn.Embedding.html",
)
def sparse_embeddings(lab: Lab) -> None:
    """With ``sparse=True`` the gradient is a COO tensor with one entry for each selected row, including
    repetitions.
    """
    module: Any = with_whole_number_state(lab, nn.Embedding(10, 3, sparse=True))
    module(lab.put([7, 1, 3])).sum().backward()
    grad: Any = module.weight.grad
    lab.holds("the gradient is sparse", grad.is_sparse)
    with lab.parity("No page says that the gradient is not coalesced"):
        lab.holds("the sparse gradient is not coalesced", not grad.is_coalesced())
    with lab.parity(
        "No page says which entries the uncoalesced gradient has, and _indices and _values are private"
    ):
        lab.same("rows", (grad._indices(), grad._values(), grad.shape))
    module(lab.put([8, 1, 3])).sum().backward()
    lab.same("added up", module.weight.grad.to_dense())
    lab.same("coalesced", module.weight.grad.coalesce().values())
    for size in ((0, 0), (10, 0)):
        none: Any = nn.Embedding(*size, sparse=True, device=lab.device)
        index = lab.put(torch.empty(0, dtype=torch.int64)) if size[0] == 0 else lab.put([1, 2])
        none(index).sum().backward()
        lab.same(f"of {size}", (none.weight.grad.is_sparse, none.weight.grad.shape))
    module.zero_grad()  # no page says that a sparse gradient can be cast
    half = module.to(torch.float16)
    lab.same("cast", (half.weight.dtype, half(lab.put([1, 2]))))
    for mode in ("sum", "mean"):
        bag: Any = with_whole_number_state(lab, nn.EmbeddingBag(6, 2, mode=mode, sparse=True))
        bag(lab.put([1, 1, 4, 5]), lab.put([0, 3])).sum().backward()
        lab.close(f"of bags by {mode}", bag.weight.grad.to_dense(), roundings=8)


@behaviour("nn", capabilities=("autograd",), must_detect=("value",), page="generated/torch.nn.Embedding.html")
def norms_of_embeddings(lab: Lab) -> None:
    """``max_norm`` rescales in place the rows that are selected and no other rows. The returned rows are
    rescaled.
    """
    table = lab.put([[3.0, 4.0], [0.5, 0.5], [6.0, 8.0], [0.0, 2.0]], dtype=lab.dtype)
    original_table = table.clone()
    y = F.embedding(lab.put([0, 1, 0]), table, max_norm=1.0)
    lab.expect("rows", y, [[0.6, 0.8], [0.5, 0.5], [0.6, 0.8]], roundings=16)
    lab.expect("the selected row of the table", table[0], [0.6, 0.8], roundings=16)
    with lab.parity("No page says that rows which are not selected stay unchanged"):
        lab.expect("a row of the table that is not selected", table[2], [6.0, 8.0], roundings=16)
    lab.expect(
        "by the sum",
        F.embedding(lab.put([2]), original_table, max_norm=7.0, norm_type=1.0),
        [[3.0, 4.0]],
        roundings=16,
    )
    many = lab.put([0, 3]).repeat(300)
    module = nn.Embedding.from_pretrained(original_table.clone(), freeze=False, max_norm=1.0)
    result = module(many)
    lab.expect("a repeated row is rescaled once", result[-2:], [[0.6, 0.8], [0.0, 1.0]], roundings=16)
    result.sum().backward()
    lab.same("gradient", module.weight.grad)
    bag = nn.EmbeddingBag.from_pretrained(original_table.clone(), max_norm=1.0, mode="sum")
    lab.expect("of bags", bag(lab.put([[0, 3]])), [[0.6, 1.8]], roundings=32)


@behaviour(
    "nn",
    level="core",
    dtypes=("float32", "float64", "bfloat16"),
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.EmbeddingBag.html",
)
def bags_of_embeddings(lab: Lab) -> None:
    """A bag is the sum, mean or maximum of its rows, or zeros if it is empty. The backward pass returns the
    gradient of each row.
    """
    rows = torch.arange(1.0, 11).view(5, 2)
    for mode in MODES:
        if mode == "max" and lab.dtype == torch.bfloat16:
            continue
        for index_type in (torch.int32, torch.int64):
            bag = nn.EmbeddingBag.from_pretrained(lab.put(rows, dtype=lab.dtype), freeze=False, mode=mode)
            index = lab.put([3, 1, 1, 1, 4, 0], dtype=index_type)
            offsets = lab.put([0, 0, 3, 3, 6], dtype=index_type)
            label = f"{mode} of {index_type}"
            y = bag(index, offsets)
            expected_rows = {
                "sum": [[0, 0], [13, 16], [0, 0], [13, 16], [0, 0]],
                "max": [[0, 0], [7, 8], [0, 0], [9, 10], [0, 0]],
            }
            if mode in expected_rows:
                lab.expect(label, y, expected_rows[mode])
            lab.close(f"again, {label}", y, roundings=8)
            y.backward(lab.put([[99, 99], [1, 2], [99, 99], [3, 4], [99, 99]], dtype=lab.dtype))
            lab.close(f"gradient, {label}", bag.weight.grad, roundings=8)
            lab.close(f"in rows, {label}", bag(index.view(2, 3)), roundings=8)
            last = nn.EmbeddingBag.from_pretrained(
                lab.put(rows, dtype=lab.dtype), mode=mode, include_last_offset=True
            )
            lab.close(
                f"with include_last_offset, {label}",
                last(index, lab.put([0, 0, 3, 3, 6, 6], dtype=index_type)),
                roundings=8,
            )
            none = bag(lab.put(torch.empty(0), dtype=index_type), lab.put([0, 0, 0], dtype=index_type))
            lab.expect(f"empty bags, {label}", none, [[0.0, 0.0]] * 3)
            bag.zero_grad()
            none.sum().backward()
            lab.expect(f"their gradient, {label}", bag.weight.grad, [[0.0, 0.0]] * 5)
        table = lab.integers(9, 3, requires_grad=True)
        index = lab.integers(4, 5, low=0, high=9, dtype=torch.int64)
        embedded_rows = F.embedding(index, table)
        by_hand = {
            "sum": lambda: embedded_rows.sum(1),
            "mean": lambda: embedded_rows.mean(1),
            "max": lambda: embedded_rows.amax(1),
        }[mode]()
        lab.close(f"embeddings and {mode}", (F.embedding_bag(index, table, mode=mode), by_hand), roundings=8)
        wide = lab.integers(9, 6)[:, ::2]
        lab.close(f"a table with gaps, {mode}", F.embedding_bag(index, wide, mode=mode), roundings=8)
    for mode in ("sum", "mean", "max") if lab.dtype != torch.bfloat16 else ("sum", "mean"):
        for padding in (1, -4):
            flat, starts = lab.put([3, 1, 1, 4, 0, 1]), lab.put([0, 2, 3, 3])
            y = F.embedding_bag(flat, table[:5], starts, mode=mode, padding_idx=padding)
            lab.close(f"padding {padding}, {mode}", y, roundings=8)
            if mode != "max":
                lab.close(
                    f"gradient with padding {padding}, {mode}",
                    torch.autograd.grad(y.sum(), table),
                    roundings=8,
                )
            square = lab.put([[3, 1, 4], [1, 1, 1], [0, 2, 1]])
            lab.close(
                f"rows with padding {padding}, {mode}",
                F.embedding_bag(square, table[:5], mode=mode, padding_idx=padding),
                roundings=8,
            )
    cut = nn.EmbeddingBag.from_pretrained(table.detach(), include_last_offset=True, padding_idx=7)
    lab.close(
        "include_last_offset and padding_idx", cut(lab.put([0, 1, 2, 3]), lab.put([0, 3, 4])), roundings=8
    )


@behaviour(
    "nn",
    level="core",
    dtypes=("float32", "float64"),
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.functional.embedding_bag.html",
)
def weights_of_samples(lab: Lab) -> None:
    """``embedding_bag`` multiplies each row by its weight in ``per_sample_weights`` before it adds the rows.
    The weights have gradients too.
    """
    for index_type in (torch.int32, torch.int64):
        table = lab.integers(5, 3, requires_grad=True)
        flat = lab.put([3, 1, 1, 1, 4, 0], dtype=index_type)
        scale = lab.integers(6, requires_grad=True)
        for last in (False, True):
            offsets = lab.put([0, 0, 3, 3, 6] + ([6] if last else []), dtype=index_type)
            y = F.embedding_bag(
                flat, table, offsets, mode="sum", per_sample_weights=scale, include_last_offset=last
            )
            lab.same(f"{index_type}, {last}", y)
            push = lab.integers(*y.shape)
            lab.same(f"gradients, {index_type}, {last}", torch.autograd.grad(y, (table, scale), push))
            fixed = F.embedding_bag(
                flat, table, offsets, mode="sum", per_sample_weights=scale.detach(), include_last_offset=last
            )
            lab.same(f"fixed weights, {index_type}, {last}", torch.autograd.grad(fixed, table, push))
        square = flat.view(2, 3)
        by_hand = (F.embedding(square, table) * scale.view(2, 3, 1)).sum(1)
        lab.same(
            f"rows, {index_type}",
            (F.embedding_bag(square, table, mode="sum", per_sample_weights=scale.view(2, 3)), by_hand),
        )
        none = lab.put(torch.empty(0), dtype=index_type)
        empty = lab.integers(0, requires_grad=True)
        y = F.embedding_bag(
            none, table, lab.put([0, 0], dtype=index_type), mode="sum", per_sample_weights=empty
        )
        y.sum().backward()
        lab.same(f"no samples, {index_type}", (y, table.grad, empty.grad))
        table.grad = None
    for bag_needs in (True, False):
        for scale_needs in (True, False):
            rows = lab.integers(5, 3, requires_grad=bag_needs)
            scale = lab.integers(2, 3, requires_grad=scale_needs)
            y = F.embedding_bag(lab.put([[0, 1, 2], [4, 4, 0]]), rows, mode="sum", per_sample_weights=scale)
            lab.same(f"needs {bag_needs}, {scale_needs}", (y, y.requires_grad))


@behaviour("nn", must_detect=("error", "message"), page="generated/torch.nn.functional.embedding_bag.html")
def refusals_of_bags(lab: Lab) -> None:
    """``embedding_bag`` raises an error for offsets with a two-dimensional index, for a flat index without
    offsets, and for invalid offsets and padding. Sample weights raise an error if their shape is wrong or
    ``mode`` is not "sum".
    """
    table = lab.floats(5, 2)
    flat, square = lab.put([0, 1, 4]), lab.put([[0, 1], [2, 3]])
    lab.raises(
        "offsets with rows",
        lambda: F.embedding_bag(square, table, lab.put([0, 1])),
        ValueError,
        match="(?i)offsets",
    )
    lab.raises("no offsets", lambda: F.embedding_bag(flat, table), ValueError, match="(?i)offsets")
    lab.raises(
        "offsets of two dimensions",
        lambda: F.embedding_bag(flat, table, lab.put([[0]])),
        ValueError,
        match="(?i)1D",
    )
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises(
            "an index of three dimensions",
            lambda: F.embedding_bag(square[None], table),
            ValueError,
            match="(?i)1D or 2D",
        )
        lab.raises(
            "a table of three dimensions",
            lambda: F.embedding_bag(square, table[None]),
            ValueError,
            RuntimeError,
        )
    lab.raises("an unknown mode", lambda: F.embedding_bag(square, table, mode="product"), ValueError)
    for padding in (5, -6):
        with lab.parity("No page says that padding_idx out of range is an error"):
            lab.raises(
                f"padding {padding}",
                lambda: F.embedding_bag(square, table, padding_idx=padding),
                match="padding_idx",
            )
            lab.raises(
                f"padding {padding} of the module",
                lambda: nn.EmbeddingBag(5, 2, padding_idx=padding),
                AssertionError,
            )
    scale = lab.floats(2, 2)
    lab.raises(
        "weights of another shape",
        lambda: F.embedding_bag(square, table, mode="sum", per_sample_weights=lab.floats(4)),
        ValueError,
        match="(?i)shape",
    )
    for mode in ("mean", "max"):
        lab.raises(
            f"weights by {mode}",
            lambda: F.embedding_bag(square, table, mode=mode, per_sample_weights=scale),
            NotImplementedError,
            match="(?i)sum",
        )
    lab.raises("sparse maxima", lambda: F.embedding_bag(square, table, mode="max", sparse=True), ValueError)
    lab.raises(
        "maxima by frequency",
        lambda: F.embedding_bag(square, table, mode="max", scale_grad_by_freq=True),
        ValueError,
    )
