"""Behaviours of the profiler's records of operators: names, counts, shapes and user-defined ranges."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.autograd.profiler import record_function
from torch.profiler import ProfilerActivity, profile

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


def _operator_counts(profiled: Any, *names: str) -> list[int]:
    """Return the number of profiled calls of each named operator."""
    counts = {event.key: event.count for event in profiled.key_averages()}
    return [counts.get(name, 0) for name in names]


@behaviour(
    "autograd",
    must_detect=("value",),
    page="profiler.html",
    ground="The examples list the operators with their numbers of calls",
)
def profiles_of_operators(lab: Lab) -> None:
    """A profile lists each operator that the user calls, in forward and backward. Profiling changes no
    result.
    """
    x, y = lab.integers(3, 4, requires_grad=True), lab.integers(4, 3, requires_grad=True)
    names = ("aten::mm", "aten::mul", "aten::sum")
    with profile(activities=[ProfilerActivity.CPU]) as forward_profile:
        for _ in range(3):
            out = torch.mm(x, y) * 2
        loss = out.sum()
    # A device may also call these operators inside other operators, so that the count may be larger than
    # expected.
    for name, count, expected in zip(
        names, _operator_counts(forward_profile, *names), (3, 3, 1), strict=True
    ):
        lab.holds(f"each call of {name} is listed", count >= expected)
    with lab.consistent("results with and without the profiler must agree"):
        lab.same("value", loss.detach())
    with profile(activities=[ProfilerActivity.CPU]) as both:
        product_sum = torch.mm(x, y).sum()
        product_sum.backward()
    nodes = [event for event in both.events() if event.name == "MmBackward0"]
    forward = [event for event in both.events() if event.name == "aten::mm" and event.sequence_nr >= 0]
    with lab.parity("No page gives the exact number of such entries"):
        lab.same("nodes of the backward", len(nodes))
    numbers = {event.sequence_nr for event in nodes}
    with lab.parity("No page describes sequence numbers"):
        lab.holds(
            "backward nodes have sequence numbers of the forward", numbers <= {e.sequence_nr for e in forward}
        )
    with lab.consistent("gradients with and without the profiler must agree"):
        lab.same("gradients", [x.grad, y.grad])
    with profile(activities=[ProfilerActivity.CPU]) as nothing:
        pass
    lab.same("a profile of nothing", _operator_counts(nothing, *names))
    lab.same("afterwards", torch.mm(x, y).detach())
    table = forward_profile.key_averages().table(sort_by="cpu_time_total", row_limit=5)
    with lab.parity("No page fixes the headings of the table"):
        lab.holds("a profile is shown as a table", "Name" in table and "CPU total" in table)


@behaviour(
    "autograd", must_detect=("value",), page="generated/torch.autograd.profiler.profile.key_averages.html"
)
def shapes_in_profiles(lab: Lab) -> None:
    """With ``record_shapes``, each operator call is listed with the shapes of its inputs, and averages can be
    grouped by these shapes.
    """
    layers = lab.to(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)))
    with torch.no_grad():
        for parameter in layers.parameters():
            parameter.fill_(1)
    x = lab.integers(5, 4)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
        out = layers(layers(x)[:, :1].expand(5, 4))
    shapes = [event.input_shapes for event in profiled.events() if event.name == "aten::linear"]
    groups = {
        str(event.input_shapes): event.count
        for event in profiled.key_averages(group_by_input_shape=True)
        if event.key == "aten::linear"
    }
    # A device may also call this operator inside other operators, so that there may be more entries.
    for expected in ([[5, 4], [3, 4], [3]], [[5, 3], [2, 3], [2]]):
        lab.holds(f"both calls with shapes {expected} are listed", shapes.count(expected) >= 2)
        lab.holds(f"both calls with shapes {expected} are in a group", groups.get(str(expected), 0) >= 2)
    with lab.parity("No page fixes how often a device lists an operator"):
        lab.same("shapes of each call", shapes)
        lab.same("groups", sorted(groups.items()))
        lab.same("without groups", _operator_counts(profiled, "aten::linear"))
    lab.same("value", out.detach())


@behaviour("autograd", must_detect=("value",), page="generated/torch.autograd.profiler.record_function.html")
def marked_ranges_in_profiles(lab: Lab) -> None:
    """``record_function`` marks a named range, as a context or a decorator. Ranges may be nested or on other
    threads. Without a profiler, ``record_function`` has no effect.
    """
    x = lab.integers(3, requires_grad=True)

    @record_function("decorated")
    def double_in_marked_range(t: torch.Tensor) -> torch.Tensor:
        return t * 2

    def run_marked_ranges() -> torch.Tensor:
        with record_function("outer"):
            out = x * 3
            for _ in range(2):
                with record_function("inner"):
                    out = double_in_marked_range(out)
        return out

    unprofiled = run_marked_ranges()
    with profile(activities=[ProfilerActivity.CPU]) as trace:
        profiled = run_marked_ranges()
        profiled.sum().backward()
    lab.same("values", [unprofiled.detach(), profiled.detach(), x.grad])
    lab.same("counts", _operator_counts(trace, "outer", "inner", "decorated"))
    with lab.parity("No page describes the parent attribute of events"):
        parents = {
            event.name: event.cpu_parent.name
            for event in trace.events()
            if event.name in ("inner", "decorated")
        }
        lab.same("parents of the ranges", parents)
    with torch.autograd.profiler.profile() as older:
        crossing = record_function("crossing")
        crossing.__enter__()
        with record_function("started later"):
            worker = threading.Thread(target=run_marked_ranges)
            worker.start()
            worker.join(60)
            crossing.__exit__(None, None, None)
        doubled = x * 2
    with lab.parity("No page says how ranges that cross are recorded"):
        lab.same(
            "ranges that cross, in the older profile", _operator_counts(older, "crossing", "started later")
        )
    lab.same("value in the older profile", doubled.detach())
    with lab.parity("No page says what printing a profile shows"):
        lab.holds("str of a profile is its table", str(older) == older.table())
