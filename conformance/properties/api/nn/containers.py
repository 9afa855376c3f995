"""Check the containers ``Sequential``, ``ModuleList``, ``ModuleDict``, ``ParameterList`` and
``ParameterDict``: editing, calling, copying.
"""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

import torch
from torch import nn

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._exact_modules import with_whole_number_state


def _linear_layers(lab: Lab, count: int) -> list[nn.Linear]:
    return [with_whole_number_state(lab, nn.Linear(2, 2)) for _ in range(count)]


@behaviour(
    "nn",
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.nn.Sequential.html",
    ground="The page describes the order of calls and append, insert, extend; other edits are undocumented",
)
def sequential_edits(lab: Lab) -> None:
    """A ``Sequential`` can be indexed, changed, sliced, joined and repeated like a list. It calls its layers
    in list order.
    """
    first, second, third, fourth = _linear_layers(lab, 4)
    x = lab.integers(3, 2)

    def layer_numbers(net: nn.Sequential) -> list[int]:
        return [
            next(i for i, candidate in enumerate((first, second, third, fourth)) if candidate is layer)
            for layer in net
        ]

    net = nn.Sequential(first, second, third)
    with lab.parity("No page says that a Sequential can be edited like a list in this way"):
        lab.same(
            "length and items",
            [len(net), net[0] is first, net[-1] is third, layer_numbers(net[1:]), layer_numbers(net[::2])],  # type: ignore[arg-type]
        )
        lab.holds("a slice is a Sequential", isinstance(net[:2], nn.Sequential))
        lab.same("result of a slice", net[:2](x))
    net[1] = fourth
    with lab.parity("No page says that a Sequential can be edited like a list in this way"):
        lab.same("after an item was set", (layer_numbers(net), net(x)))
    net[-1] = second
    with lab.parity("No page says that a Sequential can be edited like a list in this way"):
        lab.same("after the last item was set", (layer_numbers(net), net(x)))
    named = nn.Sequential(OrderedDict(a=first, b=second))
    named[0] = third
    with lab.parity("No page says that a Sequential can be edited like a list in this way"):
        lab.same("names stay", (list(dict(named.named_children())), named(x)))
    del net[0]
    with lab.parity("No page says that a Sequential can be edited like a list in this way"):
        lab.same("after an item was deleted", (layer_numbers(net), list(dict(net.named_children())), net(x)))
    net = nn.Sequential(first, second, third, fourth)
    del net[1:3]
    with lab.parity("No page says that a Sequential can be edited like a list in this way"):
        lab.same("after a slice was deleted", layer_numbers(net))
    joined = nn.Sequential(first, second) + nn.Sequential(third)
    with lab.parity("No page says that a Sequential can be edited like a list in this way"):
        lab.same("joined", (layer_numbers(joined), joined(x)))
    joined += nn.Sequential(fourth)
    with lab.parity("No page says that a Sequential can be edited like a list in this way"):
        lab.same("joined in place", layer_numbers(joined))
        lab.same(
            "repeated",
            (layer_numbers(nn.Sequential(first) * 2), layer_numbers(2 * nn.Sequential(first, second))),
        )
    net = nn.Sequential(first)
    net *= 3
    with lab.parity("No page says that a Sequential can be edited like a list in this way"):
        lab.same("repeated in place", (layer_numbers(net), net(x)))
    net.append(second)
    lab.same("appended", layer_numbers(net))
    with lab.parity("No page says that a Sequential can be edited like a list in this way"):
        lab.holds("pop returns the layer", net.pop(-1) is second)
    net.insert(1, third)
    lab.same("inserted", layer_numbers(net))
    net.extend([fourth, second])
    lab.same("extended", layer_numbers(net))
    with lab.parity("No page says that this call is an error"):
        lab.raises("an index out of range", lambda: net[9], IndexError)
        lab.raises("deleting out of range", lambda: net.__delitem__(9), IndexError)
        lab.raises("inserting no module", lambda: net.insert(0, [1]), AssertionError, TypeError)  # type: ignore[arg-type]
        lab.raises("inserting out of range", lambda: net.insert(-99, first), IndexError)
        lab.raises("adding no Sequential", lambda: net.__add__([first]), ValueError)
        lab.raises("multiplying by a float", lambda: net * 1.5, TypeError)  # type: ignore[operator]
        lab.raises("multiplying by zero", lambda: net * 0, ValueError)


@behaviour("nn", must_detect=("value", "error"), page="generated/torch.nn.ModuleList.html")
def module_lists_and_dicts(lab: Lab) -> None:
    """``ModuleList`` and ``ModuleDict`` work like a list and a dict. Their modules are registered as
    submodules and are in the state dict.
    """
    first, second, third, fourth = _linear_layers(lab, 4)
    x = lab.integers(3, 2)
    items = nn.ModuleList([first, second])
    items += [third]
    lab.same(
        "items", [item is expected for item, expected in zip(items, (first, second, third), strict=True)]
    )
    items.extend(nn.ModuleList([fourth]))
    items.insert(0, second)
    items[1] = third
    lab.same("names", list(dict(items.named_children())))
    y = x
    for layer in items:
        y = layer(y)
    lab.same("run in order", y)
    lab.holds("slices are lists", isinstance(items[1:3], nn.ModuleList) and items[1:3][0] is third)
    del items[0]
    del items[-1:]
    lab.same("after deletions", len(items))
    lab.holds("pop returns the module", items.pop(0) is third)
    joined = items + nn.ModuleList([first])
    lab.same("joined", [joined[-1] is first, len(joined), len(list(joined.parameters()))])
    lab.same("state", list(joined.state_dict()))
    lab.holds(
        "an empty ModuleList has no modules and no parameters",
        len(nn.ModuleList()) == 0 and not list(nn.ModuleList().parameters()),
    )
    with lab.parity("No page says that this call is an error"):
        lab.raises("extending by no iterable", lambda: items.extend(first), TypeError)  # type: ignore[arg-type]
    lab.raises("an index out of range", lambda: items[9], IndexError, type_is_documented=True)
    with lab.parity("No page says that calling a list of modules is an error"):
        lab.raises("calling a ModuleList", lambda: items(x), NotImplementedError)

    table = nn.ModuleDict({"b": first, "a": second})
    table["c"] = third
    table.update([("d", fourth), ("a", third)])  # type: ignore[arg-type]
    lab.same(
        "keys keep their order", (list(table), list(table.keys()), len(table), "c" in table, "z" in table)
    )
    lab.same("a value that runs", table["a"](x))
    lab.same("items", [name for name, module in table.items() if module is third])
    lab.holds("pop returns the value", table.pop("d") is fourth)
    del table["c"]
    lab.same("values", [module is first for module in table.values()])
    table.update(OrderedDict(q=second))
    lab.same("state of the dict", list(table.state_dict()))
    table.clear()
    lab.same("cleared", len(table))
    lab.raises("a key that is missing", lambda: table["z"], KeyError, type_is_documented=True)
    with lab.parity("No page says that this call is an error"):
        lab.raises("a key that is not a string", lambda: table.update({1: first}), TypeError)  # type: ignore[dict-item]
        lab.raises("a value that is not a module", lambda: table.update({"z": 1}), TypeError)  # type: ignore[dict-item]
        lab.raises("updating by a number", lambda: table.update(1), TypeError)  # type: ignore[arg-type]
        lab.raises("a pair of three", lambda: table.update([("a", first, 1)]), ValueError)  # type: ignore[arg-type]


@behaviour(
    "nn",
    capabilities=("autograd",),
    must_detect=("value", "error"),
    page="generated/torch.nn.ParameterList.html",
)
def parameter_lists_and_dicts(lab: Lab) -> None:
    """``ParameterList`` and ``ParameterDict`` register tensors as parameters. They also store values that are
    not tensors.
    """
    tensors = [lab.integers(2, 2) for _ in range(4)]
    items = nn.ParameterList([nn.Parameter(tensors[0]), nn.Parameter(tensors[1])])
    items.append(tensors[2])
    items += [nn.Parameter(tensors[3])]
    lab.holds("tensors become parameters", all(isinstance(parameter, nn.Parameter) for parameter in items))
    lab.same("values", list(items))
    lab.same("names", [name for name, _ in items.named_parameters()])
    total = sum((parameter * (position + 1)).sum() for position, parameter in enumerate(items))
    total.backward()
    lab.same("gradients", [parameter.grad for parameter in items])
    lab.holds("a slice is a list", isinstance(items[1:3], nn.ParameterList) and items[1:3][0] is items[1])
    items[0] = nn.Parameter(tensors[1])
    lab.same("after an item was set", items[0])
    items.extend(nn.ParameterList([nn.Parameter(tensors[0])]))
    lab.same("length", len(items))
    mixed = nn.ParameterList([tensors[0], "word", 7])
    lab.same("other values are kept", (list(mixed)[1:], len(list(mixed.parameters()))))
    lab.raises("an index out of range", lambda: items[9], IndexError, type_is_documented=True)
    with lab.parity("No page says that this call is an error"):
        lab.raises("extending by a tensor", lambda: items.extend(tensors[0]), TypeError)
    with lab.parity("No page says that calling a list of parameters is an error"):
        lab.raises("calling a ParameterList", lambda: items(tensors[0]), RuntimeError)

    table = nn.ParameterDict(OrderedDict(b=nn.Parameter(tensors[0]), a=tensors[1]))
    table["c"] = tensors[2]
    lab.holds(
        "values become parameters", all(isinstance(parameter, nn.Parameter) for parameter in table.values())
    )
    lab.same("keys", (list(table), "a" in table, len(table)))
    lab.same("by key", table["a"])
    table.update({"d": tensors[3]})
    lab.same("names of parameters", sorted(name for name, _ in table.named_parameters()))
    lab.same("pop", table.pop("b"))
    lab.same("setdefault", (table.setdefault("e", nn.Parameter(tensors[0])), table.get("zz", 5)))
    both = table | nn.ParameterDict({"z": tensors[1]})
    with lab.parity("No page says that dictionaries of parameters can be joined by this operator"):
        lab.same("joined", list(both))
    copied = table.copy()
    lab.holds("a copy holds the same parameters", copied["a"] is table["a"] and copied is not table)
    lab.same("made from keys", list(nn.ParameterDict().fromkeys(["u", "v"])))
    lab.same("the last item", table.popitem()[0])
    table.clear()
    lab.same("cleared", len(table))
    lab.raises(
        "a key that is missing", lambda: table["zz"], KeyError, AttributeError, type_is_documented=True
    )
    with lab.parity("No page says that this call is an error"):
        lab.raises("a key that is not a string", lambda: table.update({1: tensors[0]}), TypeError)  # type: ignore[dict-item]


class ContainerModule(nn.Module):
    """A module with parameter containers, a module list and an ordinary list."""

    def __init__(self, lab: Lab) -> None:
        super().__init__()
        self.items = nn.ParameterList([lab.integers(2), lab.integers(3)])
        self.table = nn.ParameterDict({"a": lab.integers(2), "word": "text"})
        self.layers = nn.ModuleList(_linear_layers(lab, 2))
        self.note = [1, 2]


@behaviour(
    "nn",
    must_detect=("alias",),
    page="generated/torch.nn.Module.html",
    basis="consistency",
    ground="A copied or unpickled container must equal the original and own its parameters",
)
def copies_of_containers(lab: Lab) -> None:
    """``deepcopy`` and ``pickle`` return containers with equal values and separate parameters. ``copy.copy``
    returns a container that shares the modules.
    """
    module = ContainerModule(lab)
    by_pickle = pickle.loads(pickle.dumps(module))
    ways: list[tuple[str, Any]] = [("deepcopy", copy.deepcopy(module)), ("pickle", by_pickle)]
    for method_name, copied in ways:
        lab.same(f"state after {method_name}", dict(copied.state_dict()))
        lab.same(f"names after {method_name}", [name for name, _ in copied.named_parameters()])
        lab.apart(f"parameters after {method_name}", copied.items[0], module.items[0])
        lab.holds(
            f"{method_name} keeps strings and lists", copied.note == [1, 2] and copied.table["word"] == "text"
        )
        lab.holds(f"{method_name} keeps the class ParameterList", type(copied.items) is nn.ParameterList)
    shallow = copy.copy(module.layers)
    lab.holds("a copy holds the same modules", shallow[0] is module.layers[0])
    with lab.documented():
        lab.shares("a detached parameter", module.items[0].detach(), module.items[0])
    moved = module.to(lab.device)
    with lab.documented():
        lab.holds("moving returns the module", moved is module)


@behaviour("nn", must_detect=("shape",), page="generated/torch.nn.Module.html")
def parameter_lists_on_meta(lab: Lab) -> None:
    """Lists of meta parameters can be printed. ``to_empty`` allocates them on the device."""
    items = nn.ParameterList(
        [nn.Parameter(torch.empty(2, 3, device="meta")), nn.Parameter(torch.empty(4, device="meta"))]
    )
    with lab.parity("No page says how a list of parameters is printed"):
        lab.holds(
            "the text of a parameter list contains the shapes",
            "(2x3)" in repr(items).replace(" ", "") or "2x3" in repr(items),
        )
    real = items.to_empty(device=lab.device)
    lab.holds(
        "to_empty returns parameters on the device",
        all(parameter.device.type == lab.device.type for parameter in real),
    )
    with torch.no_grad():
        for parameter in real:
            parameter.fill_(2)
    lab.expect("filled", real[0] + 1, [[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]])
