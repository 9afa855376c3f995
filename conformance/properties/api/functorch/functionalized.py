"""Behaviours of ``functionalize``: views from ``split``, lists of indices, resized inputs, captured constants
and fake tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.func import functionalize, vmap

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


def _operator_names(graph: Any) -> list[str]:
    """Return the name of each aten operator call in a graph, in order."""
    return [str(node.target) for node in graph.graph.nodes if str(node.target).startswith("aten.")]


@behaviour("functorch", level="full", must_detect=("value",), page="generated/torch.func.functionalize.html")
def functionalize_more(lab: Lab) -> None:
    """``functionalize`` does not change the results of functions that write into views from ``split``, use
    lists of indices, resize an input or return a captured constant.
    """
    x = lab.integers(4, 2)

    def add_to_diagonal_of_first_half(a: torch.Tensor) -> torch.Tensor:
        first, _ = a.split(2)
        first.diagonal().add_(torch.ones(2, device=a.device))
        return a

    expected = x.clone()
    add_to_diagonal_of_first_half(expected)
    for remove in ("mutations", "mutations_and_views"):
        written = x.clone()
        lab.expect(
            f"a split, {remove}",
            functionalize(add_to_diagonal_of_first_half, remove=remove)(written),
            expected.cpu(),
        )
        lab.expect(f"a split, {remove}: the input", written, expected.cpu())
    batch = x.clone().unsqueeze(0)
    lab.expect(
        "a split in a batch", vmap(functionalize(add_to_diagonal_of_first_half))(batch)[0], expected.cpu()
    )

    where = lab.put([1, 1])
    pairs = lab.put([[0, 1], [1, 0]])
    functions: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], int]] = {
        "an index": (lambda a, i: a[i], (x[:, 0], where), 1),
        "an index of rows": (lambda a, i: a[i], (x, where), 1),
        "a list of indices": (lambda a, i: a[list(i.unbind(0))], (x, pairs), 1),
    }
    for name, (function, inputs, count) in functions.items():
        result = functionalize(function)(*inputs)
        lab.same(name, result)
        lab.holds(f"{name}: agrees with the plain call", torch.equal(result, function(*inputs)))
        graph = torch_testing_internals.graph_of_function(functionalize(function), *inputs)
        with lab.parity("No page gives the number of index calls in the graph"):
            lab.holds(
                f"{name}: number of index calls in the graph",
                _operator_names(graph).count("aten.index.Tensor") == count,
            )
        lab.same(f"{name}: result of the graph", graph(*inputs))

    def resize_and_fill(a: torch.Tensor) -> None:
        a.resize_(10)
        a.fill_(2)

    small = torch.zeros(0, device=lab.device)
    functionalize(resize_and_fill)(small)
    lab.expect("a resized input", small, torch.full((10,), 2.0))
    graph = torch_testing_internals.graph_of_function(
        functionalize(resize_and_fill), torch.zeros(0, device=lab.device)
    )
    lab.holds("a resized input: the graph has no fill_", "aten.fill_.Scalar" not in _operator_names(graph))
    resized = torch.zeros(0, device=lab.device)
    graph(resized)
    lab.expect("a resized input of the graph", resized, torch.full((10,), 2.0))

    graph = torch_testing_internals.graph_of_function(functionalize(lambda: x))
    with lab.parity("No page says that a captured constant leaves the graph without operators"):
        lab.holds("a constant: no operators in the graph", not _operator_names(graph))
    lab.same("a constant of the graph", graph())


@behaviour(
    "functorch",
    level="full",
    capabilities=("fake_tensors",),
    must_detect=(),
    page="user_guide/torch_compiler/torch.compiler_fake_tensor.html",
    ground=(
        "A fake tensor reports the device that it represents, and functionalize keeps a function's meaning"
    ),
)
def functionalize_of_fake_tensors(lab: Lab) -> None:
    """``functionalize`` of a function of fake tensors returns a fake tensor on the device."""
    with torch_testing_internals.fake_tensor_mode():
        x = torch.ones(2, device=lab.device, requires_grad=True)
        result = functionalize(lambda a: a.detach() + a.detach())(x)
        lab.holds("the result is a fake tensor", isinstance(result, FakeTensor))
        lab.same("size, dtype and gradient", (tuple(result.shape), result.dtype, result.requires_grad))
        lab.holds("the result is on the device of the input", result.device == x.device)
        lab.holds("the result is on the Lab's device", result.device.type == lab.device.type)
