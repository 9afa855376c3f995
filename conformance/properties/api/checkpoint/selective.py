"""Behaviours of selective checkpointing: a policy chooses the operators whose results are saved and not
recomputed.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab

aten = torch.ops.aten


class _OperatorCountingMode(TorchDispatchMode):
    """A dispatch mode that counts the calls of each operator."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        self.counts[name] = self.counts.get(name, 0) + 1
        return function(*args, **(kwargs or {}))


def _context_function(policy: Any) -> Any:
    """Return the ``context_fn`` for a policy of selective checkpointing."""
    return functools.partial(create_selective_checkpoint_contexts, policy)


@behaviour("checkpoint", must_detect=("value",))
def kept_results(lab: Lab) -> None:
    """If a policy saves the results of an operator, the backward does not run this operator again. The
    gradients equal the gradients of an ordinary call.
    """
    x, y = lab.integers(4, 4, requires_grad=True), lab.integers(4, 4, requires_grad=True)

    def chain_of_products(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.mm(torch.mm(a, b).relu(), b).sin().cos() * 1

    lab.close("plain", torch.autograd.grad(chain_of_products(x, y).sum(), (x, y)), roundings=256, matrix=True)
    policies = {
        "none": lambda ctx, op, *a, **k: CheckpointPolicy.PREFER_RECOMPUTE,
        "products": lambda ctx, op, *a, **k: (
            CheckpointPolicy.MUST_SAVE if op is aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE
        ),
        "all": lambda ctx, op, *a, **k: CheckpointPolicy.MUST_SAVE,
        "a list": [aten.mm.default],
    }
    counts: dict[str, dict[str, int]] = {}
    for name, policy in policies.items():
        out = checkpoint(chain_of_products, x, y, use_reentrant=False, context_fn=_context_function(policy))
        with _OperatorCountingMode() as counter:
            gradients = torch.autograd.grad(out.sum(), (x, y))
        lab.close(f"gradients, saved: {name}", gradients, roundings=256, matrix=True)
        counts[name] = {operator: counter.counts.get(operator, 0) for operator in ("mm", "sin")}
    lab.holds("saved products do not run again", counts["none"]["mm"] - counts["products"]["mm"] == 2)
    lab.holds("other operators run again", counts["none"]["sin"] == counts["products"]["sin"])
    lab.holds("a list of operators acts as a policy that saves them", counts["a list"] == counts["products"])
    lab.holds("a saved sine does not run again", counts["none"]["sin"] - counts["all"]["sin"] == 1)
    with lab.parity("No page says which operators the formulas of gradients call"):
        lab.same("products and sines in backward", counts)


@behaviour(
    "checkpoint",
    must_detect=("value",),
    ground="By the page, the policy is called for each operator, and only in the forward",
)
def policies_with_state(lab: Lab) -> None:
    """A policy may have state and may choose differently at each call. The policy is called in the forward
    only.
    """
    x = lab.integers(3, 3, requires_grad=True)
    decisions: list[int] = []

    class CountingPolicy:
        def __init__(self) -> None:
            self.product_count = 0

        def __call__(self, ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            if op is not aten.mm.default:
                return CheckpointPolicy.PREFER_RECOMPUTE
            self.product_count += 1
            decisions.append(self.product_count)
            # The forward has two products. Releases of torch that also call the policy in the backward
            # therefore get the same choices there.
            return CheckpointPolicy.MUST_RECOMPUTE if self.product_count % 2 else CheckpointPolicy.MUST_SAVE

    def products_in_backward(make_contexts: Any) -> int:
        x.grad = None
        out = checkpoint(
            lambda a: torch.mm(torch.mm(a, a), a), x, use_reentrant=False, context_fn=make_contexts
        )
        with _OperatorCountingMode() as counter:
            out.sum().backward()
        return int(counter.counts.get("mm", 0))

    of_both = products_in_backward(_context_function([aten.mm.default]))
    of_one = products_in_backward(lambda: create_selective_checkpoint_contexts(CountingPolicy()))
    lab.same("gradient", x.grad)
    lab.same("asked", decisions)
    lab.holds("the product that is not saved runs again", of_one - of_both == 1)


@behaviour("checkpoint", must_detect=("value", "error"))
def limits_of_selection(lab: Lab) -> None:
    """A saved result must not be changed in place, unless the option ``allow_cache_entry_mutation`` is set.
    Operators with several results, or with results that are not tensors, can be saved.
    """
    x = lab.integers(4, 4, requires_grad=True)

    def save_all(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        return CheckpointPolicy.MUST_SAVE

    def change_result_in_place(a: torch.Tensor) -> torch.Tensor:
        doubled = a * 2
        doubled.add_(1)
        return doubled * doubled

    def gradient_of_checkpoint(**options: Any) -> Any:
        contexts = functools.partial(create_selective_checkpoint_contexts, save_all, **options)
        out = checkpoint(change_result_in_place, x, use_reentrant=False, context_fn=contexts)
        return torch.autograd.grad(out.sum(), x)[0]

    lab.raises("a saved result that is changed in place", gradient_of_checkpoint, match="mutated|in-?place")
    allowed = gradient_of_checkpoint(allow_cache_entry_mutation=True)
    lab.same("the option allows the change", [allowed.shape, allowed.dtype])
    with lab.parity("No page gives the gradient after an in-place change of a saved result"):
        lab.same("gradient after a change that the option allows", allowed)

    def sort_and_unbind(a: torch.Tensor) -> torch.Tensor:
        values, _ = torch.sort(a * 2, dim=0, stable=True)
        parts = values.unbind(0)
        return (torch.stack(parts[:2]) * a[0]).sum()

    out = checkpoint(sort_and_unbind, x, use_reentrant=False, context_fn=_context_function(save_all))
    lab.same("several results", torch.autograd.grad(out, x)[0])

    def multiply_by_read_number(a: torch.Tensor) -> torch.Tensor:
        return a * a.detach().sum().item() * a

    out = checkpoint(multiply_by_read_number, x, use_reentrant=False, context_fn=_context_function(save_all))
    lab.same("a number read within", torch.autograd.grad(out.sum(), x)[0])
    out = checkpoint(lambda a: a.sin().cos(), x, use_reentrant=False, context_fn=_context_function(save_all))
    torch.autograd.grad(out.sum(), x, retain_graph=True)
    with lab.parity("No page says that a second recomputation is an error"):
        lab.raises(
            "a second recomputation", lambda: torch.autograd.grad(out.sum(), x), match="extra time|already"
        )
    wrong = _context_function([torch.sin])
    with lab.parity("No page says that functions in the list are refused"):
        lab.raises(
            "a list of functions",
            lambda: checkpoint(torch.neg, x, use_reentrant=False, context_fn=wrong),
            ValueError,
            match="OpOverload",
        )
    lab.raises(
        "contexts for reentrant ones",
        lambda: checkpoint(torch.neg, x, use_reentrant=True, context_fn=wrong),
        ValueError,
    )
