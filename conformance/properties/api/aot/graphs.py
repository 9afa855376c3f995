"""Behaviours of graphs of the operators that a function calls. The graphs are traced with real values, with
fake tensors and with dynamic shapes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.framework.trees import leaves

SIZES = ("real", "fake", "symbolic")


def trees_are_equal(actual: Any, expected: Any) -> bool:
    """Return whether two trees have equal tensors and numbers."""
    pairs = list(zip(leaves(actual), leaves(expected), strict=True))
    return bool(pairs) and all(torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in pairs)


def operator_names(graph: Any) -> list[str]:
    """Return the names of the operators in a graph, in order."""
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd",),
    page="generated/torch.fx.experimental.proxy_tensor.make_fx.html",
    basis="consistency",
    ground="The graph and the function must give the same results on the device",
)
def graphs_run_on_other_values(lab: Lab) -> None:
    """The graph of a function gives the results of the function for other inputs. The function may have any
    number of arguments, accept tensors of the host, compute gradients, change sizes in place, and create or
    write tensors.
    """
    x, y = lab.integers(3), lab.integers(3)

    def gradient_by_grad(a: torch.Tensor) -> Any:
        return torch.autograd.grad((a * a * a).sum(), a)

    def gradient_by_backward(a: torch.Tensor) -> Any:
        a.grad = None
        (a * a * a).sum().backward()
        return a.grad

    def unsqueeze_and_scale(a: torch.Tensor) -> torch.Tensor:
        b = a.clone()
        b.unsqueeze_(-1)
        return b * b.shape[-1]

    def add_created_tensor(a: torch.Tensor) -> torch.Tensor:
        return a + torch.tensor([2.0, 3.0, 4.0], device=a.device)

    functions: dict[str, tuple[Callable[..., Any], Callable[[], tuple[torch.Tensor, ...]]]] = {
        "a square": (lambda a: a * a, lambda: (lab.integers(3),)),
        "any number of arguments": (lambda *a: sum(a), lambda: (lab.integers(2), lab.integers(2))),
        "grad": (gradient_by_grad, lambda: (lab.integers(3, requires_grad=True),)),
        "backward": (gradient_by_backward, lambda: (lab.integers(3, requires_grad=True),)),
        "a change of the size in place": (unsqueeze_and_scale, lambda: (lab.integers(5),)),
        "a tensor that the function creates": (add_created_tensor, lambda: (lab.integers(3),)),
        "nll_loss": (lambda a, t: F.nll_loss(a, t), lambda: (lab.integers(1, 4), lab.put([2]))),
        "part of a storage": (lambda a, b: a + b, lambda: (lab.integers(8)[3:], lab.integers(5))),
        "a number of the host": (lambda a, b: a + b, lambda: (lab.integers(3), torch.tensor(5))),
    }
    for name, (function, give) in functions.items():
        mixed = lab.parity("No page says that a number of the host may be combined with a device tensor")
        with mixed if name == "a number of the host" else contextlib.nullcontext():
            for sizes in SIZES:
                graph = torch_testing_internals.graph_of_function(function, *give(), sizes=sizes)
                inputs = give()
                result = graph(*inputs)
                lab.same(f"{name}, {sizes}", [leaf.detach() for leaf in leaves(result)])
                lab.holds(f"{name}, {sizes}: as without", trees_are_equal(result, function(*inputs)))
    torch_testing_internals.graph_of_function(lambda a: a * 2, x)
    lab.same("inputs after the trace", (x, y))


@behaviour(
    "aot",
    level="full",
    page="generated/torch.fx.experimental.proxy_tensor.make_fx.html",
    basis="consistency",
    ground="two runs of one graph must give the same result",
)
def graphs_with_constants(lab: Lab) -> None:
    """A tensor that a traced function creates from a number is a constant of the graph. Writes to this
    constant do not change later runs of the graph. Factories, random numbers and operator overloads are
    recorded in the graph.
    """

    def fill_times_written_scalar() -> torch.Tensor:
        value = torch.tensor(1.0, device=lab.device)
        value.add_(2)
        return torch.full((2, 3), 1.0, device=lab.device) * value

    for sizes in SIZES:
        graph = torch_testing_internals.graph_of_function(fill_times_written_scalar, sizes=sizes)
        lab.expect(f"written, {sizes}", graph(), torch.full((2, 3), 3.0))
        lab.expect(f"written, {sizes}: second run", graph(), torch.full((2, 3), 3.0))
    x = lab.integers(3)
    if lab.target.capable("random"):
        graph = torch_testing_internals.graph_of_function(
            lambda a: a + torch.randn(a.shape, device=a.device), x
        )
        with lab.parity("No page lists the operators that a graph names for a call"):
            lab.holds("random numbers are in the graph", "aten.randn.default" in operator_names(graph))
    graph = torch_testing_internals.graph_of_function(lambda a: torch.empty_like(a), x)
    with lab.parity("No page lists the operators that a graph names for a call"):
        lab.same("operators of empty_like", operator_names(graph))
    graph = torch_testing_internals.graph_of_function(torch.ops.aten.alias, x, sizes="fake")
    with lab.parity("No page lists the operators that a graph names for a call"):
        lab.same("an alias", operator_names(graph))
    lab.shares("an alias from the graph and the graph's input", graph(x), x)


@behaviour(
    "aot",
    level="full",
    page="generated/torch.fx.experimental.proxy_tensor.make_fx.html",
    basis="consistency",
    ground="The graph and the function must give the same results on the device",
)
def graphs_with_open_sizes(lab: Lab) -> None:
    """A graph with dynamic shapes gives the results of the function for inputs of other sizes. Sizes may be
    numbers in arithmetic, arguments of factories, and results. Inputs may be broadcast, concatenated and
    expanded.
    """
    functions: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]] = {
        "a square": (lambda a: a * a, ((3, 4),), ((6, 8),)),
        "a broadcast": (lambda a, b: a * b, ((1, 2), (3, 1)), ((1, 5), (4, 1))),
        "a join": (lambda a, b: torch.cat([a * b, a * b]), ((1, 6), (8, 1)), ((1, 5), (6, 1))),
        "an expansion": (lambda a: (a * a).expand(a.shape), ((5, 1),), ((4, 1),)),
        "a size times a tensor": (lambda a: a.size(0) * a, ((5,),), ((12,),)),
        "a tensor plus a size": (lambda a: a.size(0) + a, ((5,),), ((4,),)),
        "a quotient by a size": (lambda a: a * 60 / a.shape[0], ((4,),), ((5,),)),
        "a root of a size": (lambda a: a / a.size(-1) ** 0.5, ((4,),), ((16,),)),
        "sizes as results": (lambda a: (a.shape[0], a * 2, a.shape[0] * 3), ((5,),), ((12,),)),
        "a factory with sizes of the inputs": (
            lambda a, b: a.new_zeros(b.shape[0], a.shape[1] * 2),
            ((2, 4), (4, 5)),
            ((3, 7), (9, 3)),
        ),
        "a factory with a negated size": (
            lambda a: torch.zeros(-a.shape[0] + 10, device=a.device),
            ((2,),),
            ((6,),),
        ),
        "a repetition whose count is a size": (
            lambda a, b: a.repeat_interleave(b.size(0), 0),
            ((4, 3), (5,)),
            ((2, 6), (3,)),
        ),
        "a view with a size of another input": (
            lambda a, b: a.view(b.shape[0]) + b.sum(),
            ((4, 2), (8,)),
            ((5, 2), (10,)),
        ),
    }
    for name, (function, first, second) in functions.items():
        graph = torch_testing_internals.graph_of_function(
            function, *(lab.integers(*size) for size in first), sizes="symbolic"
        )
        inputs = [lab.integers(*size) for size in second]
        result = graph(*inputs)
        lab.same(name, result)
        lab.holds(f"{name}: as without", trees_are_equal(result, function(*inputs)))

    def resize_and_fill(a: torch.Tensor, b: torch.Tensor) -> None:
        a.resize_(b.size(0))
        a.fill_(1)

    graph = torch_testing_internals.graph_of_function(
        resize_and_fill, torch.empty(0, device=lab.device), lab.integers(2), sizes="symbolic"
    )
    small = torch.empty(0, device=lab.device)
    graph(small, lab.integers(5))
    lab.expect("a resized input", small, torch.ones(5))

    def negate_masked_elements(a: torch.Tensor, mask: torch.Tensor) -> None:
        a[mask, 0] = a[mask, 0] * -1

    mask = lab.put([True, False, True, True])
    graph = torch_testing_internals.graph_of_function(
        negate_masked_elements, lab.integers(4, 3), mask, sizes="symbolic"
    )
    actual = lab.integers(4, 3)
    expected, other_mask = actual.clone(), lab.put([False, True, False, False])
    graph(actual, other_mask)
    negate_masked_elements(expected, other_mask)
    lab.same("a mask", actual)
    lab.holds("a mask: as without", torch.equal(actual, expected))


@behaviour(
    "aot",
    level="full",
    must_detect=("error",),
    page="generated/torch.fx.experimental.proxy_tensor.make_fx.html",
    basis="parity",
    ground="No page says that tracing refuses a function that reads a value in Python",
)
def graphs_refuse_values(lab: Lab) -> None:
    """Tracing raises an error if a function needs the value of a tensor in Python: the result of
    ``allclose``, or a number read from a random tensor.
    """

    def read_random_number() -> bool:
        value = torch.ones(1, device=lab.device)
        value.normal_()
        return bool(value.item() == 2.5)

    x = lab.integers(3)
    for sizes in SIZES:
        lab.raises(
            f"allclose, {sizes}",
            lambda: torch_testing_internals.graph_of_function(torch.allclose, x, x, sizes=sizes),
            Exception,
            match="(?i)data.?dependent|allclose",
        )
        lab.raises(
            f"a random number, {sizes}",
            lambda: torch_testing_internals.graph_of_function(read_random_number, sizes=sizes),
            Exception,
            match="(?i)data.?dependent|scalar",
        )
