"""Behaviours of ``map``, ``scan``, ``associative_scan`` and ``while_loop``, which are compared with Python
loops.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.torch_testing_internals import control_flow_operator

Function = Callable[..., Any]

#: The error types that invalid calls may raise. The type depends on the check in torch that fails first.
ERRORS = (RuntimeError, TypeError, ValueError, IndexError)


def scan(*args: Any, **kwargs: Any) -> Any:
    """Call torch's ``scan``."""
    return control_flow_operator("scan")(*args, **kwargs)


def associative_scan(*args: Any, **kwargs: Any) -> Any:
    """Call torch's ``associative_scan``."""
    return control_flow_operator("associative_scan")(*args, **kwargs)


def map_over(*args: Any) -> Any:
    """Call torch's ``map``."""
    return control_flow_operator("map")(*args)


def while_loop(*args: Any) -> Any:
    """Call torch's ``while_loop``."""
    return control_flow_operator("while_loop")(*args)


def scan_by_loop(
    combine: Function, carry: Any, xs: torch.Tensor, dim: int = 0, *, reverse: bool = False
) -> Any:
    """Return the documented result of ``scan``, computed by a Python loop: the last carry and the stacked
    outputs.
    """
    rows = range(xs.shape[dim])
    outputs = []
    for row in reversed(rows) if reverse else rows:
        carry, out = combine(carry, xs.select(dim, row))
        outputs.append(out)
    if reverse:
        outputs.reverse()
    return carry, torch.stack(outputs)


def trees_are_equal(actual: Any, expected: Any) -> bool:
    """Return whether two trees of tensors are equal, including dtypes."""
    if isinstance(actual, torch.Tensor):
        return torch.equal(actual, expected) and actual.dtype == expected.dtype
    values = (
        zip(actual.values(), expected.values(), strict=True)
        if isinstance(actual, dict)
        else zip(actual, expected, strict=True)
    )
    return all(trees_are_equal(actual_item, expected_item) for actual_item, expected_item in values)


@behaviour("control-flow", level="training", must_detect=(), page="higher_order_ops/scan.html")
def scan_folds(lab: Lab) -> None:
    """``scan`` returns the last carry, and the outputs of all steps stacked along the first dimension. The
    steps run over any dimension, forwards or in reverse.
    """
    xs, start = lab.integers(4, 3), lab.integers(3)

    def sum_and_product_step(carry: torch.Tensor, x: torch.Tensor) -> Any:
        return carry + x, carry * x

    for reverse in (False, True):
        result = scan(sum_and_product_step, start, xs, dim=0, reverse=reverse)
        lab.same(f"over rows, reverse {reverse}", result)
        lab.holds(
            f"rows, reverse {reverse}: scan and loop agree",
            trees_are_equal(result, scan_by_loop(sum_and_product_step, start, xs, reverse=reverse)),
        )
        along_columns = scan(sum_and_product_step, start, xs.T.contiguous(), dim=1, reverse=reverse)
        lab.same(f"over columns, reverse {reverse}", along_columns)
        lab.holds(
            f"columns and rows, reverse {reverse}: carries agree", torch.equal(along_columns[0], result[0])
        )
    sums = scan(lambda c, x: (c + x, c + x), torch.zeros(3, device=lab.device), xs, dim=0)[1]
    lab.expect("running sums", sums, xs.cpu().cumsum(0))
    lab.same(
        "running products", scan(lambda c, x: (c * x, c * x), torch.ones(3, device=lab.device), xs, dim=0)
    )
    last = scan(lambda c, x: (c + x, x - c), start[0], xs[:, 0], dim=-1)
    lab.same("over scalars, dimension -1", last)
    counts = scan(lambda c, x: (c + 1, (c * 2).to(lab.other_float)), lab.put(0), xs, dim=0)
    lab.same("carry and output of dtypes that differ from the input's", counts)
    lab.same("a single step", scan(sum_and_product_step, start, xs[:1], dim=0))


@behaviour("control-flow", level="full", must_detect=(), page="higher_order_ops/scan.html")
def scan_takes_trees(lab: Lab) -> None:
    """Carries, inputs and outputs of ``scan`` may be tuples and dicts. The step may use tensors from
    closures.
    """
    xs, ys = lab.integers(4, 3), lab.integers(4, 3)
    scale = lab.integers(3)

    def step_over_trees(carry: Any, x: Any) -> Any:
        total = carry["sum"] + x[0]
        return {"sum": total, "last": (x[1].clone(),)}, {"pair": (total * x[1], x[0] + 1)}

    start = {"sum": torch.zeros(3, device=lab.device), "last": (torch.ones(3, device=lab.device),)}
    carry, out = scan(step_over_trees, start, (xs, ys), dim=0)
    lab.same("carry", carry)
    lab.same("outputs", out)
    lab.expect("the sum", carry["sum"], xs.cpu().sum(0))

    def step_with_inner_scan(total: torch.Tensor, x: torch.Tensor) -> Any:
        inner = scan(lambda c, v: (c + v, c * v), total, x, dim=0)
        return inner[0], inner[1].sum()

    lab.same("nested", scan(step_with_inner_scan, scale[0], xs, dim=0))
    weight = lab.integers(3, 3, low=-1, high=2)

    def recurrent_step(hidden: torch.Tensor, x: torch.Tensor) -> Any:
        new = (hidden @ weight + x).clamp(-4, 4)
        return new, new.clone()

    with lab.parity("The page says that closures are not supported"):
        scaled = scan(lambda c, x: (c + x, x * scale), start["sum"], xs, dim=0)[1]
        lab.expect("a scan with a closed-over tensor", scaled, (xs * scale).cpu())
        result = scan(recurrent_step, scale, xs, dim=0)
        lab.same("a recurrent cell", result)
        with lab.consistent("scan and the equivalent loop must agree"):
            lab.holds(
                "the recurrent cell: scan and loop agree",
                trees_are_equal(result, scan_by_loop(recurrent_step, scale, xs)),
            )
        lab.same(
            "and downstream",
            scan(
                lambda c, v: (c + v, v * 2), scale, scan(recurrent_step, scale, xs, dim=0)[1] @ weight, dim=0
            ),
        )


@behaviour(
    "control-flow",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="higher_order_ops/scan.html",
    basis="consistency",
    ground="scan and the equivalent loop must have the same gradients",
)
def scan_differentiates(lab: Lab) -> None:
    """The gradient of ``scan`` is the gradient of the equivalent loop, with respect to the first carry, the
    inputs and tensors from closures. This also holds if only some of these tensors require grad.
    """
    for chosen in ((True, True, True), (True, False, False), (False, True, False), (False, False, True)):
        xs, start, weight = lab.integers(3, 2), lab.integers(2), lab.integers(2)
        inputs = [xs, start, weight]
        for tensor, differentiated in zip(inputs, chosen, strict=True):
            tensor.requires_grad_(differentiated)
        differentiable = [
            tensor for tensor, differentiated in zip(inputs, chosen, strict=True) if differentiated
        ]

        def weighted_step(carry: torch.Tensor, x: torch.Tensor, weight: torch.Tensor = weight) -> Any:
            return carry * weight + x, carry * x

        def gradients_of(result: Any, inputs: list[torch.Tensor] = differentiable) -> Any:
            last, out = result
            return torch.autograd.grad(last.sum() + (out * out).sum(), inputs)

        with lab.parity("The page says that closures are not supported"):
            gradients = gradients_of(scan(weighted_step, start, xs, dim=0))
        expected = gradients_of(scan_by_loop(weighted_step, start, xs))
        lab.same(f"gradients for {chosen}", gradients)
        lab.holds(f"gradients for {chosen} agree with the loop", trees_are_equal(gradients, expected))
    leaf = lab.integers(3, 2, requires_grad=True)
    with torch.no_grad(), lab.documented():
        lab.holds(
            "nothing requires grad under no_grad",
            not scan(lambda c, x: (c + x, c * x), lab.integers(2), leaf, dim=0)[1].requires_grad,
        )


@behaviour(
    "control-flow",
    level="full",
    must_detect=(),
    page="higher_order_ops/scan.html",
    ground="The page lists the restrictions, without wrong dims and unequal lengths",
)
def scan_refuses(lab: Lab) -> None:
    """``scan`` refuses a step that does not return a pair, changes the structure or shape of the carry,
    writes to its input, or returns its input unchanged. Inputs of unequal lengths are refused too.
    """
    xs, start = lab.integers(4, 3), lab.integers(3)
    wrong: dict[str, Callable[[], Any]] = {
        "one result": lambda: scan(lambda c, x: c + x, start, xs, dim=0),
        "a carry of a different structure": lambda: scan(lambda c, x: ((c + x, c), x + 1), start, xs, dim=0),
        "a shorter carry": lambda: scan(lambda c, x: ((c[0] + x,), x + 1), (start, start + 1), xs, dim=0),
        "a carry of a different shape": lambda: scan(
            lambda c, x: (torch.stack([c, c]), x + 1), start, xs, dim=0
        ),
        "a carry of a different dtype": lambda: scan(
            lambda c, x: ((c + x).double(), x + 1), start, xs, dim=0
        ),
        "unequal lengths": lambda: scan(lambda c, x: (c + x[0], x[1] + 1), start, (xs, xs[:2]), dim=0),
        "a number as start": lambda: scan(lambda c, x: (c + x, x + 1), 1.0, xs, dim=0),
        "a word as dim": lambda: scan(lambda c, x: (c + x, x + 1), start, xs, dim="0"),
        "no dimension": lambda: scan(lambda c, x: (c + x, x + 1), start, xs, dim=3),
        "no function": lambda: scan(3, start, xs, dim=0),
        "a write into the input": lambda: scan(lambda c, x: (c + x.add_(1), x + 1), start, xs, dim=0),
        "a write into the carry": lambda: scan(lambda c, x: (c.add_(x), x + 1), start, xs, dim=0),
        "the input as output": lambda: scan(lambda c, x: (c + x, x), start, xs, dim=0),
        "the carry as carry": lambda: scan(lambda c, x: (c, x + 1), start, xs, dim=0),
    }
    for name, call in wrong.items():
        with (
            lab.parity("The restrictions on the page do not include this call")
            if name in ("unequal lengths", "a word as dim", "no dimension", "no function")
            else contextlib.nullcontext()
        ):
            lab.raises(name, call, *ERRORS)


@behaviour("control-flow", level="full", must_detect=(), page="higher_order_ops/associative_scan.html")
def associative_scan_folds(lab: Lab) -> None:
    """For tensors and trees, ``associative_scan`` returns the cumulative results of its function along a
    dimension, forwards or in reverse.
    """
    xs = lab.integers(5, 3, low=-2, high=3)
    for name, combine in (("add", torch.add), ("mul", torch.mul), ("max", torch.maximum)):
        for dim in (0, 1, -1):
            for reverse in (False, True):
                result = associative_scan(combine, xs, dim, reverse=reverse, combine_mode="generic")
                source = xs.flip(dim) if reverse else xs
                rows = [source.select(dim, 0)]
                for index in range(1, xs.shape[dim]):
                    rows.append(combine(rows[-1], source.select(dim, index)))
                expected = torch.stack(rows, dim).flip(dim) if reverse else torch.stack(rows, dim)
                lab.same(f"{name} over {dim}, reverse {reverse}", result)
                lab.holds(
                    f"{name} over {dim}, reverse {reverse}: agrees with a loop", torch.equal(result, expected)
                )
    ys = lab.integers(5, 3, low=-2, high=3)

    def compose_affine_maps(earlier: Any, later: Any) -> Any:
        return earlier[0] * later[0], earlier[1] * later[0] + later[1]

    result = associative_scan(compose_affine_maps, (xs, ys), 0, combine_mode="generic")
    first, second = [xs[0]], [ys[0]]
    for row in range(1, 5):
        first.append(first[-1] * xs[row])
        second.append(second[-1] * xs[row] + ys[row])
    lab.same("pairs", result)
    lab.holds("pairs by a loop", trees_are_equal(result, (torch.stack(first), torch.stack(second))))
    tree = associative_scan(
        lambda a, b: {"p": a["p"] + b["p"], "q": [a["q"][0] * b["q"][0]]},
        {"p": xs, "q": [ys]},
        0,
        combine_mode="generic",
    )
    lab.same("a tree", tree)
    matrices = lab.integers(4, 2, 2, low=-1, high=2)
    products = associative_scan(torch.matmul, matrices, 0, combine_mode="generic")
    lab.holds(
        "products of matrices",
        torch.equal(products[3], matrices[0] @ matrices[1] @ matrices[2] @ matrices[3]),
    )
    strided = lab.integers(3, 5).T
    lab.same("not contiguous", associative_scan(torch.add, strided, 0, combine_mode="generic"))
    lab.same(
        "downstream", associative_scan(torch.add, result[0] @ lab.integers(3, 3), 1, combine_mode="generic")
    )
    lab.same("one element", associative_scan(torch.add, xs[:1], 0, combine_mode="generic"))


@behaviour(
    "control-flow",
    capabilities=("sparse",),
    level="full",
    must_detect=(),
    page="higher_order_ops/associative_scan.html",
    basis="parity",
    ground="No page refuses wrong dims, results of different shapes, sparse inputs or empty inputs",
)
def associative_scan_refuses(lab: Lab) -> None:
    """``associative_scan`` refuses inputs of different lengths, a dimension that does not exist, sparse
    tensors, and results whose shape differs from the inputs' shape.
    """
    xs = lab.integers(4, 3)

    def associative_scan_call(combine: Any, *inputs: Any, dim: Any = 0) -> Callable[[], Any]:
        return lambda: associative_scan(
            combine, inputs if len(inputs) > 1 else inputs[0], dim, combine_mode="generic"
        )

    with lab.documented():
        lab.raises(
            "another length",
            associative_scan_call(lambda a, b: (a[0] + b[0], a[1] + b[1]), xs, xs[:2]),
            *ERRORS,
        )
    lab.raises("no dimension", associative_scan_call(torch.add, xs, dim=2), *ERRORS)
    lab.raises("a word", associative_scan_call(torch.add, xs, dim="0"), *ERRORS)
    lab.raises("another shape", associative_scan_call(lambda a, b: (a + b)[..., :1], xs), *ERRORS)
    lab.raises("no function", associative_scan_call(3, xs), *ERRORS)
    lab.raises("a sparse tensor", lambda: associative_scan_call(torch.add, xs.to_sparse())(), *ERRORS)
    lab.raises("no length", associative_scan_call(torch.add, xs[:0]), *ERRORS)


@behaviour(
    "control-flow", level="full", capabilities=("autograd",), must_detect=(), page="higher_order_ops/map.html"
)
def map_maps_rows(lab: Lab) -> None:
    """``map`` calls a function on each row and returns the stacked results. The rows may be trees, and the
    function may have further arguments. The gradient is the gradient of the equivalent loop.
    """
    xs, y = lab.integers(4, 3), lab.integers(3)
    lab.expect("one", map_over(lambda x: x * 2 + 1, xs), (xs * 2 + 1).cpu())
    lab.expect("with another argument", map_over(lambda x, y: x * y, xs, y), (xs * y).cpu())
    lab.same("a list", map_over(lambda p: [p[0] * p[1], p[0].sum()], [xs, xs + 1]))
    lab.same(
        "a dict", map_over(lambda d, y: {"s": d["a"] + y, "p": d["a"] * d["b"]}, {"a": xs, "b": xs + 2}, y)
    )
    deep = lab.integers(2, 3, 2)
    lab.same("nested", map_over(lambda x: map_over(lambda v: v * v, x), deep))
    for chosen in ((True, True), (True, False), (False, True)):
        xs, y = lab.integers(4, 3), lab.integers(3)
        xs.requires_grad_(chosen[0])
        y.requires_grad_(chosen[1])
        differentiable = [tensor for tensor in (xs, y) if tensor.requires_grad]

        def square_times_argument(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x * x * y

        expected = torch.autograd.grad(
            torch.stack([square_times_argument(x, y) for x in xs]).sum(), differentiable
        )
        with lab.parity("The page says that map does not support gradients"):
            gradients = torch.autograd.grad(map_over(square_times_argument, xs, y).sum(), differentiable)
        with lab.consistent("map and the equivalent loop must have the same gradients"):
            lab.same(f"gradients for {chosen}", gradients)
            lab.holds(f"gradients for {chosen} agree with the loop", trees_are_equal(gradients, expected))


@behaviour("control-flow", level="full", must_detect=(), page="higher_order_ops/map.html")
def map_refuses(lab: Lab) -> None:
    """``map`` refuses inputs that are not tensors, inputs of different lengths, and outputs that are not
    tensors.
    """
    xs = lab.integers(4, 3)
    with lab.parity("No page says that outputs that are not tensors are refused"):
        lab.raises("a number as output", lambda: map_over(lambda x: 1.5, xs), *ERRORS)
        lab.raises("a string in the output", lambda: map_over(lambda x: [x + 1, "a"], xs), *ERRORS)
    lab.raises("a number as input", lambda: map_over(lambda x: x, 3), *ERRORS)
    lab.raises("a word as input", lambda: map_over(lambda x: x[0], [xs, "a"]), *ERRORS)
    lab.raises("other lengths", lambda: map_over(lambda p: p[0] + p[1], (xs, xs[:2])), *ERRORS)


@behaviour("control-flow", level="training", must_detect=(), page="higher_order_ops/while_loop.html")
def while_loop_runs(lab: Lab) -> None:
    """``while_loop`` runs its body as long as its condition is true. If the condition is false at first, the
    body does not run. The state may be a tree of tensors and integers, and loops may be nested.
    """
    x = lab.integers(3, low=1, high=5)
    zero = lab.put(0)
    lab.expect(
        "three doublings",
        while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (zero, x))[1],
        (x * 8).cpu(),
    )
    lab.same("never", while_loop(lambda i, a: i > 3, lambda i, a: (i + 1, a * 2), (zero, x)))
    lab.same("a condition on the values", while_loop(lambda a: a.sum() < 100, lambda a: (a * 2,), (x,)))
    lab.same(
        "a tree",
        while_loop(
            lambda t: t["i"] < 4,
            lambda t: ({"i": t["i"] + 1, "pair": (t["pair"][1] + 1, t["pair"][0] * 2)},),
            ({"i": zero, "pair": (x, x + 1)},),
        ),
    )

    def body_with_inner_loop(i: torch.Tensor, a: torch.Tensor) -> Any:
        inner = while_loop(lambda j, b: j < 2, lambda j, b: (j + 1, b + i), (torch.zeros_like(i), a))
        return i + 1, inner[1].clone()

    lab.expect("nested", while_loop(lambda i, a: i < 3, body_with_inner_loop, (zero, x))[1], (x + 6).cpu())
    weight = lab.integers(3, 3, low=0, high=2)
    lab.same("closed over", while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, weight @ a), (zero, x)))
    lab.same("a whole number", while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + i), (0, x))[1])


@behaviour("control-flow", level="full", must_detect=(), page="higher_order_ops/while_loop.html")
def while_loop_refuses(lab: Lab) -> None:
    """``while_loop`` refuses a body that writes to the state or changes the state's structure, shape or
    dtype. A condition that does not return a single boolean is refused too.
    """
    x, zero = lab.integers(3), lab.put(0)

    def while_loop_call(condition: Any, body: Any) -> Callable[[], Any]:
        return lambda: while_loop(condition, body, (zero, x))

    def is_below_three(i: Any, a: Any) -> Any:
        return i < 3

    lab.raises("fewer results", while_loop_call(is_below_three, lambda i, a: (i + 1,)), *ERRORS)
    lab.raises(
        "another shape", while_loop_call(is_below_three, lambda i, a: (i + 1, torch.stack([a, a]))), *ERRORS
    )
    lab.raises("another dtype", while_loop_call(is_below_three, lambda i, a: (i + 1, a.double())), *ERRORS)
    lab.raises("a write", while_loop_call(is_below_three, lambda i, a: (i + 1, a.add_(1))), *ERRORS)
    lab.raises(
        "a condition of several elements",
        while_loop_call(lambda i, a: a < 100, lambda i, a: (i + 1, a + 1)),
        *ERRORS,
    )
    lab.raises(
        "a condition that is a number",
        while_loop_call(lambda i, a: i + 1, lambda i, a: (i + 1, a + 1)),
        *ERRORS,
    )
