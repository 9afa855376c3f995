"""Behaviours of ``torch.cond``, which runs one of two branches. A predicate, which is a bool or a tensor,
chooses the branch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.control_flow.loops import map_over, trees_are_equal


def call_cond(*args: Any) -> Any:
    """Call ``torch.cond``. Tests replace this function by a faulty one."""
    return torch.cond(*args)


def predicate_tensor(lab: Lab, value: bool) -> torch.Tensor:
    """Return a bool as a tensor on the device."""
    return lab.put(value)


@behaviour("control-flow", level="training", must_detect=(), page="higher_order_ops/cond.html")
def cond_chooses(lab: Lab) -> None:
    """``cond`` gives the result of the branch that its predicate chooses. The predicate may be a Python bool
    or a tensor, and may be computed from the inputs.
    """
    x, y = lab.integers(3, 4), lab.integers(3, 4)

    def double_left_plus_right(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a * 2 + b

    def left_minus_triple_right(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a - b * 3

    for value, expected in ((True, x * 2 + y), (False, x - y * 3)):
        lab.expect(
            f"a predicate tensor that is {value}",
            call_cond(predicate_tensor(lab, value), double_left_plus_right, left_minus_triple_right, (x, y)),
            expected.cpu(),
        )
        lab.expect(
            f"a predicate with one element, {value}",
            call_cond(
                predicate_tensor(lab, value).view(1), double_left_plus_right, left_minus_triple_right, (x, y)
            ),
            expected.cpu(),
        )
        lab.expect(
            f"a Python {value}",
            call_cond(value, double_left_plus_right, left_minus_triple_right, (x, y)),
            expected.cpu(),
        )
    for number in (-100.0, 100.0):
        lab.same(
            f"computed, {number}",
            call_cond((x + number).sum() > 0, double_left_plus_right, left_minus_triple_right, (x, y)),
        )
    for depth in range(3):
        lab.same(
            f"in a loop, {depth}",
            call_cond(x.sum() > depth, double_left_plus_right, left_minus_triple_right, (x, y)),
        )


@behaviour(
    "control-flow",
    level="full",
    must_detect=(),
    page="higher_order_ops/cond.html",
    ground="operands may be trees; trees of results follow from the equivalent program",
)
def cond_takes_trees(lab: Lab) -> None:
    """Operands and results of ``cond`` may be tuples, lists and dicts, and operands may be unused. Branches
    may be nested and may use tensors, modules and numbers from closures.
    """
    x, y = lab.integers(3), lab.integers(3)
    layer = lab.to(torch.nn.Linear(3, 3))
    with torch.no_grad():
        layer.weight.copy_(lab.integers(3, 3))
        layer.bias.fill_(1)
    factor = 3
    for value in (True, False):
        pred = predicate_tensor(lab, value)
        tree = {"p": x, "q": (y, [x + 1])}
        lab.same(
            f"a tree, {value}",
            call_cond(
                pred,
                lambda t: {"sum": t["p"] + t["q"][0], "pair": (t["q"][1][0] * 2,)},
                lambda t: {"sum": t["p"] - t["q"][0], "pair": (t["q"][1][0] * 3,)},
                (tree,),
            ),
        )
        lab.same(f"unused operands, {value}", call_cond(pred, lambda a, b: a + 1, lambda a, b: b + 2, (x, y)))
        lab.same(f"closed over, {value}", call_cond(pred, lambda a: a * y * factor, lambda a: a + y, (x,)))
        lab.same(f"no operands, {value}", call_cond(pred, lambda: x + 1, lambda: y * 2))
        result = call_cond(pred, lambda a: layer(a), lambda a: layer(a * 2) + a, (x,))
        lab.same(f"a module, {value}", result.detach())

        def nested_cond(a: torch.Tensor, b: torch.Tensor) -> Any:
            return torch.cond(a.sum() > 0, lambda c, d: c + d, lambda c, d: c * d, (a, b))

        lab.same(f"nested, {value}", call_cond(pred, nested_cond, lambda a, b: nested_cond(-a, b), (x, y)))
        lab.same(
            f"in a map, {value}",
            map_over(
                lambda row, b: torch.cond(b.sum() > row.sum(), lambda r: r * 2, lambda r: r - 1, (row,)),
                torch.stack([x, y]),
                x,
            ),
        )
        lab.same(
            f"around a map, {value}",
            call_cond(
                pred, lambda a: map_over(lambda v: v * 2, a), lambda a: map_over(lambda v: v + 2, a), (x,)
            ),
        )


@behaviour(
    "control-flow",
    level="training",
    capabilities=("autograd",),
    must_detect=(),
    page="higher_order_ops/cond.html",
    basis="consistency",
    ground="cond and a direct call of the chosen branch must have the same gradients",
)
def cond_differentiates(lab: Lab) -> None:
    """The gradient of ``cond`` is the gradient of the chosen branch, and zero for operands that this branch
    does not use. This holds for nested branches, for trees, for tensors and modules from closures, and if
    only some operands require grad.
    """

    def compare_gradients(
        name: str, call: Callable[..., Any], reference: Callable[..., Any], *inputs: torch.Tensor
    ) -> None:
        differentiable = [tensor for tensor in inputs if tensor.requires_grad]
        gradients = torch.autograd.grad(call().sum(), differentiable, allow_unused=True)
        expected = torch.autograd.grad(reference().sum(), differentiable, allow_unused=True)
        filled = [
            [torch.zeros_like(k) if g is None else g for g, k in zip(each, differentiable, strict=True)]
            for each in (gradients, expected)
        ]
        lab.same(name, filled[0])
        lab.holds(f"{name}: gradients of cond and of the branch agree", trees_are_equal(*filled))

    layer = lab.to(torch.nn.Linear(3, 3))
    with torch.no_grad():
        layer.weight.copy_(lab.integers(3, 3))
        layer.bias.fill_(2)
    for value in (True, False):
        for needs in ((True, True), (True, False), (False, True)):
            x, y = (lab.integers(3, requires_grad=need) for need in needs)
            pred = predicate_tensor(lab, value)

            def true_branch(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
                return a * a * b

            def false_branch(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
                return a + b * b

            chosen = true_branch if value else false_branch
            compare_gradients(
                f"{value}, {needs}",
                lambda pred=pred, x=x, y=y, true_branch=true_branch, false_branch=false_branch: call_cond(
                    pred, true_branch, false_branch, (x, y)
                ),
                lambda x=x, y=y, chosen=chosen: chosen(x, y),
                x,
                y,
            )
        x, y = lab.integers(3, requires_grad=True), lab.integers(3, requires_grad=True)
        compare_gradients(
            f"before and after, {value}",
            lambda x=x, y=y, pred=pred: (
                call_cond(pred, lambda a, b: a * b, lambda a, b: a - b, (x * x, y)) * x
            ),
            lambda x=x, y=y, value=value: (x * x * y if value else x * x - y) * x,
            x,
            y,
        )
        compare_gradients(
            f"nested, {value}",
            lambda x=x, pred=pred: call_cond(
                pred,
                lambda a: torch.cond(a.sum() < 99, lambda b: b * b, lambda b: b * 1, (a,)),
                lambda a: a * 5,
                (x,),
            ),
            lambda x=x, value=value: x * x if value else x * 5,
            x,
        )
        compare_gradients(
            f"a tree, {value}",
            lambda x=x, y=y, pred=pred: call_cond(
                pred, lambda t: t["p"] * t["q"][0], lambda t: t["p"] * 7, ({"p": x, "q": [y]},)
            ),
            lambda x=x, y=y, value=value: x * y if value else x * 7,
            x,
            y,
        )
        compare_gradients(
            f"closed over, {value}",
            lambda x=x, y=y, pred=pred: call_cond(pred, lambda a: a * y, lambda a: a * 2 + y * y, (x,)),
            lambda x=x, y=y, value=value: x * y if value else x * 2 + y * y,
            x,
            y,
        )
        compare_gradients(
            f"a module, {value}",
            lambda x=x, pred=pred: call_cond(pred, lambda a: layer(a), lambda a: a * 2, (x,)),
            lambda x=x, value=value: layer(x) if value else x * 2,
            x,
            layer.weight,
            layer.bias,
        )


@behaviour("control-flow", level="full", must_detect=(), page="higher_order_ops/cond.html")
def cond_refuses(lab: Lab) -> None:
    """``cond`` refuses a predicate that is not boolean, a branch that is not a function, and operands that
    are not tensors. ``cond`` also refuses branches whose results differ in number, structure, dtype or rank.
    """
    x, pred = lab.integers(3), predicate_tensor(lab, True)
    wrong: dict[str, Callable[[], Any]] = {
        "a word": lambda: call_cond("yes", torch.sin, torch.cos, (x,)),
        "several truths": lambda: call_cond(x > 0, torch.sin, torch.cos, (x,)),
        "no function": lambda: call_cond(pred, 3, torch.cos, (x,)),
        "a word as operand": lambda: call_cond(pred, torch.sin, torch.cos, ("x",)),
        "other numbers of results": lambda: call_cond(
            pred, lambda a: (a + 1, a + 2), lambda a: (a + 1,), (x,)
        ),
        "other forms": lambda: call_cond(pred, lambda a: [a + 1], lambda a: {"a": a + 1}, (x,)),
        "other dtypes": lambda: call_cond(pred, lambda a: a + 1, lambda a: (a + 1).double(), (x,)),
        "other ranks": lambda: call_cond(pred, lambda a: a + 1, lambda a: torch.stack([a, a]), (x,)),
        "other numbers of operands": lambda: call_cond(pred, lambda a: a + 1, lambda a, b: a + b, (x,)),
    }
    for name, call in wrong.items():
        with (
            lab.parity(
                "The page gives the types of these arguments, and does not say that other types are errors"
            )
            if name in ("no function", "a word as operand")
            else contextlib.nullcontext()
        ):
            lab.raises(name, call, RuntimeError, TypeError, ValueError)


@behaviour(
    "control-flow",
    level="full",
    must_detect=(),
    page="generated/torch.vmap.html",
    ground="The definition of vmap maps the function over the elements; no page names cond",
)
def cond_under_vmap(lab: Lab) -> None:
    """For each element of the batch, ``vmap`` over ``cond`` runs the branch that the element's predicate
    chooses. If one predicate is shared by all elements, one branch runs for the whole batch.
    """
    x, y = lab.integers(4, 3), lab.integers(4, 3)

    def choose_by_sum(a: torch.Tensor) -> Any:
        return call_cond(a.sum() > 0, lambda b: b * 2, lambda b: b - 10, (a,))

    references = torch.where((x.sum(1) > 0)[:, None], x * 2, x - 10)
    lab.expect("by the data", torch.vmap(choose_by_sum)(x), references.cpu())
    lab.same(
        "two operands",
        torch.vmap(lambda a, b: call_cond(a.sum() > b.sum(), torch.add, torch.mul, (a, b)))(x, y),
    )
    lab.same(
        "closed over",
        torch.vmap(lambda a, b: call_cond(a[0] > 0, lambda c: c + b, lambda c: c * b, (a,)))(x, y),
    )
    for value in (True, False):
        pred = predicate_tensor(lab, value)
        lab.same(
            f"one predicate for all elements, {value}",
            torch.vmap(lambda a, pred=pred: call_cond(pred, lambda b: b * 2, lambda b: b - 10, (a,)))(x),
        )
    shared = lab.integers(3)
    for value in (True, False):
        pred = predicate_tensor(lab, value)
        # Reset Dynamo, which would treat sizes that differ from an earlier call as dynamic. ``cond`` under
        # ``vmap`` rejects dynamic sizes.
        torch_testing_internals.reset_dynamo()
        pairs = torch.vmap(
            lambda a, pred=pred: call_cond(
                pred, lambda b: (b + shared, b - shared), lambda b: (b * 2, b - 10), (a,)
            )
        )(x)
        references = [x + shared, x - shared] if value else [x * 2, x - 10]  # type: ignore[assignment]
        for index, (result, expected) in enumerate(zip(pairs, references, strict=True)):
            lab.expect(f"result {index} of two results, {value}", result, expected.cpu())
    lab.same("twice", torch.vmap(torch.vmap(choose_by_sum))(torch.stack([x, y])))
