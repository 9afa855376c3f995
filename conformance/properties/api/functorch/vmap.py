"""Behaviours of ``vmap``: ``in_dims`` and ``out_dims``, trees, nesting, chunks, randomness and errors."""

from __future__ import annotations

import functools
from collections import OrderedDict
from typing import Any

import torch
from torch import vmap

from conformance.behaviours.behaviour import WIDE_FLOATS, behaviour
from conformance.behaviours.lab import Lab


@behaviour("functorch", level="training", must_detect=("value",), page="generated/torch.func.vmap.html")
def vmap_maps_calls(lab: Lab) -> None:
    """``vmap`` returns the results of a separate call per element, for one or several inputs and outputs."""
    x, y = lab.integers(3, 4), lab.integers(3, 4)
    lab.same("one input", vmap(torch.square)(x))
    lab.same("two inputs", vmap(torch.mul)(x, y))
    lab.same("two outputs", vmap(lambda a, b: (a + b, (a * b).sum()))(x, y))
    lab.same("a list", vmap(lambda a: [a.sum(), a])(x))
    lab.same("a constant function", vmap(lambda a: torch.ones(2, device=a.device))(x))
    lab.same("dot products", vmap(torch.dot)(x, y))
    lab.same("no-op", vmap(lambda a: a)(x))
    for row in range(3):
        result = vmap(lambda a, b: a @ b)(x, y)[row]
        lab.holds(f"row {row} is the product of the rows", (result == (x[row] * y[row]).sum()).item())
    lab.same("partial", vmap(functools.partial(torch.add, alpha=2))(x, y))


@behaviour("functorch", level="training", must_detect=("value",), page="generated/torch.func.vmap.html")
def vmap_dimensions_in(lab: Lab) -> None:
    """``in_dims`` selects the mapped dimension of each input. With None, the input is not mapped. Negative
    numbers count from the end. Keyword arguments are not mapped.
    """
    x, y = lab.integers(2, 3, 5), lab.integers(3, 5)
    lab.same("dimension 1", vmap(torch.sum, in_dims=1)(x))
    with lab.parity("No page says that a negative number counts from the end"):
        lab.same("dimension -1", vmap(torch.sum, in_dims=-1)(x))
    lab.same("only one of two inputs is mapped", vmap(torch.mul, in_dims=(0, None))(x, y))
    lab.same("two dimensions", vmap(torch.mul, in_dims=(1, 0))(x, y))
    with lab.parity("No page says that a negative number counts from the end"):
        lab.same("negative and positive", vmap(torch.mul, in_dims=(-2, 0))(x, y))
    lab.same("a dict", vmap(lambda d: d["a"] * d["b"], in_dims=({"a": 1, "b": 0},))({"a": x, "b": y}))
    lab.same("a nested tuple", vmap(lambda p, b: p[0] + p[1] + b, in_dims=((1, 0), None))((x, y), y[0]))
    lab.same("a number beside", vmap(lambda a, k: a * k, in_dims=(0, None))(x, 3))
    lab.expect("a keyword is not mapped", vmap(lambda a, *, b: a * b)(y, b=y), (y[:, None] * y).cpu())


@behaviour("functorch", level="full", must_detect=("value",), page="generated/torch.func.vmap.html")
def vmap_dimensions_out(lab: Lab) -> None:
    """``out_dims`` sets the position of the mapped dimension in each output."""
    x = lab.integers(2, 3, 5)
    with lab.parity("No page says that a negative number counts from the end"):
        lab.same("last", vmap(lambda a: a + 1, out_dims=-1)(x))
    lab.same("between", vmap(lambda a: a + 1, out_dims=1)(x))
    lab.same("a separate out_dim for each output", vmap(lambda a: (a, a.sum(0)), out_dims=(2, 1))(x))
    with lab.parity("The page describes out_dims as an integer or a tuple, not as a tree"):
        lab.same("a tree", vmap(lambda a: {"p": a, "q": (a.sum(), a)}, out_dims={"p": 1, "q": (0, 2)})(x))  # type: ignore[arg-type]
    lab.same("broadcast over a tree", vmap(lambda a: (a, [a, a]), out_dims=1)(x))
    lab.same("in and out", vmap(lambda a: a * 2, in_dims=2, out_dims=1)(x))
    with lab.parity("The page does not mention None as out_dims"):
        lab.same("none", vmap(lambda a, b: b.sum(), in_dims=(0, None), out_dims=None)(x, x))


@behaviour("functorch", level="full", must_detect=("value",), page="generated/torch.func.vmap.html")
def vmap_keeps_trees(lab: Lab) -> None:
    """Inputs and outputs may be nested tuples, lists and dicts. Outputs have the structure that the function
    returned.
    """
    x = lab.integers(3, 2)
    nested = vmap(lambda t: {"sum": t["x"].sum(), "pair": (t["x"], [t["y"][0] * 2])})({"x": x, "y": [x]})
    lab.same("nested", nested)
    lab.same("keys", list(nested))
    ordered = vmap(lambda a: OrderedDict([("second", a), ("first", a * 2)]))(x)
    lab.same("ordered keys", list(ordered))
    lab.same("ordered type", type(ordered).__name__)
    lab.same("ordered values", list(ordered.values()))
    result = vmap(lambda a: torch.max(a, 0))(x)
    lab.same("a result with names", (result.values, result.indices))


@behaviour("functorch", level="full", must_detect=("value",), page="generated/torch.func.vmap.html")
def vmap_nests(lab: Lab) -> None:
    """Each level of a nested ``vmap`` maps one more dimension, over the same inputs or different inputs."""
    x, y = lab.integers(2, 3, 4), lab.integers(5, 4)
    lab.same("twice", vmap(vmap(torch.sum))(x))
    lab.same("thrice", vmap(vmap(vmap(lambda a: a * a)))(x))
    lab.same("outer product", vmap(lambda a: vmap(lambda b: (a * b).sum())(y))(y))
    lab.same("other dimensions", vmap(vmap(torch.sum, in_dims=1), in_dims=2)(x))
    with lab.parity("No page says that a negative number counts from the end"):
        lab.same("negative dimensions", vmap(vmap(torch.mul, in_dims=(-1, -1)), in_dims=(0, 0))(x, x))
    lab.same("out dimensions", vmap(vmap(lambda a: a, out_dims=1), out_dims=2)(x))
    lab.same("inner does not touch", vmap(lambda a: vmap(lambda b: b)(y))(x))
    lab.same("diagonals", vmap(vmap(torch.diag_embed))(x))


@behaviour(
    "functorch",
    level="full",
    must_detect=("error", "message"),
    page="generated/torch.func.vmap.html",
    basis="parity",
    ground="No page says that these arguments are an error",
)
def vmap_refuses_arguments(lab: Lab) -> None:
    """Arguments that ``vmap`` cannot map raise ValueErrors that name the problem."""
    x = lab.integers(3, 2)
    lab.raises("no inputs", lambda: vmap(lambda: torch.ones(1))(), ValueError, match="no inputs")
    lab.raises("no tensors", lambda: vmap(lambda a: a)(3), ValueError, match="in_dim")
    lab.raises(
        "sizes differ", lambda: vmap(torch.mul)(x, lab.integers(2, 2)), ValueError, match="(?i)same size"
    )
    with lab.documented():
        lab.raises("wrong tree", lambda: vmap(torch.mul, in_dims=(0,))(x, x), ValueError, match="in_dims")
    lab.raises("a word as dimension", lambda: vmap(torch.sum, in_dims="0")(x), ValueError, match="in_dims")  # type: ignore[arg-type]
    lab.raises("a number as input", lambda: vmap(torch.mul, in_dims=(0, 0))(x, 2), ValueError, match="in_dim")
    lab.raises("out of range", lambda: vmap(torch.sum, in_dims=2)(x), ValueError, match="in_dim")
    lab.raises("a scalar", lambda: vmap(torch.sum)(x[0, 0]), ValueError, match="in_dim")
    lab.raises("none of them", lambda: vmap(torch.mul, in_dims=(None, None))(x, x), ValueError)


@behaviour(
    "functorch",
    level="full",
    must_detect=("error", "message"),
    page="generated/torch.func.vmap.html",
    ground="The page says that the function must return tensors, and out_dims have one entry per output",
)
def vmap_refuses_results(lab: Lab) -> None:
    """Results that are not tensors, and ``out_dims`` that do not match the results, raise ValueErrors."""
    x = lab.integers(3, 2)
    lab.raises("a number", lambda: vmap(lambda a: 3)(x), ValueError, match="(?i)tensor")
    lab.raises("a word inside", lambda: vmap(lambda a: (a, "b"))(x), ValueError, match="(?i)tensor")
    with lab.parity("No page says that this call is an error"):
        lab.raises(
            "a word as out_dims",
            lambda: vmap(lambda a: a, out_dims="0")(x),  # type: ignore[arg-type]
            ValueError,
            match="out_dims",
        )
    lab.raises("too many", lambda: vmap(lambda a: a, out_dims=(0, 0))(x), ValueError, match="out_dims")
    lab.raises("too few", lambda: vmap(lambda a: (a, a), out_dims=(0,))(x), ValueError, match="out_dims")
    with lab.parity("No page says that this call is an error"):
        lab.raises(
            "out of range", lambda: vmap(lambda a: a, out_dims=5)(x), IndexError, match="(?i)out of range"
        )
    with lab.parity("The page does not mention None as out_dims"):
        lab.raises(
            "None in out_dims for a mapped result",
            lambda: vmap(lambda a: a, out_dims=None)(x),
            ValueError,
            match="None",
        )


@behaviour("functorch", level="full", must_detect=("error",), page="func.ux_limitations.html")
def vmap_refuses_values(lab: Lab) -> None:
    """Under ``vmap``, operations that need the value of one element (``item``, control flow, a data-dependent
    shape) raise an error. A write of a batch into a tensor that is not mapped raises an error too.
    """
    x = lab.integers(3, 2)

    def branch_on_sum(a: torch.Tensor) -> torch.Tensor:
        return a if a.sum() > 0 else -a

    def loop_on_sum(a: torch.Tensor) -> torch.Tensor:
        while a.sum() < 0:
            a = a + 1
        return a

    lab.raises("item", lambda: vmap(lambda a: a.sum().item())(x), RuntimeError, match="item")
    lab.raises("if", lambda: vmap(branch_on_sum)(x), RuntimeError, match="control flow")
    lab.raises("while", lambda: vmap(loop_on_sum)(x), RuntimeError, match="control flow")
    lab.raises("nonzero", lambda: vmap(torch.nonzero)(x), RuntimeError)
    whole = torch.zeros(2, device=lab.device)

    def write_into_captured_tensor(a: torch.Tensor) -> torch.Tensor:
        return whole.add_(a)

    lab.raises(
        "a write of a batch into a captured tensor", lambda: vmap(write_into_captured_tensor)(x), RuntimeError
    )
    lab.raises("allclose", lambda: vmap(torch.allclose)(x, x), RuntimeError)


@behaviour("functorch", level="full", must_detect=("value", "alias"), page="func.ux_limitations.html")
def vmap_writes_in_place(lab: Lab) -> None:
    """An in-place write inside ``vmap`` changes the mapped tensor and its base."""
    x = lab.integers(3, 2)
    vmap(lambda a: a.mul_(2))(x)
    lab.same("the input", x)
    base = lab.integers(2, 3, 2)
    vmap(lambda a: a[0].add_(10))(base)
    lab.same("through a view", base)
    second = lab.integers(3, 2)
    vmap(lambda a, b: a.copy_(b))(second, x)
    lab.same("copied", second)
    flat = lab.integers(6)
    vmap(lambda a: a.zero_())(flat.view(3, 2)[1:])
    lab.same("a write through a captured view", flat)
    wide = lab.integers(4, 3)
    vmap(lambda a: a.t_() if a.dim() == 2 else a.fill_(1), in_dims=1)(wide)
    lab.same("another dimension", wide)


@behaviour(
    "functorch",
    dtypes=WIDE_FLOATS,
    level="full",
    capabilities=("autograd", "double_backward"),
    must_detect=("value",),
    page="generated/torch.func.vmap.html",
)
def vmap_differentiates(lab: Lab) -> None:
    """A backward pass through ``vmap`` returns the gradients of the single calls. ``is_grads_batched``
    computes a batch of backward passes.
    """
    x = lab.floats(3, 4, requires_grad=True)
    y = lab.floats(4)
    (gradient,) = torch.autograd.grad(vmap(lambda a: (a * y).sin().sum())(x).sum(), x)
    lab.close("through vmap", gradient)
    (second,) = torch.autograd.grad(vmap(lambda a: a.pow(3).sum())(x).square().sum(), x, create_graph=True)
    lab.close("with a graph", second.detach(), roundings=32)
    (twice,) = torch.autograd.grad(second.sum(), x)
    lab.close("twice", twice, roundings=64)
    out = (x.exp() * y).sum(1)
    rows = torch.eye(3, dtype=x.dtype, device=x.device)
    (jacobian,) = torch.autograd.grad(out, x, rows, is_grads_batched=True)
    lab.close("a Jacobian of batched gradients", jacobian)


@behaviour(
    "functorch",
    level="full",
    must_detect=("value",),
    page="func.ux_limitations.html",
    ground="The UX limitations page defines vmap as a loop over elements with stacked results",
)
def vmap_indexes(lab: Lab) -> None:
    """Under ``vmap``, indexing with tensors, masked fills and index writes act on each element of a batch."""
    x = lab.integers(3, 4)
    where = lab.put([[0, 2], [1, 1], [3, 0]])
    lab.same("indexing by a mapped index", vmap(lambda a, i: a[i])(x, where))
    lab.same(
        "indexing by an index that is not mapped", vmap(lambda a, i: a[i], in_dims=(0, None))(x, where[0])
    )
    lab.same("indexing a tensor that is not mapped", vmap(lambda a, i: a[i], in_dims=(None, 0))(x[0], where))
    lab.same("gather", vmap(lambda a, i: a.gather(0, i))(x, where))
    lab.same("scatter", vmap(lambda a, i: a.scatter(0, i, 9))(x, where.clamp(max=2)[:, :1]))
    lab.same("masked fill", vmap(lambda a: a.masked_fill(a > 0, 7))(x))
    lab.same("where", vmap(lambda a: torch.where(a > 0, a, -a))(x))
    lab.same("put", vmap(lambda a, i: a.index_put((i,), a.new_full((2,), 5)))(x, where))
    lab.same("put a number", vmap(lambda a, i: a.index_fill(0, i, 4))(x, where))
    lab.same("two levels", vmap(vmap(lambda a, i: a[i], in_dims=(None, 0)))(x, where))
    edges = lab.put([0.0, 1.0, 2.0])
    lab.same("searchsorted", vmap(lambda v: torch.searchsorted(edges, v))(x))
    lab.same("bucketize", vmap(lambda v: torch.bucketize(v, edges))(x))


@behaviour(
    "functorch",
    level="full",
    capabilities=("random",),
    must_detect=("error",),
    page="func.ux_limitations.html",
)
def vmap_randomness(lab: Lab) -> None:
    """Random numbers inside ``vmap`` raise an error unless ``randomness`` is "different" or "same"."""
    x = lab.integers(64, 2)

    def add_random_numbers(a: torch.Tensor) -> torch.Tensor:
        return a + torch.rand(8, device=a.device)[:2]

    def eight_random_numbers(a: torch.Tensor) -> torch.Tensor:
        return torch.rand(8, device=a.device) + 0 * a[0]

    lab.raises("the default", lambda: vmap(add_random_numbers)(x), RuntimeError, match="randomness")
    lab.raises(
        "error", lambda: vmap(add_random_numbers, randomness="error")(x), RuntimeError, match="randomness"
    )
    same = vmap(eight_random_numbers, randomness="same")(x)
    lab.holds("same gives every element the same numbers", (same == same[0]).all().item())
    different = vmap(eight_random_numbers, randomness="different")(x)
    lab.holds(
        "different gives each element different numbers",
        len({tuple(row) for row in different.tolist()}) == 64,
    )
    with lab.parity(
        "The page names three values of randomness, and does not say that other values are an error"
    ):
        lab.raises(
            "another word",
            lambda: vmap(add_random_numbers, randomness="some")(x),
            RuntimeError,
            match="randomness",
        )
    dropped = vmap(lambda a: torch.nn.functional.dropout(a + 100.0, 0.5), randomness="different")(x)
    scaled = (x + 100.0) * 2
    lab.holds("dropout keeps or drops", bool(((dropped == 0) | (dropped == scaled)).all()))
    lab.same("its shape", list(dropped.shape))


@behaviour("functorch", level="full", must_detect=("value",), page="generated/torch.func.vmap.html")
def vmap_in_chunks(lab: Lab) -> None:
    """``vmap`` with ``chunk_size`` returns the same results, for any size of the last chunk."""
    x = lab.integers(7, 3)
    for size in (1, 2, 3, 7, 20):
        lab.same(f"in chunks of {size}", vmap(lambda a: (a * 2, a.sum()), chunk_size=size)(x))
    lab.same("with out_dims", vmap(lambda a: a * 2, out_dims=1, chunk_size=4)(x))
    lab.same("in_dims", vmap(torch.sum, in_dims=1, chunk_size=2)(x))
    with lab.parity("The page allows None or an integer, and does not say that 0 is an error"):
        lab.raises("no chunk", lambda: vmap(torch.sum, chunk_size=0)(x), ValueError, match="chunk")


@behaviour(
    "functorch", level="full", must_detect=("value",), page="generated/torch.func.stack_module_state.html"
)
def vmap_of_modules(lab: Lab) -> None:
    """Modules can be mapped over inputs and, with ``functional_call``, over stacked parameters."""
    torch.manual_seed(0)
    models = [lab.to(torch.nn.Linear(3, 2)) for _ in range(4)]
    for number, model in enumerate(models):
        with torch.no_grad():
            model.weight.copy_(lab.integers(2, 3))
            model.bias.fill_(number)
    x = lab.integers(5, 3)
    lab.same("over inputs", vmap(models[0])(x).detach())
    parameters, buffers = torch.func.stack_module_state(models)
    lab.same("stacked", {name: value.detach() for name, value in parameters.items()})

    def call_with_stacked_state(p: Any, b: Any, value: torch.Tensor) -> Any:
        return torch.func.functional_call(models[0], (p, b), (value,))

    lab.same(
        "an ensemble", vmap(call_with_stacked_state, in_dims=(0, 0, None))(parameters, buffers, x).detach()
    )
    each = torch.stack([model(x) for model in models])
    lab.holds(
        "the stacked models give the results of the single models",
        torch.equal(vmap(call_with_stacked_state, in_dims=(0, 0, None))(parameters, buffers, x), each),
    )
