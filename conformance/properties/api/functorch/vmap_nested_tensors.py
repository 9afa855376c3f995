"""vmap over nested tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import vmap

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


def nested(lab: Lab, *sizes: Sequence[int]) -> torch.Tensor:
    """Return a nested tensor on the device whose parts have these sizes."""
    return torch.nested.nested_tensor([lab.integers(*size) for size in sizes])


def parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the parts of a nested tensor."""
    return list(tensor.unbind())


@behaviour("functorch", level="full", capabilities=("nested",))
def batches_of_nested_parts(lab: Lab) -> None:
    """vmap over a nested tensor acts on each part, which is a plain tensor inside: pointwise, in products
    with nested, plain and mapped matrices, and in joins.
    """
    x = nested(lab, (3, 2), (4, 2), (2, 2))
    kinds: list[bool] = []

    def look(a: torch.Tensor) -> torch.Tensor:
        kinds.append(a.is_nested)
        return a * 5.0 + 4.0

    lab.same("pointwise", parts(vmap(look)(x)))
    lab.same("a part is nested", kinds)
    y = nested(lab, (2, 4), (2, 1), (2, 3))
    plain, mapped = lab.integers(2, 5), lab.integers(3, 2, 5)
    join = nested(lab, (1, 2), (5, 2), (2, 2))
    wide = nested(lab, (3, 4), (4, 4), (2, 4))
    results = {
        "with nested matrices": (
            vmap(torch.matmul)(x, y),
            [a @ b for a, b in zip(parts(x), parts(y), strict=True)],
        ),
        "with one matrix": (vmap(torch.matmul, in_dims=(0, None))(x, plain), [a @ plain for a in parts(x)]),
        "with mapped matrices": (
            vmap(torch.matmul)(x, mapped),
            [a @ b for a, b in zip(parts(x), mapped, strict=True)],
        ),
        "joined over the ragged dimension": (
            vmap(lambda a, b: torch.cat([a, b], 0))(x, join),
            [torch.cat([a, b], 0) for a, b in zip(parts(x), parts(join), strict=True)],
        ),
        "joined over the other dimension": (
            vmap(lambda a, b: torch.cat([a, b], 1))(x, wide),
            [torch.cat([a, b], 1) for a, b in zip(parts(x), parts(wide), strict=True)],
        ),
    }
    for name, (result, due) in results.items():
        lab.same(name, parts(result))
        lab.holds(f"{name}: nested", result.is_nested)
        lab.holds(
            f"{name}: part by part", all(torch.equal(a, b) for a, b in zip(parts(result), due, strict=True))
        )


@behaviour("functorch", level="full", capabilities=("nested",), sees=("error", "message"))
def batches_refuse_nested(lab: Lab) -> None:
    """vmap maps nested tensors by dimension 0 alone, in and out, and at one level."""
    x = nested(lab, (3, 2), (4, 2))
    lab.raises("in by another", lambda: vmap(lambda a: a, in_dims=2)(x), match="dim=0")
    lab.raises("out by another", lambda: vmap(lambda a: a, out_dims=2)(x), match="dim=0")
    deep = nested(lab, (2, 2, 3), (2, 2, 4))
    lab.raises("two levels", lambda: vmap(vmap(torch.neg))(deep), match="(?i)one level")
    lab.raises("three levels", lambda: vmap(vmap(vmap(torch.neg)))(deep), match="(?i)one level")
