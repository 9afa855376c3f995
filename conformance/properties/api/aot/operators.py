"""Graphs of the operators of torch's database, traced with values, fake tensors and dynamic shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab, lab_work
from conformance.properties.api._opinfo_calls import OpInfoCall, describe_leaves, first_calls, trees_are_close

SEED = 11


def traced(function: Callable[..., Any], *inputs: Any, sizes: str) -> Callable[..., Any]:
    """Return the graph of a function. Tests replace this function by a faulty one."""
    graph: Callable[..., Any] = torch_testing_internals.graph_of(function, *inputs, sizes=sizes)
    return graph


def _function_of_tensors(call: OpInfoCall, in_place: bool) -> Callable[..., Any]:
    """Return the call as a function of its tensors."""
    target = call.in_place if in_place else call.function
    assert target is not None

    def function(*tensors: Any) -> Any:
        renewed_call = call.with_replaced_tensors(tensors)
        first = renewed_call.arguments[0].clone() if in_place else renewed_call.arguments[0]
        return target(first, *renewed_call.arguments[1:], **renewed_call.options)

    return function


def _call_with_seed(function: Callable[..., Any], call: OpInfoCall) -> Any:
    """Call a function with copies of the call's tensors after setting the seed."""
    torch.manual_seed(SEED)
    return function(*call.with_copied_tensors().tensors())


def _runs(lab: Lab, function: Callable[..., Any], call: OpInfoCall) -> bool:
    try:
        # The result is retained so that a lazy device must compute it.
        result = _call_with_seed(function, call)
        if lab.on_target:
            lab.target.synchronize()
        del result
    except Exception:
        return False
    return True


def _graph_agrees(
    lab: Lab, call: OpInfoCall, sizes: str, in_place: bool, trace: Callable[..., Any]
) -> bool | None:
    """Trace a call and compare the results of graph and function for new values.

    Return None if the call cannot be traced.
    """
    function = _function_of_tensors(call, in_place)
    if not _runs(lab, function, call):
        return True  # other properties check that the device has the operator
    with torch_testing_internals.quiet():
        try:
            graph = trace(function, *call.with_copied_tensors().tensors(), sizes=sizes)
        except Exception:
            return None
        new_call = call.with_new_values(lab)
        if not _runs(lab, function, new_call):
            new_call = call  # its domain does not include numbers between 0 and 1
        expected = _call_with_seed(function, new_call)
        result = _call_with_seed(graph, new_call)
    if "empty" in call.name or torch_testing_internals.draws(graph):
        return describe_leaves(result) == describe_leaves(expected)
    return describe_leaves(result) == describe_leaves(expected) and trees_are_close(result, expected)


def _agrees_with_cpu_control(lab: Lab, call: OpInfoCall, sizes: str, in_place: bool) -> bool:
    """Return whether the graph is correct, or the CPU's graph is wrong too.

    On the CPU itself, a call that cannot be traced is accepted, and a graph with different results is not.
    """
    agrees = _graph_agrees(lab, call, sizes, in_place, traced)
    if lab.target.is_cpu:
        return agrees is not False
    return agrees or _agrees_on_cpu(lab, call, sizes, in_place) is not True


def _agrees_on_cpu(lab: Lab, call: OpInfoCall, sizes: str, in_place: bool) -> bool | None:
    cpu_call = call.with_replaced_tensors(
        [t.detach().cpu().requires_grad_(t.requires_grad) for t in call.tensors()]
    )
    cpu_lab = Lab(lab.target, str(lab.dtype).removeprefix("torch."), SEED, on_target=False)
    with lab_work():
        return _graph_agrees(
            cpu_lab, cpu_call.on_device("cpu"), sizes, in_place, torch_testing_internals.graph_of
        )


def _check_shard(lab: Lab, shard: int, shard_count: int, sizes: str, *, in_place: bool = False) -> None:
    for call in first_calls(lab, shard, shard_count):
        if in_place and (call.in_place is None or call.name == "resize_"):
            continue  # a fake tensor with dynamic shapes cannot be resized
        if call.tensors() and all(tensor.layout is torch.strided for tensor in call.tensors()):
            name = f"{call.name}{' in place' if in_place else ''}, {sizes}"
            agrees = not lab.on_target or _agrees_with_cpu_control(lab, call, sizes, in_place)
            lab.holds(f"the graph of {name} gives what the call gives", agrees)


for _part in range(8):

    @behaviour("aot", name=f"graphs-of-entries-{_part + 1}-of-8", sees=())
    def _with_values(lab: Lab, part: int = _part) -> None:
        """The graph of each eighth operator of the database, traced with values, gives the results of the
        operator for other values.
        """
        _check_shard(lab, part, 8, "real")

    @behaviour(
        "aot", name=f"fake-graphs-of-entries-{_part + 1}-of-8", capabilities=("fake_tensors",), sees=()
    )
    def _without_values(lab: Lab, part: int = _part) -> None:
        """The graph of each eighth operator of the database, traced without values, gives the results of
        the operator for other values.
        """
        _check_shard(lab, part, 8, "fake")


for _part in range(4):

    @behaviour(
        "aot", name=f"open-graphs-of-entries-{_part + 1}-of-16", capabilities=("fake_tensors",), sees=()
    )
    def _with_open_sizes(lab: Lab, part: int = _part) -> None:
        """The graph of each sixteenth operator of the database, traced with dynamic shapes, gives
        the results of the operator for other values.
        """
        _check_shard(lab, part * 4, 16, "symbolic")

    @behaviour(
        "aot",
        name=f"open-graphs-of-entries-in-place-{_part + 1}-of-4",
        capabilities=("fake_tensors",),
        sees=(),
    )
    def _in_place(lab: Lab, part: int = _part) -> None:
        """The graph of each fourth operator of the database that writes in place, traced with dynamic
        shapes, gives the results of the operator for other values.
        """
        _check_shard(lab, part, 4, "symbolic", in_place=True)
