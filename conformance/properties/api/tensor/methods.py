"""Tensors of no elements, shared places, and other corners of their methods."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour("tensor", level="core", dtypes=("float32", "int64", "bool"), sees=("shape", "error"))
def shapes_of_nothing(lab: Lab) -> None:
    """Functions that move elements take tensors without elements and give the shapes that arithmetic on the
    sizes gives.
    """
    base = lab.integers(0, 1, 3, 0)
    calls: dict[str, Any] = {
        "flatten": lambda: [base.flatten(0, 3), base.flatten(1, 2), base.flatten()],
        "squeeze": lambda: [base.squeeze(), base.squeeze(1)],
        "transpose": lambda: [base.transpose(0, 3), base.permute(2, 3, 0, 1), base.unsqueeze(2)],
        "view": lambda: [base.view(3, 0, 1), base.reshape(0, 9)],
        "expand": lambda: [base.expand(0, 4, 3, 0), base[:, :, :1].expand(-1, 1, 5, -1)],
        "split": lambda: [*base.split(0), *base.split(2, 2), *base.chunk(3, 2), *base.split([0, 0], 3)],
        "narrow": lambda: [base.narrow(2, 1, 2), base.narrow(0, 0, 0), lab.integers(2, 3).narrow(0, 2, 0)],
        "select": lambda: [base.select(2, 1), base[:, 0], base[:, :, 2]],
        "diagonal": lambda: [
            base.diagonal(),
            base.diagonal(1, 2, 3),
            torch.diagflat(base),
            lab.integers(0, 4).tril(),
        ],
        "flip": lambda: [base.flip(0), base.flip(0, 3), base.roll(1, 2), base.rot90(1, (0, 3))],
        "repeat": lambda: [base.repeat(2, 1, 1, 3), base.repeat(1, 0, 1, 1), base.unfold(2, 2, 1)],
        "cat": lambda: [torch.cat((base, base), 0), torch.stack((base, base), 1), torch.cat((base, base), 2)],
        "sort": lambda: [*base.sort(2), *base.sort(0), base.unique()],
        "nonzero": lambda: [
            base.nonzero(),
            base.masked_select(base == 0),
            torch.zeros(3, device=lab.device)[:0].nonzero(),
        ],
        "index": lambda: [
            base.index_select(2, lab.put([0, 0])),
            base[:, [0, 0]],
            base.index_select(0, lab.put([], dtype=torch.int64)),
        ],
        "take": lambda: [
            base.take(lab.put([], dtype=torch.int64)),
            base.take(torch.zeros(0, 3, dtype=torch.int64, device=lab.device)),
        ],
        "gather": lambda: [base.gather(2, torch.zeros(0, 1, 2, 0, dtype=torch.int64, device=lab.device))],
        "scatter": lambda: [lab.integers(3).scatter(0, lab.put([], dtype=torch.int64), lab.integers(0))],
        "put": lambda: [base.clone().put_(lab.put([], dtype=torch.int64), lab.integers(0))],
        "index_add": lambda: (
            [base.clone().index_add_(2, lab.put([1]), lab.integers(0, 1, 1, 0))]
            if lab.dtype != torch.bool
            else []
        ),
        "fill": lambda: [
            base.clone().fill_(1),
            base.clone().zero_(),
            base.clone().copy_(base),
            base.masked_fill(base == 0, 1),
        ],
        "where": lambda: [torch.where(base == 0, base, base), *torch.where(base)],
        "any": lambda: [base.any(), base.all(), base.any(2), base.all(0)],
        "triangles": lambda: [
            torch.tril_indices(0, 3, device=lab.device),
            torch.triu_indices(3, 0, device=lab.device),
        ],
    }
    for name, call in calls.items():
        lab.same(name, call())
    if lab.dtype != torch.bool:
        lab.same(
            "sums",
            [base.sum(), base.sum(0), base.sum((0, 2)), base.prod(3), base.cumsum(2), base.count_nonzero()],
        )
        for name in ("max", "min", "argmax", "amax"):
            lab.raises(f"{name} of nothing", lambda: getattr(base, name)(), RuntimeError, IndexError)
            lab.raises(f"{name} along nothing", lambda: getattr(base, name)(0), RuntimeError, IndexError)
        lab.same("max along something", [base.max(2).values, base.amax(1), base.argmin(2)])
    lab.raises("take from nothing", lambda: base.take(lab.put([0])), RuntimeError, IndexError)
    lab.raises("a view of another size", lambda: base.view(1), RuntimeError)
    lab.raises("a view whose size is ambiguous", lambda: base.view(-1, 0), RuntimeError)


@behaviour("tensor", dtypes=("float32", "float64"), sees=("value",))
def distances_of_nothing(lab: Lab) -> None:
    """cdist and related functions accept zero points and points with zero coordinates; equal points are at
    distance zero.
    """

    def points(count: int, size: int) -> torch.Tensor:
        return lab.floats(2, count, size)

    lab.same("no points", [torch.cdist(points(0, 3), points(4, 3)), torch.cdist(points(4, 3), points(0, 3))])
    lab.expect("no coordinates", torch.cdist(points(3, 0), points(4, 0)), torch.zeros(2, 3, 4))
    lab.same("no batch", torch.cdist(points(2, 3)[:0], points(4, 3)[:0]))
    lab.same("pdist of one point", torch.pdist(lab.floats(1, 3)))
    lab.expect("pdist of no coordinates", torch.pdist(lab.floats(4, 0)), torch.zeros(6))
    same = lab.integers(5, 4)
    for p in (0.0, 0.5, 1.0, 2.0, 3.0, float("inf")):
        lab.expect(f"diagonal for p={p}", torch.cdist(same, same, p=p).diagonal(), [0.0] * 5)
    for mode in (
        "use_mm_for_euclid_dist_if_necessary",
        "use_mm_for_euclid_dist",
        "donot_use_mm_for_euclid_dist",
    ):
        far, near = lab.integers(30, 4), lab.integers(40, 4)
        expected = (far[:, None] - near[None]).pow(2).sum(-1).sqrt()
        lab.holds(
            f"by {mode}", torch.allclose(torch.cdist(far, near, compute_mode=mode), expected, atol=2e-3)
        )
    leaf: Any = lab.integers(3, 2).requires_grad_()
    torch.cdist(leaf, leaf.detach().clone(), p=0.5).sum().backward()
    lab.holds("gradients below p=1 are numbers", not bool(leaf.grad.isnan().any()))
    equal = lab.integers(3, 2).requires_grad_()
    torch.cdist(equal, equal.detach().clone(), p=2.0).diagonal().sum().backward()
    lab.expect("gradients between equal points", equal.grad, torch.zeros(3, 2))


@behaviour("tensor", dtypes=("float32", "int64", "bool"), sees=("value", "error"))
def filled_diagonals(lab: Lab) -> None:
    """fill_diagonal_ writes the main diagonal, of a tall matrix again and again with wrap, of a cube the long
    one.
    """
    for shape, wrap in (
        ((3, 3), False),
        ((2, 5), False),
        ((7, 3), False),
        ((7, 3), True),
        ((3, 3, 3), False),
    ):
        base = torch.zeros(shape, dtype=lab.dtype, device=lab.device)
        lab.holds(f"{shape} gives itself", base.fill_diagonal_(1, wrap=wrap) is base)
        lab.same(f"{shape}, wrap={wrap}", base)
    turned = torch.zeros(4, 3, dtype=lab.dtype, device=lab.device).t()
    lab.same("of a transposed one", turned.fill_diagonal_(1))
    part = torch.zeros(4, 6, dtype=lab.dtype, device=lab.device)
    part[1:, ::2].fill_diagonal_(1)
    lab.same("of a part", part)
    lab.raises(
        "of a vector",
        lambda: torch.zeros(3, device=lab.device).fill_diagonal_(1),
        match="larger than 1|at least 2",
    )
    lab.raises(
        "of an uneven cube",
        lambda: torch.zeros(2, 3, 4, device=lab.device).fill_diagonal_(1),
        match="equal length",
    )


@behaviour("tensor", sees=("value", "warning"))
def writes_to_expanded_warn(lab: Lab) -> None:
    """Filling by index or mask warns if several elements share one place in memory."""

    def folded() -> torch.Tensor:
        return torch.zeros(1, device=lab.device).expand(6)

    mask = torch.ones(6, dtype=torch.bool, device=lab.device)
    calls: dict[str, Any] = {
        "index_fill_": lambda: folded().index_fill_(0, lab.put([0, 1]), 1.0),
        "index_put_": lambda: folded().index_put_((lab.put([0, 1]),), lab.put(1.0)),
        "masked_fill_": lambda: folded().masked_fill_(mask, 1.0),
    }
    for name, call in calls.items():
        lab.expect(name, lab.warns(name, call, match="expanded tensors is deprecated"), [1.0] * 6)


@behaviour("tensor", dtypes=("float32", "int64"), sees=("value", "error"))
def copies_from_one_to_many(lab: Lab) -> None:
    """copy_ reads expanded sources any number of times without adding anything up, and indexed sums handle
    edge cases of sizes.
    """
    base = torch.zeros(3, 4, dtype=lab.dtype, device=lab.device)
    source = lab.integers(1, 4)
    lab.same("a row to all", base.copy_(source.expand(3, 4)))
    lab.same("one element to all", base.copy_(source[0, 1].expand(3, 4)))
    lab.same("overlapping windows", base[:, :3].copy_(lab.integers(12).as_strided((3, 3), (1, 1))))
    scalar = lab.integers()
    lab.same("index_add to a scalar", scalar.index_add(0, lab.put([0]), lab.integers()))
    lab.same("index_add by a scalar index", base.clone().index_add_(0, lab.put(1), lab.integers(1, 4)))
    lab.same("index_add of nothing", base.index_add(0, lab.put([], dtype=torch.int64), lab.integers(0, 4)))
    many = lab.put([0, 2] * 300)
    lab.same("index_add of many", base.index_add(0, many, lab.integers(600, 4), alpha=2))
    lab.raises(
        "index_add of a wrong size",
        lambda: base.index_add(0, lab.put([0, 1]), lab.integers(1, 4)),
        RuntimeError,
        IndexError,
    )
    lab.raises(
        "index_add of another dtype",
        lambda: base.index_add(0, lab.put([0]), lab.integers(1, 4).to(torch.int16)),
    )
    lab.raises(
        "t of a cube", lambda: lab.integers(2, 2, 2).t(), match="expects a tensor with <= 2 dimensions"
    )
    lab.raises(
        "t_ of a cube", lambda: lab.integers(2, 2, 2).t_(), match="expects a tensor with <= 2 dimensions"
    )
    out = torch.zeros(2, 2, dtype=lab.dtype, device=lab.device)[:, :1]
    lab.same("a dense result into a part", torch.add(source[0, :2].view(2, 1), 1, out=out))
    lab.same(
        "into a part as well",
        [torch.mul(base, base, out=torch.zeros(4, 3, dtype=lab.dtype, device=lab.device).t()), base],
    )


class Marked(torch.Tensor):
    """A subclass that says nothing else."""


@behaviour("tensor", sees=("value",))
def plain_subclasses(lab: Lab) -> None:
    """as_subclass views a tensor as a subclass, which operators, views and copies preserve and methods of
    torch.Tensor do not lose.
    """
    base = lab.integers(2, 3)
    marked = base.as_subclass(Marked)
    lab.shares("a tensor and its subclass", base, marked)
    lab.holds("it is of the class", type(marked) is Marked)
    for name, result in {
        "sum": marked + 1,
        "other": 1 + marked,
        "row": marked[0],
        "view": marked.view(3, 2),
        "clone": marked.clone(),
        "cast": marked.double(),
        "copy": marked.to(lab.device, copy=True),
    }.items():
        lab.holds(f"{name} is of the class", type(result) is Marked)
        lab.same(name, result.as_subclass(torch.Tensor))
    lab.holds("back", type(marked.as_subclass(torch.Tensor)) is torch.Tensor)
    leaf = lab.floats(3, requires_grad=True)
    (leaf.as_subclass(Marked) * 2).sum().backward()
    lab.same("gradients", leaf.grad)
    lab.holds("a tensor made as one", type(Marked([1.0, 2.0])) is Marked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lab.holds("printed under its name", repr(marked).startswith("Marked("))
