"""Memory budgets: what a compiled function keeps for its backward, and what it computes again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from conformance import torch_private
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab

SIZE = 8


def budgeted(function: Callable[..., Any], budget: float, *, profile: bool = False) -> Callable[..., Any]:
    """The function compiled with a budget; tests break it here."""
    return torch_private.within_memory_budget(function, budget, profile=profile)


def measured(function: Callable[..., Any], leaves: Sequence[torch.Tensor]) -> tuple[float, float, list[Any]]:
    """Return how much a function keeps beside its inputs, how many products its backward has, each counted
    in squares of SIZE, and the result with the gradients.
    """
    inputs = {leaf.untyped_storage()._cdata for leaf in leaves}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in inputs:
            kept[storage._cdata] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = function(*leaves)
    with FlopCounterMode(display=False) as counter:
        gradients = torch.autograd.grad(result, leaves)
    square = SIZE * SIZE
    products = counter.get_total_flops() / (2 * square * SIZE)
    return sum(kept.values()) / (square * 4), products, [result.detach(), *gradients]


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def budgets_bound_what_is_kept(lab: Lab) -> None:
    """A compiled function with a memory budget keeps no more than its share, computes again what is cheap
    first, and gives the results and gradients of the function; 1 keeps all.
    """

    def square(rows: int = 1, columns: int = 1) -> torch.Tensor:
        return lab.floats(rows * SIZE, columns * SIZE).requires_grad_()

    def chain(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        x = x.cos()
        for weight in weights:
            x = torch.mm(x, weight).cos()
        return x.sum()

    def side_by_side(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.mm(x, weight).cos().sum() for weight in weights]).sum()

    def pairs(*tensors: torch.Tensor) -> torch.Tensor:
        half = len(tensors) // 2
        products = zip(tensors[:half], tensors[half:], strict=True)
        return torch.stack([torch.mm(x, w).cos().sum() for x, w in products]).sum()

    even = (square(), square(), square(), square())
    widths = (square(), square(1, 5), square(1, 3), square(1, 2))
    costs = (square(1, 1), square(2, 2), square(1, 4), square(2, 2))
    three = (square(4, 4), square(6, 6), square(2, 2), square(4, 4), square(6, 2), square(2, 6))
    cases: dict[
        str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], dict[float, tuple[float, float]]]
    ] = {
        # By budget: what is kept, and how many products are made again.
        "one": (lambda x, w: torch.mm(x.cos(), w).sum(), (square(), square()), {0.5: (0, 0)}),
        "a chain": (chain, even, {1.0: (6, 0), 0.5: (3, 0), 0.17: (1, 2)}),
        "of several widths": (side_by_side, widths, {0.5: (5, 5)}),
        "the cheaper product": (pairs, costs, {0.5: (4, 4)}),
        "three pairs": (pairs, three, {16 / 40: (12, 88)}),
    }
    for name, (program, leaves, budgets) in cases.items():
        _, products, due = measured(program, leaves)
        for budget, (kept, again) in budgets.items():
            call = budgeted(program, budget)
            torch.autograd.grad(call(*leaves), leaves)
            found, count, shown = measured(call, leaves)
            lab.close(f"{name}, {budget:.2f}", shown, matrix=True)
            lab.holds(
                f"{name}, {budget:.2f}: as eager",
                all(torch.allclose(a, b, 1e-3, 1e-3) for a, b in zip(shown, due, strict=True)),
            )
            lab.expect(f"{name}, {budget:.2f}: kept", found, float(kept))
            lab.expect(f"{name}, {budget:.2f}: products again", count - products, float(again))


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def budgets_with_checkpoints(lab: Lab) -> None:
    """Checkpoints inside a function that is compiled with a memory budget are kept to; a budget may be
    spent by times measured on the device.
    """
    x = lab.floats(SIZE, 4 * SIZE).requires_grad_()

    def deep(y: torch.Tensor) -> torch.Tensor:
        z = torch.matmul(y, y.T)
        return torch.matmul(torch.matmul(z, z), y)

    def twice(y: torch.Tensor) -> Any:
        once = checkpoint(deep, y, use_reentrant=False)
        return checkpoint(deep, once, use_reentrant=False).sum()  # type: ignore[union-attr]

    _, products, due = measured(twice, [x])
    call = budgeted(twice, 0.01)
    torch.autograd.grad(call(x), x)
    found, count, shown = measured(call, [x])
    lab.close("with checkpoints", shown, matrix=True, roundings=64)
    lab.holds(
        "values as eager", all(torch.allclose(a, b, 1e-2, 1e-2) for a, b in zip(shown, due, strict=True))
    )
    lab.same("kept and computed", [found, count - products])

    leaves = [lab.floats(SIZE, SIZE).requires_grad_() for _ in range(3)]

    def chain(y: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        for weight in weights:
            y = torch.mm(y.cos(), weight)
        return y.sum()

    call = budgeted(chain, 0.4, profile=True)
    torch.autograd.grad(call(*leaves), leaves)
    found, _, shown = measured(call, leaves)
    lab.close("by time", shown, matrix=True)
    lab.holds("by time: within the budget", found <= 0.4 * measured(chain, leaves)[0])
