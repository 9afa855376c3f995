"""Behaviours of nested tensors, which hold tensors of different lengths as one tensor."""

from __future__ import annotations

import copy
import io
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab

SIZES = ((2, 3), (4, 3), (1, 3))
#: The ground of parity for calls that may be refused; the values of a call that succeeds are documented.
_WHICH_OPERATIONS = "No page promises this operation for nested tensors, so a device may refuse it"


def _make_components(lab: Lab, requires_grad: bool = False) -> list[torch.Tensor]:
    """Return one tensor on the device for each size in ``SIZES``."""
    return [lab.integers(*size, requires_grad=requires_grad) for size in SIZES]


def _detached_components(value: torch.Tensor) -> list[torch.Tensor]:
    """Return the tensors that a nested tensor consists of, detached from their graph."""
    return [part.detach() for part in value.unbind()]


@behaviour(
    "nested",
    capabilities=("autograd",),
    dtypes=("float32", "float64"),
    level="core",
    must_detect=("value", "error"),
)
def nested_construction(lab: Lab) -> None:
    """``nested_tensor`` copies the given tensors, and ``as_nested_tensor`` passes gradients to them.
    ``unbind`` and ``to_padded_tensor`` return the values of the given tensors.
    """
    for layout in (torch.strided, torch.jagged):
        parts = _make_components(lab)
        nested = torch.nested.nested_tensor(parts, layout=layout)
        lab.same(f"parts, {layout}", _detached_components(nested))
        lab.same(
            f"attributes, {layout}",
            [nested.is_nested, nested.dim(), nested.size(0), nested.dtype, nested.layout],
        )
        lab.same(f"device, {layout}", nested.device.type == lab.device.type)
        parts[0].zero_()
        lab.same(f"a copy, {layout}", _detached_components(nested)[0])
        lab.same(f"padded, {layout}", torch.nested.to_padded_tensor(nested, -1.0))
        lists = torch.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=layout, device=lab.device)
        lab.expect(f"of lists, {layout}", _detached_components(lists)[0], [1.0, 2.0])
        leaves = _make_components(lab, requires_grad=True)
        joined = torch.nested.as_nested_tensor(leaves, layout=layout)
        lab.same(f"need of gradients, {layout}", joined.requires_grad)
        sum((part * (index + 2)).sum() for index, part in enumerate(joined.unbind())).backward()  # type: ignore[union-attr]
        lab.same(f"gradients of parts, {layout}", [leaf.grad for leaf in leaves])
        leaf = torch.nested.nested_tensor(_make_components(lab), layout=layout, requires_grad=True)
        lab.same(f"a leaf, {layout}", [leaf.is_leaf, leaf.requires_grad])
        wide = torch.nested.nested_tensor(
            _make_components(lab), layout=layout, dtype=torch.float64, device=lab.device
        )
        lab.same(f"in another dtype, {layout}", [wide.dtype, *_detached_components(wide)])
    lab.raises(
        "parts with different numbers of dimensions",
        lambda: torch.nested.nested_tensor([lab.integers(2, 3), lab.integers(2)]),
        type_is_documented=True,
    )
    whole = torch.nested.nested_tensor(
        [lab.integers(2, dtype=torch.int64), lab.integers(3, dtype=torch.int64)]
    )
    lab.same("whole numbers", [whole.dtype, *_detached_components(whole)])
    with lab.parity("No page says that reading the size of a ragged dimension is an error"):
        lab.raises(
            "size of a ragged dimension", lambda: torch.nested.nested_tensor(_make_components(lab)).size(1)
        )


@behaviour(
    "nested",
    dtypes=("float32",),
    level="core",
    must_detect=("value",),
    ground="The page says that operations are called as on ordinary tensors",
)
def nested_arithmetic(lab: Lab) -> None:
    """Pointwise functions, softmax, linear, conversions and arithmetic with numbers or nested tensors act on
    each part of a nested tensor.
    """
    for layout in (torch.strided, torch.jagged):
        parts = _make_components(lab)
        nested = torch.nested.nested_tensor(parts, layout=layout)
        weight, bias = lab.integers(5, 3), lab.integers(5)
        with lab.parity(_WHICH_OPERATIONS):
            results = {
                "number": nested * 3,
                "itself": nested + nested,
                "relu": torch.relu(nested),
                "negative": -nested,
                "absolute": nested.abs(),
                "in place": nested.clone().mul_(2),
                "clone": nested.clone(),
                "conversion": nested.to(torch.float64),
                "linear": torch.nn.functional.linear(nested, weight, bias),
            }
            soft = torch.softmax(nested, -1)
        for name, result in results.items():
            lab.same(f"{name}, {layout}", _detached_components(result))
        lab.close(f"softmax, {layout}", _detached_components(soft), roundings=32)
        if layout is torch.jagged:
            with lab.parity(_WHICH_OPERATIONS):
                normed = torch.nn.functional.layer_norm(nested, (3,), lab.integers(3), lab.integers(3))
            lab.close("layer_norm", _detached_components(normed), roundings=256)
        dense = nested.detach()
        lab.same(f"detached, {layout}", [dense.requires_grad, *_detached_components(dense)])
        lab.same(f"on the host, {layout}", list(nested.cpu().unbind()), host=True)
        lab.same(f"and back, {layout}", _detached_components(nested.cpu().to(lab.device)))


@behaviour("nested", capabilities=("autograd",), dtypes=("float32",), level="core", must_detect=("value",))
def nested_gradients(lab: Lab) -> None:
    """Gradients flow through arithmetic, linear layers and padding of nested tensors to the parts and to the
    weights.
    """
    for layout in (torch.strided, torch.jagged):
        leaves = _make_components(lab, requires_grad=True)
        weight = lab.integers(2, 3, requires_grad=True)
        nested = torch.nested.as_nested_tensor(leaves, layout=layout)
        with lab.parity(_WHICH_OPERATIONS):
            out = torch.nn.functional.linear(nested * 2, weight)
        torch.nested.to_padded_tensor(out, 0.0).sum().backward()
        lab.same(f"of parts, {layout}", [leaf.grad for leaf in leaves])
        lab.same(f"of the weight, {layout}", weight.grad)


@behaviour("nested", capabilities=("serialization",), dtypes=("float32",), must_detect=("value",))
def jagged_layout(lab: Lab) -> None:
    """A nested tensor of the jagged layout consists of values and offsets, and shares the memory of the given
    values. It can be reduced, transposed, saved and copied.
    """
    values, offsets = lab.integers(7, 3), lab.put([0, 2, 6, 7])
    jagged: Any = torch.nested.nested_tensor_from_jagged(values, offsets)
    lab.same("parts", _detached_components(jagged))
    lab.same("offsets", jagged.offsets())
    lab.shares("values and those within", values, jagged.values())
    lab.same(
        "by lengths",
        _detached_components(torch.nested.nested_tensor_from_jagged(values, lengths=lab.put([2, 4, 1]))),
    )
    with lab.parity(_WHICH_OPERATIONS):
        sums = [jagged.sum(-1, keepdim=True), jagged.sum(1)]
    lab.same("sum of the last dimension", _detached_components(sums[0]))
    lab.same("sum over the jagged dimension", sums[1])
    lab.same("transposed", [jagged.transpose(1, 2).shape[1], jagged.unsqueeze(-1).dim()])
    narrowed = torch.nested.narrow(
        lab.integers(3, 5), 1, lab.put([0, 1, 2]), lab.put([2, 3, 1]), layout=torch.jagged
    )
    lab.same("narrowed", _detached_components(narrowed))
    buffer = io.BytesIO()
    torch.save(jagged, buffer)
    buffer.seek(0)
    with lab.consistent("A loaded nested tensor must equal the saved one"):
        lab.same("saved", _detached_components(torch.load(buffer, weights_only=False)))
    with lab.consistent("A copy of a nested tensor must equal the original"):
        lab.same("copied", _detached_components(copy.deepcopy(jagged)))
    back = torch.nested.masked_select(
        lab.integers(2, 3), lab.put([[True, False, True], [False, True, False]])
    )
    lab.same("selected by a mask", _detached_components(back))
    with lab.parity("No page says what the printed form of a nested tensor contains"):
        lab.holds("a tensor is printed with its offsets", "offsets" in repr(jagged))
