"""Graphs of the operators of torch's database: traced with values, with fake tensors and with open sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab, own_work
from conformance.properties.api._opinfo_calls import OpInfoCall, calls, forms, near

SEED = 11


def traced(function: Callable[..., Any], *inputs: Any, sizes: str) -> Callable[..., Any]:
    """Return the graph of a function; tests put a wrong one in its place."""
    graph: Callable[..., Any] = torch_testing_internals.graph_of(function, *inputs, sizes=sizes)
    return graph


def _of_tensors(call: OpInfoCall, in_place: bool) -> Callable[..., Any]:
    """Return the call as a function of its tensors."""
    target = call.in_place if in_place else call.function
    assert target is not None

    def function(*tensors: Any) -> Any:
        made = call.with_tensors(tensors)
        first = made.arguments[0].clone() if in_place else made.arguments[0]
        return target(first, *made.arguments[1:], **made.options)

    return function


def _seeded(function: Callable[..., Any], call: OpInfoCall) -> Any:
    """Call a function of the call's tensors with the generators set."""
    torch.manual_seed(SEED)
    return function(*call.copied().tensors())


def _runs(lab: Lab, function: Callable[..., Any], call: OpInfoCall) -> bool:
    try:
        # Held, so that a lazy device cannot take it for a value that is not needed.
        kept = _seeded(function, call)
        if lab.on_target:
            lab.target.synchronize()
        del kept
    except Exception:
        return False
    return True


def _agrees(lab: Lab, call: OpInfoCall, sizes: str, in_place: bool, trace: Callable[..., Any]) -> bool | None:
    """Trace a call, and compare what its graph and what the function itself give for other numbers; return
    None if it cannot be traced.
    """
    function = _of_tensors(call, in_place)
    if not _runs(lab, function, call):
        return True  # whether the device has the operator is stated by other properties
    with torch_testing_internals.quiet():
        try:
            graph = trace(function, *call.copied().tensors(), sizes=sizes)
        except Exception:
            return None
        other = call.renewed(lab)
        if not _runs(lab, function, other):
            other = call  # numbers between 0 and 1 are not in its domain
        due = _seeded(function, other)
        result = _seeded(graph, other)
    if "empty" in call.name or torch_testing_internals.draws(graph):
        return forms(result) == forms(due)
    return forms(result) == forms(due) and near(result, due)


def _keeps_to_it(lab: Lab, call: OpInfoCall, sizes: str, in_place: bool) -> bool:
    """Return whether the graph is right, or the CPU's is wrong too: a device is held to no more than the CPU.

    The CPU itself may refuse to trace a call, but a graph of its own that gives something else is reported.
    """
    agrees = _agrees(lab, call, sizes, in_place, traced)
    if lab.target.is_cpu:
        return agrees is not False
    return agrees or _agrees_on_the_host(lab, call, sizes, in_place) is not True


def _agrees_on_the_host(lab: Lab, call: OpInfoCall, sizes: str, in_place: bool) -> bool | None:
    host = call.with_tensors([t.detach().cpu().requires_grad_(t.requires_grad) for t in call.tensors()])
    side = Lab(lab.target, str(lab.dtype).removeprefix("torch."), SEED, on_target=False)
    with own_work():
        return _agrees(side, host.at("cpu"), sizes, in_place, torch_testing_internals.graph_of)


def _over(lab: Lab, part: int, parts: int, sizes: str, *, in_place: bool = False) -> None:
    for call in calls(lab, part, parts):
        if in_place and (call.in_place is None or call.name == "resize_"):
            continue  # a fake tensor with open sizes cannot be resized
        if call.tensors() and all(tensor.layout is torch.strided for tensor in call.tensors()):
            name = f"{call.name}{' in place' if in_place else ''}, {sizes}"
            agrees = not lab.on_target or _keeps_to_it(lab, call, sizes, in_place)
            lab.holds(f"the graph of {name} gives what the call gives", agrees)


for _part in range(8):

    @behaviour("aot", name=f"graphs-of-entries-{_part + 1}-of-8", sees=())
    def _with_values(lab: Lab, part: int = _part) -> None:
        """The graph of each eighth operator of the database, traced with values, gives for other numbers what
        the operator gives.
        """
        _over(lab, part, 8, "real")

    @behaviour(
        "aot", name=f"fake-graphs-of-entries-{_part + 1}-of-8", capabilities=("fake_tensors",), sees=()
    )
    def _without_values(lab: Lab, part: int = _part) -> None:
        """The graph of each eighth operator of the database, traced without values, gives for other numbers
        what the operator gives.
        """
        _over(lab, part, 8, "fake")


for _part in range(4):

    @behaviour(
        "aot", name=f"open-graphs-of-entries-{_part + 1}-of-16", capabilities=("fake_tensors",), sees=()
    )
    def _with_open_sizes(lab: Lab, part: int = _part) -> None:
        """The graph of each sixteenth operator of the database, traced with open sizes, gives for other
        numbers what the operator gives.
        """
        _over(lab, part * 4, 16, "symbolic")

    @behaviour(
        "aot",
        name=f"open-graphs-of-entries-in-place-{_part + 1}-of-4",
        capabilities=("fake_tensors",),
        sees=(),
    )
    def _in_place(lab: Lab, part: int = _part) -> None:
        """The graph of each fourth operator of the database that writes in place, traced with open sizes,
        gives for other numbers what the operator gives.
        """
        _over(lab, part, 4, "symbolic", in_place=True)
