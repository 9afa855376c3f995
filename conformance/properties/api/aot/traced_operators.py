"""Behaviours of graphs of the operators in torch's operator database. The graphs are traced with real values,
with fake tensors and with dynamic shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab, lab_work
from conformance.properties.api._opinfo_calls import (
    OpInfoCall,
    describe_leaves,
    first_sample_calls,
    trees_are_close,
)

SEED = 11


def trace_graph(function: Callable[..., Any], *inputs: Any, tracing_mode: str) -> Callable[..., Any]:
    """Return the graph of a function, traced on inputs. ``tracing_mode`` is ``real``, ``fake`` or
    ``symbolic`` (dynamic shapes). Tests replace this function by a faulty one.
    """
    graph: Callable[..., Any] = torch_testing_internals.graph_of_function(
        function, *inputs, sizes=tracing_mode
    )
    return graph


def _function_of_tensors(call: OpInfoCall, in_place: bool) -> Callable[..., Any]:
    """Return a function of tensors that makes the call with these tensors in place of the call's own tensors.

    If ``in_place`` is set, the function calls the in-place variant on a copy of the first argument.
    """
    target = call.in_place if in_place else call.function
    assert target is not None

    def call_with_tensors(*tensors: Any) -> Any:
        renewed_call = call.with_replaced_tensors(tensors)
        first = renewed_call.arguments[0].clone() if in_place else renewed_call.arguments[0]
        return target(first, *renewed_call.arguments[1:], **renewed_call.options)

    return call_with_tensors


def _call_with_seed(function: Callable[..., Any], call: OpInfoCall) -> Any:
    """Set torch's seed to a fixed number, then call a function with copies of the call's tensors."""
    torch.manual_seed(SEED)
    return function(*call.with_copied_tensors().tensors())


def _call_succeeds(lab: Lab, function: Callable[..., Any], call: OpInfoCall) -> bool:
    try:
        # Keep a reference to the result until the device is synchronized, so that a lazy device computes it.
        result = _call_with_seed(function, call)
        if lab.on_target:
            lab.target.synchronize()
        del result
    except Exception:
        return False
    return True


def _graph_agrees(
    lab: Lab, call: OpInfoCall, tracing_mode: str, in_place: bool, trace: Callable[..., Any]
) -> bool | None:
    """Trace a call, and return whether graph and function give the same results for new values.

    Return True if the call fails without tracing, and None if the call cannot be traced.
    """
    function = _function_of_tensors(call, in_place)
    if not _call_succeeds(lab, function, call):
        return True  # other properties check that the device has the operator
    with torch_testing_internals.silence_warnings():
        try:
            graph = trace(function, *call.with_copied_tensors().tensors(), tracing_mode=tracing_mode)
        except Exception:
            return None
        new_call = call.with_random_values(lab)
        if not _call_succeeds(lab, function, new_call):
            new_call = call  # the operator fails for numbers between 0 and 1
        expected = _call_with_seed(function, new_call)
        result = _call_with_seed(graph, new_call)
    if "empty" in call.name or torch_testing_internals.draws_random_numbers(graph):
        return describe_leaves(result) == describe_leaves(expected)
    return describe_leaves(result) == describe_leaves(expected) and trees_are_close(result, expected)


def _graph_agrees_or_cpu_fails_too(lab: Lab, call: OpInfoCall, tracing_mode: str, in_place: bool) -> bool:
    """Return True if the graph of the call on the target is correct, or if the graph of the same call on the
    CPU is wrong.

    If the target is the CPU, return True for a call that cannot be traced, and False for wrong results.
    """
    agrees = _graph_agrees(lab, call, tracing_mode, in_place, trace_graph)
    if lab.target.is_cpu:
        return agrees is not False
    return agrees or _graph_agrees_on_cpu(lab, call, tracing_mode, in_place) is not True


def _graph_agrees_on_cpu(lab: Lab, call: OpInfoCall, tracing_mode: str, in_place: bool) -> bool | None:
    cpu_call = call.with_replaced_tensors(
        [t.detach().cpu().requires_grad_(t.requires_grad) for t in call.tensors()]
    )
    cpu_lab = Lab(lab.target, str(lab.dtype).removeprefix("torch."), SEED, on_target=False)
    with lab_work():
        return _graph_agrees(
            cpu_lab,
            cpu_call.on_device("cpu"),
            tracing_mode,
            in_place,
            torch_testing_internals.graph_of_function,
        )


def _check_graphs_of_shard(
    lab: Lab, shard: int, shard_count: int, tracing_mode: str, *, in_place: bool = False
) -> None:
    for call in first_sample_calls(lab, shard, shard_count):
        if in_place and (call.in_place is None or call.name == "resize_"):
            continue  # a fake tensor with dynamic shapes cannot be resized
        if call.tensors() and all(tensor.layout is torch.strided for tensor in call.tensors()):
            name = f"{call.name}{' in place' if in_place else ''}, {tracing_mode}"
            agrees = not lab.on_target or _graph_agrees_or_cpu_fails_too(lab, call, tracing_mode, in_place)
            lab.holds(f"the graph of {name} and the call give the same results", agrees)


for _part in range(8):

    @behaviour(
        "aot",
        name=f"graphs-of-entries-{_part + 1}-of-8",
        must_detect=(),
        basis="consistency",
        ground="The traced graph of a call and the call itself must agree on the device",
    )
    def _with_values(lab: Lab, part: int = _part) -> None:
        """For an eighth of the operators in torch's operator database, a graph that is traced with real
        values gives the results of the operator for values other than the traced values.
        """
        _check_graphs_of_shard(lab, part, 8, "real")

    @behaviour(
        "aot",
        name=f"fake-graphs-of-entries-{_part + 1}-of-8",
        capabilities=("fake_tensors",),
        must_detect=(),
        basis="consistency",
        ground="The traced graph of a call and the call itself must agree on the device",
    )
    def _without_values(lab: Lab, part: int = _part) -> None:
        """For an eighth of the operators in torch's operator database, a graph that is traced with fake
        tensors gives the results of the operator for values other than the traced values.
        """
        _check_graphs_of_shard(lab, part, 8, "fake")


for _part in range(4):

    @behaviour(
        "aot",
        name=f"open-graphs-of-entries-{_part + 1}-of-16",
        capabilities=("fake_tensors",),
        must_detect=(),
        basis="consistency",
        ground="The traced graph of a call and the call itself must agree on the device",
    )
    def _with_open_sizes(lab: Lab, part: int = _part) -> None:
        """For a sixteenth of the operators in torch's operator database, a graph that is traced with dynamic
        shapes gives the results of the operator for values other than the traced values.
        """
        _check_graphs_of_shard(lab, part * 4, 16, "symbolic")

    @behaviour(
        "aot",
        name=f"open-graphs-of-entries-in-place-{_part + 1}-of-4",
        capabilities=("fake_tensors",),
        must_detect=(),
        basis="consistency",
        ground="The traced graph of a call and the call itself must agree on the device",
    )
    def _in_place(lab: Lab, part: int = _part) -> None:
        """For a fourth of the in-place operators in torch's operator database, a graph that is traced with
        dynamic shapes gives the results of the operator for values other than the traced values.
        """
        _check_graphs_of_shard(lab, part, 4, "symbolic", in_place=True)
