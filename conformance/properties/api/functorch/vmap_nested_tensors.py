"""Behaviours of ``vmap`` over nested tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import vmap

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


def nested_tensor(lab: Lab, *sizes: Sequence[int]) -> torch.Tensor:
    """Return a nested tensor on the device whose parts have these sizes."""
    return torch.nested.nested_tensor([lab.integers(*size) for size in sizes])


def components_of_nested_tensor(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the parts of a nested tensor."""
    return list(tensor.unbind())


@behaviour(
    "functorch",
    level="full",
    capabilities=("nested",),
    page="nested.html",
    basis="consistency",
    ground="vmap over a nested tensor and the single calls on its parts must agree",
)
def batches_of_nested_parts(lab: Lab) -> None:
    """``vmap`` over a nested tensor acts on each part. Inside ``vmap``, a part is an ordinary tensor. This
    holds for pointwise operators, for products with nested, shared and mapped matrices, and for joins.
    """
    x = nested_tensor(lab, (3, 2), (4, 2), (2, 2))
    kinds: list[bool] = []

    def record_nested_and_scale(a: torch.Tensor) -> torch.Tensor:
        kinds.append(a.is_nested)
        return a * 5.0 + 4.0

    lab.same("pointwise", components_of_nested_tensor(vmap(record_nested_and_scale)(x)))
    with lab.parity("No page says what is_nested returns inside of vmap"):
        lab.same("a part is nested", kinds)
    y = nested_tensor(lab, (2, 4), (2, 1), (2, 3))
    one_matrix, matrices = lab.integers(2, 5), lab.integers(3, 2, 5)
    join = nested_tensor(lab, (1, 2), (5, 2), (2, 2))
    wide = nested_tensor(lab, (3, 4), (4, 4), (2, 4))
    results = {
        "with nested matrices": (
            vmap(torch.matmul)(x, y),
            [
                a @ b
                for a, b in zip(components_of_nested_tensor(x), components_of_nested_tensor(y), strict=True)
            ],
        ),
        "with one matrix": (
            vmap(torch.matmul, in_dims=(0, None))(x, one_matrix),
            [a @ one_matrix for a in components_of_nested_tensor(x)],
        ),
        "with mapped matrices": (
            vmap(torch.matmul)(x, matrices),
            [a @ b for a, b in zip(components_of_nested_tensor(x), matrices, strict=True)],
        ),
        "joined along the ragged dimension": (
            vmap(lambda a, b: torch.cat([a, b], 0))(x, join),
            [
                torch.cat([a, b], 0)
                for a, b in zip(
                    components_of_nested_tensor(x), components_of_nested_tensor(join), strict=True
                )
            ],
        ),
        "concatenated along the regular dimension": (
            vmap(lambda a, b: torch.cat([a, b], 1))(x, wide),
            [
                torch.cat([a, b], 1)
                for a, b in zip(
                    components_of_nested_tensor(x), components_of_nested_tensor(wide), strict=True
                )
            ],
        ),
    }
    for name, (result, expected_parts) in results.items():
        lab.same(name, components_of_nested_tensor(result))
        with lab.parity("No page says that the result of vmap over a nested tensor is nested"):
            lab.holds(f"{name}: nested", result.is_nested)
        lab.holds(
            f"{name}: part by part",
            all(
                torch.equal(a, b)
                for a, b in zip(components_of_nested_tensor(result), expected_parts, strict=True)
            ),
        )


@behaviour(
    "functorch",
    level="full",
    capabilities=("nested",),
    must_detect=("error", "message"),
    page="nested.html",
    basis="parity",
    ground="No page describes vmap over nested tensors",
)
def batches_refuse_nested(lab: Lab) -> None:
    """``vmap`` maps a nested tensor only over dimension 0 and only at one level. Any other dimension in
    ``in_dims`` or ``out_dims``, and a second level, raise errors.
    """
    x = nested_tensor(lab, (3, 2), (4, 2))
    lab.raises("in by another", lambda: vmap(lambda a: a, in_dims=2)(x), match="dim=0")
    lab.raises("out by another", lambda: vmap(lambda a: a, out_dims=2)(x), match="dim=0")
    deep = nested_tensor(lab, (2, 2, 3), (2, 2, 4))
    lab.raises("two levels", lambda: vmap(vmap(torch.neg))(deep), match="(?i)one level")
    lab.raises("three levels", lambda: vmap(vmap(vmap(torch.neg)))(deep), match="(?i)one level")
