"""Behaviours of gradients in rare calls: sparse gradients of ``gather``, a parameter that shrinks, and direct
calls of nodes.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "autograd",
    capabilities=("sparse",),
    must_detect=("value",),
    page="generated/torch.gather.html",
    ground="The page requires equal numbers of dimensions; other calls have basis parity",
)
def sparse_gradients_of_gather(lab: Lab) -> None:
    """``gather`` with ``sparse_grad`` gives a sparse gradient with the values of the dense gradient, also if
    the input, the index or both have no dimensions.
    """
    scalar, row, table = lab.integers(1)[0], lab.integers(5), lab.integers(5, 4)
    zero = lab.put(0)
    cases = {
        "an index in each row": (table, 1, lab.put([[0, 3], [1, 1], [2, 0], [3, 3], [0, 1]])),
        "an index in each column": (table, 0, lab.put([[0, 4, 1, 2]])),
        "an index without elements": (table, 0, torch.empty(0, 4, dtype=torch.int64, device=lab.device)),
        "an index without dimensions": (row, 0, lab.put(2)),
        "an input without dimensions": (scalar, 0, lab.put([0])),
        "both without dimensions": (scalar, 0, zero),
    }
    for name, (start, dim, index) in cases.items():
        with (
            contextlib.nullcontext()
            if start.dim() and index.dim()
            else lab.parity(
                "The page excludes different numbers of dimensions, and mentions no tensor without dimensions"
            )
        ):
            gradients: list[Any] = []
            for sparse in (False, True):
                leaf = start.clone().requires_grad_()
                result = torch.gather(leaf, dim, index, sparse_grad=sparse)
                result.backward(torch.ones_like(result) * 3)
                gradients.append(leaf.grad)
            lab.same(f"layouts, {name}", [gradient.layout for gradient in gradients])
            dense = gradients[1].to_dense() if gradients[1].layout is torch.sparse_coo else gradients[1]
            lab.same(f"gradient, {name}", dense)
            with lab.consistent("The sparse and the dense gradient must be equal"):
                lab.holds(f"sparse and dense gradient are equal, {name}", torch.equal(dense, gradients[0]))


@behaviour(
    "autograd",
    capabilities=("autograd", "storage"),
    must_detect=("value",),
    page="generated/torch.Tensor.set_.html",
    ground="A gradient has the shape of its leaf, which takes the size of the source",
)
def gradients_of_a_parameter_that_shrinks(lab: Lab) -> None:
    """If ``set_`` replaces a parameter by a part of itself, the parameter gets gradients of its new size.
    Advanced indexing has correct gradients in any memory format.
    """
    parameter: Any = torch.nn.Parameter(torch.ones(16, device=lab.device))
    for round in range(2):
        with torch.no_grad():
            parameter.set_(parameter[1:])
            parameter.grad = None
        torch.cat((parameter, parameter)).sum().backward()
        lab.expect(f"round {round}", parameter.grad * 1, [2.0] * (15 - round))
    for shape, positions, format in itertools.product(
        ((2, 8, 1, 2),), ([0, 1, 1], [1, 0, 0]), (torch.contiguous_format, torch.channels_last)
    ):
        leaf: Any = lab.integers(*shape).contiguous(memory_format=format).requires_grad_()
        index = lab.put(positions)
        (leaf[:, index] * 2).sum().backward()
        expected = torch.zeros(shape)
        for position in positions:
            expected[:, position] += 2
        lab.expect(f"indexed by {positions}, {format}", leaf.grad * 1, expected)
    leaf = lab.integers(2, 3, requires_grad=True)
    index = lab.integers(2, 8, 1, 2, low=0, high=2, dtype=torch.int64)
    for format in (torch.contiguous_format, torch.channels_last):
        formatted_index = index.contiguous(memory_format=format)
        (gradient,) = torch.autograd.grad(leaf[formatted_index].sum(), leaf)
        lab.same(f"indexed by four dimensions, {format}", gradient)


@behaviour(
    "autograd",
    capabilities=("autograd",),
    must_detect=("error",),
    page="autograd.html",
    basis="parity",
    ground="No page says how nodes are called by hand",
)
def nodes_called_wrongly(lab: Lab) -> None:
    """A node can be called with gradients by position, one for each output. Calls with keyword arguments, or
    with a different number of gradients, are refused.
    """
    leaf = lab.integers(2, 2, requires_grad=True)
    for name, result in {"a power": leaf.pow(5), "a reshape": leaf.reshape(4), "a sum": leaf.sum()}.items():
        node: Any = result.grad_fn
        gradient = torch.ones_like(result)
        lab.same(f"{name}, called well", [type(part).__name__ for part in (node(gradient),)])
        lab.raises(f"{name}, two gradients", lambda n=node, g=gradient: n(g, g), TypeError)  # type: ignore[misc]
        lab.raises(f"{name}, by word", lambda n=node, g=gradient: n(g, grad=g), TypeError)  # type: ignore[misc]
        lab.raises(f"{name}, none", lambda n=node: n(), TypeError, RuntimeError)  # type: ignore[misc]
