"""Check ``torch.gradient``, interpolation of integers, and functions of tensors without elements."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "tensor",
    dtypes=("float32", "float64", "int64"),
    must_detect=("value", "error"),
    page="generated/torch.gradient.html",
)
def numerical_gradients(lab: Lab) -> None:
    """``torch.gradient`` accepts the spacing as one number, one number per dimension, or coordinates. Too few
    points and a wrong number of spacings raise an error.
    """
    base = lab.put([[1, 4, 9, 16, 25], [2, 3, 5, 7, 11], [0, 1, 1, 2, 3]], dtype=lab.dtype)
    lab.expect("along 1", torch.gradient(base, dim=1)[0][0], [3, 4, 6, 8, 9])
    lab.same("all", list(torch.gradient(base.double())))
    lab.same("a spacing", list(torch.gradient(base.double(), spacing=2.0)))
    lab.same("a spacing each", list(torch.gradient(base.double(), spacing=[2.0, 0.5])))
    coordinates = (lab.put([0.0, 1.0, 4.0]), lab.put([0.0, 1.0, 2.0, 4.0, 8.0]))
    lab.close(
        "coordinates",
        list(torch.gradient(base.double(), spacing=coordinates)),
        roundings=64,
        dtype=torch.float32,
    )
    lab.close("gradient with edge_order=2", list(torch.gradient(base.double(), edge_order=2)), roundings=64)
    lab.same("two dimensions", list(torch.gradient(base, dim=(1, 0))))
    lab.same("dtypes", [part.dtype for part in torch.gradient(base.float(), spacing=2)])
    lab.raises("too many spacings", lambda: torch.gradient(base, spacing=[1.0, 2.0, 3.0]), match="spacing")
    lab.raises(
        "spacing for other dimensions",
        lambda: torch.gradient(base, spacing=[1.0, 2.0], dim=0),
        match="spacing",
    )
    lab.raises("one point", lambda: torch.gradient(base[:1], dim=0), match="(?i)edge_order")
    with lab.parity("No page says that a repeated dimension is refused"):
        lab.raises("a dimension twice", lambda: torch.gradient(base, dim=(0, 0)), match="(?i)multiple times")
    with lab.parity("No page says that a dimension out of range is refused"):
        lab.raises("a dimension too far", lambda: torch.gradient(base, dim=3), IndexError)
    with lab.parity("The page lists 1 and 2, but does not say that other orders are refused"):
        lab.raises("another order", lambda: torch.gradient(base, edge_order=3), match="edge_order")


@behaviour("tensor", must_detect=("value", "error"), page="generated/torch.nn.functional.interpolate.html")
def upsampling_of_integers(lab: Lab) -> None:
    """Nearest-neighbour interpolation repeats elements, also of integer and uint8 tensors. Sizes, scales and
    grids that do not match the input raise an error.
    """
    plane = lab.integers(1, 2, 3, 4, low=0, high=9)
    lab.expect(
        "each twice",
        F.interpolate(plane, scale_factor=2),
        plane.cpu().repeat_interleave(2, 2).repeat_interleave(2, 3),
    )
    small = plane.to(torch.uint8)
    lab.same("bytes", F.interpolate(small, scale_factor=2, mode="nearest"))
    # At these sizes, no new element has its center on the border of two elements.
    lab.same("exactly", F.interpolate(plane, size=(5, 12), mode="nearest-exact"))
    with lab.parity("No page says that a call without size and scale is refused"):
        lab.raises("no size", lambda: F.interpolate(plane), ValueError, match="size or scale_factor")
    lab.raises(
        "both",
        lambda: F.interpolate(plane, size=3, scale_factor=2),
        ValueError,
        match="only one of size or scale_factor",
    )
    lab.raises(
        "mode bilinear for a one-dimensional signal",
        lambda: F.interpolate(plane[0], scale_factor=2, mode="bilinear"),
        NotImplementedError,
    )
    grid = torch.zeros(1, 2, 2, 2, device=lab.device)
    with lab.parity("The page gives the shape of grids, but does not say that other shapes are refused"):
        lab.raises(
            "a grid with three coordinates for a plane",
            lambda: F.grid_sample(plane, torch.zeros(1, 2, 2, 3, device=lab.device), align_corners=False),
            match="(?i)grid",
        )
        lab.raises(
            "a grid of another batch size",
            lambda: F.grid_sample(plane, grid.expand(2, 2, 2, 2), align_corners=False),
            match="(?i)batch",
        )
        lab.raises(
            "a grid with too few dimensions",
            lambda: F.grid_sample(plane, grid[0], align_corners=False),
            match="(?i)dim|4D|5D|batch",
        )
    with lab.parity("No page says that integer grids are refused"):
        lab.raises("a grid of integers", lambda: F.grid_sample(plane, grid.long(), align_corners=False))
    with lab.parity("No page says that an empty plane is refused"):
        lab.raises(
            "an empty plane",
            lambda: F.grid_sample(plane[:, :, :0], grid, align_corners=False),
            match="(?i)empty|non-zero|nonzero",
        )


@behaviour(
    "tensor",
    level="core",
    dtypes=("float32", "int64", "bool"),
    must_detect=("shape", "error"),
    page="generated/torch.reshape.html",
    ground="shapes follow from the definitions of the functions on their pages",
)
def shapes_of_nothing(lab: Lab) -> None:
    """Functions that move elements accept tensors without elements. The shapes of their results depend only
    on the sizes of the input.
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
        "sort": lambda: [*base.sort(2), *base.sort(0)],
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
        "where": lambda: [torch.where(base == 0, base, base)],
        "any": lambda: [base.any(), base.all(), base.any(2), base.all(0)],
        "triangles": lambda: [
            torch.tril_indices(0, 3, device=lab.device),
            torch.triu_indices(3, 0, device=lab.device),
        ],
    }
    if lab.target.capable("data_dependent_shapes"):
        calls["unique"] = lambda: [base.unique()]
        calls["nonzero"] = lambda: [
            base.nonzero(),
            base.masked_select(base == 0),
            torch.zeros(3, device=lab.device)[:0].nonzero(),
            *torch.where(base),
        ]
    for name, call in calls.items():
        lab.same(name, call())
    if lab.dtype != torch.bool:
        lab.same(
            "sums",
            [base.sum(), base.sum(0), base.sum((0, 2)), base.prod(3), base.cumsum(2), base.count_nonzero()],
        )
        for name in ("max", "min", "argmax", "amax"):
            with lab.parity("No page says that the maximum of no elements is refused"):
                lab.raises(f"{name} of nothing", lambda: getattr(base, name)(), RuntimeError, IndexError)
                lab.raises(f"{name} along nothing", lambda: getattr(base, name)(0), RuntimeError, IndexError)
        lab.same("max along something", [base.max(2).values, base.amax(1), base.argmin(2)])
    with lab.parity("No page says that take refuses an index out of range"):
        lab.raises("take from nothing", lambda: base.take(lab.put([0])), RuntimeError, IndexError)
    lab.raises("a view of another size", lambda: base.view(1), RuntimeError)
    with lab.parity("No page says that -1 beside a size of 0 is refused"):
        lab.raises("a view whose size is ambiguous", lambda: base.view(-1, 0), RuntimeError)


@behaviour(
    "tensor",
    capabilities=("autograd",),
    dtypes=("float32", "float64"),
    must_detect=("value",),
    page="generated/torch.cdist.html",
    ground="norms of empty and of zero vectors are zero by definition",
)
def distances_of_nothing(lab: Lab) -> None:
    """``cdist`` and ``pdist`` accept zero points and points with zero coordinates. Equal points have distance
    zero.
    """

    def random_points(count: int, size: int) -> torch.Tensor:
        return lab.floats(2, count, size)

    lab.same(
        "no points",
        [
            torch.cdist(random_points(0, 3), random_points(4, 3)),
            torch.cdist(random_points(4, 3), random_points(0, 3)),
        ],
    )
    lab.expect("no coordinates", torch.cdist(random_points(3, 0), random_points(4, 0)), torch.zeros(2, 3, 4))
    lab.same("no batch", torch.cdist(random_points(2, 3)[:0], random_points(4, 3)[:0]))
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
        first_points, second_points = lab.integers(30, 4), lab.integers(40, 4)
        expected = (first_points[:, None] - second_points[None]).pow(2).sum(-1).sqrt()
        lab.holds(
            f"cdist is correct with {mode}",
            torch.allclose(torch.cdist(first_points, second_points, compute_mode=mode), expected, atol=2e-3),
        )
    leaf: Any = lab.integers(3, 2).requires_grad_()
    torch.cdist(leaf, leaf.detach().clone(), p=0.5).sum().backward()
    with lab.parity("at equal points the distance has no gradient, and no page gives one"):
        lab.holds("gradients of cdist with p=0.5 are not NaN", not bool(leaf.grad.isnan().any()))
    equal = lab.integers(3, 2).requires_grad_()
    torch.cdist(equal, equal.detach().clone(), p=2.0).diagonal().sum().backward()
    with lab.parity("at equal points the distance has no gradient, and no page gives one"):
        lab.expect("gradients between equal points", equal.grad, torch.zeros(3, 2))
