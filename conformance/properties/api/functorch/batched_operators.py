"""Behaviours of operators under ``vmap``, compared with single calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import vmap

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.framework.trees import leaves

Function = Callable[..., Any]


def check_vmap(lab: Lab, name: str, function: Function, *inputs: torch.Tensor, in_dims: Any = 0) -> None:
    """Observe the result of ``vmap``, and check that it equals the stacked results of single calls.

    The inputs must be numbers for which the function does not round.
    """
    result = list(leaves(vmap(function, in_dims=in_dims)(*inputs)))
    lab.same(name, result)
    dims = (in_dims,) * len(inputs) if not isinstance(in_dims, tuple) else in_dims
    size = next(x.shape[d] for x, d in zip(inputs, dims, strict=True) if d is not None)
    rows = [
        list(
            leaves(
                function(*(x if d is None else x.select(d, row) for x, d in zip(inputs, dims, strict=True)))
            )
        )
        for row in range(size)
    ]
    each = [torch.stack(parts) for parts in zip(*rows, strict=True)]
    same = len(each) == len(result) and all(
        torch.equal(value, expected) and value.dtype == expected.dtype
        for value, expected in zip(result, each, strict=True)
    )
    lab.holds(f"{name} agrees with the single calls", same)


@behaviour(
    "functorch",
    level="training",
    page="func.ux_limitations.html",
    ground="The UX limitations page defines vmap as a loop over elements with stacked results",
)
def batches_of_arithmetic(lab: Lab) -> None:
    """Under ``vmap``, pointwise operators act on each element of a batch. The second operand may be a number
    or a tensor that is not mapped.
    """
    x, y = lab.integers(3, 2, 4), lab.integers(3, 2, 4, low=1, high=6)
    row = lab.integers(4, low=1, high=6)
    for name in (
        "abs",
        "neg",
        "square",
        "sign",
        "floor",
        "relu",
        "positive",
        "clone",
        "isnan",
        "isinf",
        "isfinite",
    ):
        check_vmap(lab, name, getattr(torch, name), x)
        check_vmap(lab, f"{name} twice", vmap(getattr(torch, name)), x)
    for name in ("add", "sub", "mul", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "remainder"):
        function = getattr(torch, name)
        check_vmap(lab, name, function, x, y)
        check_vmap(lab, f"{name} with an operand that is not mapped", function, x, row, in_dims=(0, None))
        check_vmap(lab, f"{name} from the left", function, row, y, in_dims=(None, 0))
        check_vmap(lab, f"{name} of other dimensions", function, x, y.movedim(0, 2), in_dims=(0, 2))
        if name not in ("maximum", "minimum"):
            check_vmap(lab, f"{name} with a number", lambda a: function(a, 2), x)
    check_vmap(lab, "of other dtypes", torch.add, x, y.long())
    check_vmap(lab, "of other ranks", torch.mul, x[:, 0], y)
    check_vmap(lab, "of scalars", torch.mul, x[:, 0, 0], y)


@behaviour(
    "functorch",
    level="full",
    capabilities=("strides",),
    page="func.ux_limitations.html",
    ground="The UX limitations page defines vmap as a loop over elements with stacked results",
)
def batches_of_bounds(lab: Lab) -> None:
    """Under ``vmap``, ``clamp``, ``fill``, ``zero``, ``copy``, ``where``, thresholds and casts act on each
    element of a batch, also in place.
    """
    x, y = lab.integers(3, 4), lab.integers(3, 4)
    low, high = lab.integers(3, low=-3, high=0), lab.integers(3, low=1, high=4)
    check_vmap(lab, "clamp", lambda a: a.clamp(-1, 2), x)
    check_vmap(lab, "clamp from below", lambda a: a.clamp(min=-1), x)
    check_vmap(lab, "clamp from above", lambda a: a.clamp(max=1), x)
    check_vmap(lab, "clamp by tensors", torch.clamp, x, low, high)
    check_vmap(
        lab,
        "clamp by a tensor that is not mapped",
        lambda a, item: torch.clamp_min(a, item),
        x,
        low[0],
        in_dims=(0, None),
    )
    check_vmap(lab, "clamp in place", lambda a: a.clone().clamp_(-1, 1), x)
    check_vmap(lab, "clamp_max in place", lambda a, h: a.clone().clamp_max_(h), x, high)
    check_vmap(lab, "fill", lambda a: a.clone().fill_(3), x)
    with lab.parity("The page of fill_ does not say that the value may be a tensor"):
        check_vmap(lab, "fill by a tensor", lambda a, v: a.clone().fill_(v), x, low)
    check_vmap(lab, "full_like times a mapped value", lambda a, v: torch.full_like(a, 1.0) * v, x, low)
    check_vmap(lab, "zero", lambda a: a.clone().zero_(), x)
    check_vmap(lab, "copy", lambda a, b: a.clone().copy_(b), x, y)
    check_vmap(lab, "copy of one", lambda a, b: a.clone().copy_(b), x, y[0], in_dims=(0, None))
    check_vmap(lab, "where", lambda a, b: torch.where(a > b, a, b), x, y)
    check_vmap(lab, "threshold", lambda a: F.threshold(a, 0.5, 7.0), x)
    check_vmap(lab, "long", lambda a: a.to(torch.int64), x)
    check_vmap(lab, "another width", lambda a: a.to(lab.other_float), x)
    check_vmap(lab, "to a tensor's", lambda a, b: a.to(b), x, y.int())
    check_vmap(lab, "to the device", lambda a: a.to(lab.device), x)
    records: list[Any] = []
    vmap(
        lambda a: records.append((a.is_complex(), a.is_floating_point(), a.shape, a.dtype)) or a  # type: ignore[func-returns-value]
    )(x)
    lab.same("dtype checks, shape and dtype inside vmap", records)
    vmap(
        lambda a: records.append((torch.result_type(a, 1.0), torch.result_type(a, a.long()))) or a  # type: ignore[func-returns-value]
    )(x)
    lab.same("result types", records)
    layouts: list[Any] = []
    vmap(lambda a: layouts.append((a.is_contiguous(), a.stride())) or a)(x)  # type: ignore[func-returns-value]
    with lab.parity("No page gives the strides that an element reports"):
        lab.same("strides", layouts)
    check_vmap(lab, "all", lambda a: (a > -9).all(), x)
    check_vmap(lab, "any", lambda a: (a > 2).any(), x)


@behaviour(
    "functorch",
    level="full",
    must_detect=("value",),
    capabilities=("strides",),
    page="func.ux_limitations.html",
    ground="The UX limitations page defines vmap as a loop over elements with stacked results",
)
def batches_of_views(lab: Lab) -> None:
    """Under ``vmap``, a view of a batch element equals the view of this element outside of ``vmap``. This
    holds for any mapped dimension.
    """
    x, wide = lab.integers(3, 2, 4), lab.integers(2, 4, 3)
    views: dict[str, Function] = {
        "select": lambda a: a.select(1, 2),
        "slice": lambda a: a[:, 1:3],
        "step": lambda a: a[:, ::2],
        "narrow": lambda a: a.narrow(-1, 1, 2),
        "transpose": lambda a: a.transpose(0, -1),
        "t": lambda a: a.t(),
        "T": lambda a: a.T,
        "permute": lambda a: a.permute(1, 0),
        "movedim": lambda a: torch.movedim(a, 0, 1),
        "unsqueeze": lambda a: a.unsqueeze(1),
        "unsqueeze last": lambda a: a.unsqueeze(-1),
        "squeeze": lambda a: a.unsqueeze(0).squeeze(),
        "squeeze one": lambda a: a.unsqueeze(0).squeeze(0),
        "expand": lambda a: a.unsqueeze(0).expand(5, -1, -1),
        "expand_as": lambda a: a[0].expand_as(a),
        "reshape": lambda a: a.reshape(8),
        "reshape of a transposed": lambda a: a.t().reshape(2, 4),
        "reshape_as": lambda a: a.reshape_as(a.t()),
        "view": lambda a: a.contiguous().view(4, -1),
        "view_as": lambda a: a.contiguous().view_as(a),
        "flatten": lambda a: a.flatten(),
        "unflatten": lambda a: a.unflatten(1, (2, 2)),
        "unfold": lambda a: a.unfold(1, 2, 1),
        "diagonal": lambda a: a.diagonal(),
        "diagonal off": lambda a: torch.diagonal(a, 1, 0, 1),
        "chunk": lambda a: list(a.chunk(3, 1)),
        "split": lambda a: list(a.split([1, 3], 1)),
        "split evenly": lambda a: list(a.split(2, -1)),
        "tensor_split": lambda a: list(a.tensor_split((1, 2), 1)),
        "unbind": lambda a: list(a.unbind(1)),
        "contiguous": lambda a: a.contiguous(),
        "real": lambda a: a.real,
        "conj": lambda a: a.conj(),
        "diag": lambda a: a[:, :2].diag(),
    }
    for name, view in views.items():
        check_vmap(lab, name, view, x)
        check_vmap(lab, f"{name} of the last", view, wide, in_dims=2)
        check_vmap(lab, f"{name} twice", vmap(view), x.unsqueeze(1).expand(3, 2, 2, 4))
    lab.same("as_strided", vmap(lambda a: a.as_strided((2, 2), (4, 1)))(x))


@behaviour(
    "functorch",
    level="full",
    page="func.ux_limitations.html",
    ground="The UX limitations page defines vmap as a loop over elements with stacked results",
)
def batches_of_complex_views(lab: Lab) -> None:
    """``vmap`` returns real and imaginary parts, ``view_as_real``, ``view_as_complex`` and conjugates of each
    element of a batch.
    """
    z = lab.integers(3, 4, dtype=torch.complex64)
    pairs = lab.integers(3, 4, 2)
    check_vmap(lab, "real", lambda a: a.real, z)
    check_vmap(lab, "imag", lambda a: a.imag, z)
    check_vmap(lab, "view_as_real", torch.view_as_real, z)
    check_vmap(lab, "view_as_complex", torch.view_as_complex, pairs)
    check_vmap(lab, "conj", lambda a: a.conj().resolve_conj(), z)
    check_vmap(lab, "conj of dimension 1", lambda a: a.conj() * a, z, in_dims=1)
    check_vmap(lab, "conj physical", torch.conj_physical, z)
    lab.same("a conjugate is mapped", vmap(lambda a: a * 2)(z.conj()))
    lab.same("an imaginary part of a conjugate", vmap(lambda a: a + 1)(z.conj().imag))
    records: list[Any] = []
    vmap(lambda a: records.append((a.is_complex(), a.is_conj(), a.conj().is_conj())) or a)(z)  # type: ignore[func-returns-value]
    lab.same("checks of complex tensors inside vmap", records)


@behaviour(
    "functorch",
    level="training",
    page="func.ux_limitations.html",
    ground="The UX limitations page defines vmap as a loop over elements with stacked results",
)
def batches_of_reductions(lab: Lab) -> None:
    """Under ``vmap``, reductions act on each element of a batch, over all dimensions or over dimensions
    counted from either end.
    """
    # The sizes are powers of two, so that means are exact.
    x = lab.integers(4, 2, 4, low=-8, high=9)
    for name in ("sum", "mean", "amax", "amin", "prod", "cumsum", "any", "all"):
        function = getattr(torch, name)
        for dim in (0, 1, -1):
            check_vmap(lab, f"{name} over {dim}", lambda a: function(a, dim), x)
            check_vmap(lab, f"{name} over {dim} of the last", lambda a: function(a, dim), x, in_dims=2)
        if name != "cumsum":
            check_vmap(lab, name, function, x)
            check_vmap(lab, f"{name} twice", vmap(function), x)
            check_vmap(lab, f"{name} kept", lambda a: function(a, 1, keepdim=True), x)
    for name in ("max", "min", "median", "argmax", "argmin"):
        function = getattr(torch, name)
        distinct = lab.put(torch.tensor([[5.0, 1, 3, 7], [2, 9, 4, 0], [8, 6, 1, 3]]))
        check_vmap(lab, name, function, distinct)
        check_vmap(lab, f"{name} over a dimension", lambda a: function(a, 0), distinct)
        check_vmap(lab, f"{name} over the other dimension", lambda a: function(a, 0), distinct, in_dims=1)
    check_vmap(lab, "sum over two", lambda a: a.sum((0, 1)), x)
    check_vmap(lab, "sum of numbers", lambda a: a.sum(), x[:, 0, 0])
    check_vmap(lab, "trace", torch.trace, x[:, :, :2])
    check_vmap(lab, "sorted", lambda a: torch.sort(a, 0).values, x[:, 0])


@behaviour(
    "functorch",
    level="training",
    page="func.ux_limitations.html",
    ground="The UX limitations page defines vmap as a loop over elements with stacked results",
)
def batches_of_joins(lab: Lab) -> None:
    """Under ``vmap``, ``cat``, ``stack``, ``repeat``, ``roll``, ``flip``, ``tril``, ``one_hot`` and factory
    methods act on each element of a batch.
    """
    x, y, row = lab.integers(3, 2, 4), lab.integers(3, 2, 4), lab.integers(2, 4)
    for name in ("cat", "stack", "hstack", "vstack"):
        join = getattr(torch, name)
        check_vmap(lab, name, lambda a, b: join([a, b]), x, y)
        check_vmap(
            lab,
            f"{name} with an operand that is not mapped",
            lambda a, b: join([b, a]),
            x,
            row,
            in_dims=(0, None),
        )
        check_vmap(
            lab,
            f"{name} of other dimensions",
            lambda a, b: join([a, b]),
            x,
            y.movedim(0, 2),
            in_dims=(0, 2),
        )
    check_vmap(lab, "cat over 1", lambda a, b: torch.cat([a, b], 1), x, y)
    check_vmap(lab, "stack over -1", lambda a, b: torch.stack([a, b], -1), x, y)
    check_vmap(lab, "repeat", lambda a: a.repeat(2, 1, 3), x)
    check_vmap(lab, "roll", lambda a: torch.roll(a, 1), x)
    check_vmap(lab, "roll over one", lambda a: torch.roll(a, (1,), (1,)), x)
    check_vmap(lab, "flip", lambda a: a.flip(0, 1), x)
    check_vmap(lab, "tril", lambda a: torch.tril(a, 1), x)
    check_vmap(lab, "one_hot", lambda a: F.one_hot(a, 5), x.abs().long())
    check_vmap(lab, "new_zeros", lambda a: a.new_zeros(2, 3), x)
    check_vmap(lab, "new_full", lambda a: a.new_full((2,), 4), x)
    check_vmap(lab, "zeros_like", torch.zeros_like, x)
    check_vmap(lab, "full_like", lambda a: torch.full_like(a, 2), x)
    shapes = [
        tuple(vmap(lambda a: a.new_empty(2, 5))(x).shape),
        tuple(vmap(lambda a: a.new_empty_strided((2, 5), (5, 1)))(x).shape),
        tuple(vmap(torch.empty_like, in_dims=1)(x).shape),
    ]
    lab.same("shapes of uninitialized results", shapes)
    lab.same("new_zeros can be written to", vmap(lambda a: a.new_zeros(4).copy_(a))(x[:, 0]))


@behaviour(
    "functorch",
    level="training",
    page="func.ux_limitations.html",
    ground="The UX limitations page defines vmap as a loop over elements with stacked results",
)
def batches_of_products(lab: Lab) -> None:
    """Under ``vmap``, ``dot``, matrix and batched products, linear maps and convolutions act on each element
    of a batch.
    """
    a, b, v = lab.integers(3, 2, 4), lab.integers(3, 4, 2), lab.integers(3, 4)
    check_vmap(lab, "dot", torch.dot, v, v)
    check_vmap(lab, "dot with one", torch.dot, v, v[0], in_dims=(0, None))
    check_vmap(lab, "mv", torch.mv, a, v)
    check_vmap(lab, "mv with one vector", torch.mv, a, v[0], in_dims=(0, None))
    check_vmap(lab, "mv with one matrix", torch.mv, a[0], v, in_dims=(None, 0))
    check_vmap(lab, "mm", torch.mm, a, b)
    check_vmap(lab, "mm with one", torch.mm, a, b[0], in_dims=(0, None))
    check_vmap(lab, "mm from the left", torch.mm, a[0], b, in_dims=(None, 0))
    check_vmap(lab, "mm of the last dimension", torch.mm, a.movedim(0, 2), b, in_dims=(2, 0))
    check_vmap(lab, "bmm", torch.bmm, a.unsqueeze(1).expand(3, 5, 2, 4), b.unsqueeze(1).expand(3, 5, 4, 2))
    check_vmap(
        lab,
        "bmm with one",
        torch.bmm,
        a.unsqueeze(1).expand(3, 5, 2, 4),
        b[:1].expand(5, 4, 2),
        in_dims=(0, None),
    )
    check_vmap(lab, "matmul", torch.matmul, a, b)
    check_vmap(lab, "matmul of a vector", torch.matmul, v, b)
    check_vmap(lab, "matmul of more dimensions", torch.matmul, a.unsqueeze(1).unsqueeze(1), b.unsqueeze(1))
    check_vmap(lab, "outer", torch.outer, v, v)
    check_vmap(lab, "linear", lambda x, w: F.linear(x, w), v, a)
    check_vmap(lab, "addmm", lambda c, x, y: torch.addmm(c, x, y), lab.integers(3, 2, 2), a, b)
    lab.same("twice", vmap(vmap(torch.dot, in_dims=(None, 0)), in_dims=(0, None))(v, v))
    images, kernels = lab.integers(3, 2, 3, 5, 5), lab.integers(3, 4, 3, 2, 2)
    check_vmap(lab, "conv2d", lambda x, w: F.conv2d(x, w), images, kernels)
    check_vmap(
        lab,
        "conv2d of one kernel",
        lambda x, w: F.conv2d(x, w, padding=1),
        images,
        kernels[0],
        in_dims=(0, None),
    )
    check_vmap(
        lab,
        "conv2d of one image",
        lambda x, w: F.conv2d(x, w, stride=2),
        images[0],
        kernels,
        in_dims=(None, 0),
    )
    check_vmap(lab, "max_pool2d", lambda x: F.max_pool2d(x, 2), images)
    check_vmap(lab, "adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, 2), images[..., :4, :4] * 4)


@behaviour(
    "functorch",
    level="full",
    page="func.ux_limitations.html",
    ground="The UX limitations page defines vmap as a loop over elements with stacked results",
)
def batches_of_indexing(lab: Lab) -> None:
    """Under one and two levels of ``vmap``, indexing acts on each element of a batch. This holds for indices
    in any position, lists of indices, masks with a value, and index writes.
    """
    x, i = lab.integers(3, 4, 5), lab.put([[0, 2], [1, 3], [3, 0]])
    value = lab.integers(3, 2, 5)
    check_vmap(lab, "first", lambda a, n: a[n], x, i)
    check_vmap(lab, "second", lambda a, n: a[:, n], x, i)
    check_vmap(lab, "both", lambda a, n: a[n, n], x, i)
    check_vmap(lab, "with a slice between", lambda a, n: a[None, n, ..., 1:], x, i)
    check_vmap(lab, "one tensor for all", lambda a, n: a[n, 1], x[0], i, in_dims=(None, 0))
    check_vmap(lab, "one index for all", lambda a, n: a[n, :, None], x, i[0], in_dims=(0, None))
    check_vmap(lab, "an index of two dimensions", lambda a, n: a[n.view(1, 2)], x, i)
    check_vmap(lab, "index_select", lambda a, n: a.index_select(1, n), x, i)
    check_vmap(lab, "take_along_dim", lambda a, n: a.take_along_dim(n[:, None], 0), x, i)
    check_vmap(lab, "put", lambda a, n, v: a.clone().index_put_((n,), v), x, i, value)
    check_vmap(
        lab,
        "put of one value",
        lambda a, n, v: a.index_put((n,), v),
        x,
        i,
        value[0, 0, 0],
        in_dims=(0, 0, None),
    )
    check_vmap(lab, "put and add", lambda a, n, v: a.index_put((n,), v, accumulate=True), x, i, value)
    check_vmap(
        lab, "put into one", lambda a, n, v: a.index_put((n,), v), x[0], i, value, in_dims=(None, 0, 0)
    )
    check_vmap(lab, "fill", lambda a, n: a.index_fill(0, n, 7), x, i)
    with lab.parity("The page of index_fill_ describes the value as a number, not as a tensor"):
        check_vmap(lab, "fill by a tensor", lambda a, n, v: a.index_fill(1, n, v), x, i, value[:, 0, 0])
    check_vmap(lab, "add", lambda a, n, v: a.index_add(0, n, v), x, i, value)
    check_vmap(lab, "copy", lambda a, n, v: a.index_copy(0, n, v), x, i, value)
    check_vmap(
        lab, "a number as index", lambda a, n: a.index_put((n,), a.new_full((), 5)), x[:, :, 0], i[:, 0]
    )
    check_vmap(lab, "masked_fill", lambda a, m: a.masked_fill(m, 9), x, x > 1)
    check_vmap(
        lab, "masked_fill by one mask", lambda a, m: a.masked_fill(m, 9), x, x[0] > 1, in_dims=(0, None)
    )
    check_vmap(lab, "two levels", vmap(lambda a, n: a[n], in_dims=(None, 0)), x, i)  # type: ignore[misc]
    lab.same("levels apart", vmap(vmap(lambda a, n: a[n], in_dims=(0, None)), in_dims=(None, 0))(x, i))
