"""Behaviours of the lifetimes of graphs: reference cycles, hooks, views changed in place and metadata of
nodes.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import torch
from torch.autograd.function import Function

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.process_control.garbage_collector import disable_garbage_collector


class _WeakReferenceableObject:
    """An object whose lifetime a behaviour observes through a weak reference."""


class _IdentityFunction(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


@behaviour(
    "autograd",
    must_detect=("value",),
    basis="parity",
    ground="No page says when reference cycles through graphs are freed",
)
@disable_garbage_collector()  # no automatic garbage collection: the program calls gc.collect itself
def cycles_within_graphs(lab: Lab) -> None:
    """The garbage collector frees a reference cycle that leads through a graph only when the graph is
    unreachable. The garbage collector does not damage a graph that is in use.
    """

    def graph_with_list_cycle() -> torch.Tensor:
        x = lab.put([[1.0, 2.0]], requires_grad=True)
        middle = x.view(2)
        cycle: list[Any] = [middle]
        cycle.append(cycle)
        leaves.append(x)
        return middle * 2

    leaves: list[torch.Tensor] = []
    out = graph_with_list_cycle()
    lab.collect()
    out.backward(lab.put([1.0, 3.0]))
    with lab.documented():
        lab.expect("a graph whose middle was in a cycle", leaves[0].grad, [[2.0, 6.0]])

    class StoresObjectsInContext(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, things: dict[str, Any]) -> Any:
            ctx.things = things
            result = x * 1
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (result,) = ctx.saved_tensors
            return grad * result * ctx.things["out"], None

    def weak_reference_to_object_in_context(backward: bool) -> Any:
        x = lab.put([3.0], requires_grad=True)
        things: dict[str, Any] = {"token": _WeakReferenceableObject()}
        out = StoresObjectsInContext.apply(x, things)
        things["out"] = out
        if backward:
            out.sum().backward()
            with lab.documented():
                lab.expect("gradient through a context that holds its result", x.grad, [9.0])
        return weakref.ref(things["token"])

    for backward in (False, True):
        watch = weak_reference_to_object_in_context(backward)
        lab.collect()
        lab.holds(f"a context that holds its result is freed, backward {backward}", lab.gone(watch))

    for name, custom in {"a Function": True, "an operator": False}.items():
        for on_tensor in (True, False):
            calls: list[int] = []

            def graph_with_hook_cycle(
                custom: bool, on_tensor: bool, calls: list[int]
            ) -> tuple[torch.Tensor, Any]:
                x = lab.put([1.0], requires_grad=True)
                middle = _IdentityFunction.apply(x) if custom else x.clone()
                node: Any = middle.grad_fn
                token = _WeakReferenceableObject()

                def count_call(*arguments: Any, node: Any = node, token: Any = token) -> None:
                    calls.append(1)

                (middle if on_tensor else node).register_hook(count_call)
                return middle * 2, weakref.ref(token)

            end, watch = graph_with_hook_cycle(custom, on_tensor, calls)
            label = f"a hook on {'a result' if on_tensor else 'the node'} of {name}"
            end.backward(retain_graph=True)
            gc.collect(0)
            end.backward(retain_graph=True)
            with lab.documented():
                lab.same(f"calls of {label} that holds the node", len(calls))
            lab.holds(f"{label} lives as long as the graph", watch() is not None)
            del end
            lab.collect()
            lab.holds(f"{label} is freed with the graph", lab.gone(watch))


@behaviour(
    "autograd",
    must_detect=("value",),
    basis="parity",
    ground="No page says when the graph of a base is freed",
)
@disable_garbage_collector()
def graphs_of_changed_views_are_freed(lab: Lab) -> None:
    """If a view is changed in place, the graph of its base is retained only as long as a result needs this
    graph.
    """
    x = lab.put([[1.0, -2.0], [3.0, -4.0]], requires_grad=True)

    def weak_reference_to_object_in_view_graph() -> Any:
        token = _WeakReferenceableObject()
        copied: Any = x.clone()
        copied.grad_fn.register_hook(lambda inputs, outputs, token=token: None)
        view = copied.view(4)
        torch.relu_(view)
        (view * 2).sum().backward()
        return weakref.ref(token)

    lab.holds("the graph of a base is freed", lab.gone(weak_reference_to_object_in_view_graph()))
    with lab.documented():
        lab.expect("gradient", x.grad, [[2.0, 0.0], [2.0, 0.0]])
    x.grad = None
    part = x[0].clone().view(-1)
    part.relu_()
    result = part.clone()
    del part
    lab.collect()
    result.sum().backward()
    with lab.documented():
        lab.expect("gradient of a changed view that only a result retains", x.grad, [[1.0, 0.0], [0.0, 0.0]])
    parent = lab.put([1.0, 2.0], requires_grad=True)
    base: Any = parent * 1
    node = weakref.ref(base)
    view = base.detach()
    del base
    lab.holds("a detached tensor does not retain its source", lab.gone(node))
    with lab.documented():
        lab.expect("its value", view, [1.0, 2.0])

    class RunsGarbageCollectionWhenFreed(Function):
        def __del__(self) -> None:
            gc.collect()

        @staticmethod
        def forward(ctx: Any, t: torch.Tensor) -> Any:
            return t * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    parent.grad = None
    for _ in range(3):
        RunsGarbageCollectionWhenFreed.apply(parent).sum().backward()
    with lab.documented():
        lab.expect("garbage is collected while a node is freed", parent.grad, [6.0, 6.0])


@behaviour(
    "autograd",
    capabilities=("double_backward",),
    must_detect=("value",),
    page="generated/torch.autograd.graph.Node.metadata.html",
    basis="parity",
    ground="No page says how long the metadata of a node lives",
)
@disable_garbage_collector()
def metadata_of_nodes_is_freed(lab: Lab) -> None:
    """The metadata of a node lives as long as the node. This also holds if anomaly detection links the node
    to the node that created it.
    """
    x = lab.put([1.0, 2.0], requires_grad=True)

    def derivative_and_weak_reference_to_metadata(backward: bool) -> tuple[Any, Any]:
        out: Any = x * x * x
        token = _WeakReferenceableObject()
        out.grad_fn.metadata["token"] = token
        (first,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        if backward:
            with lab.documented():
                lab.same("second derivative", torch.autograd.grad(first.sum(), x)[0])
        return first, weakref.ref(token)

    for anomaly in (False, True):
        with torch.autograd.set_detect_anomaly(anomaly):
            first, watch = derivative_and_weak_reference_to_metadata(False)
            with lab.documented():
                lab.same(f"first derivative, anomaly {anomaly}", first.detach())
            del first
            lab.collect()
            lab.holds(f"the token is freed, anomaly {anomaly}", lab.gone(watch))
            first, watch = derivative_and_weak_reference_to_metadata(True)
            del first
            lab.collect()
            lab.holds(f"the token is freed after a backward, anomaly {anomaly}", lab.gone(watch))
    result: Any = _IdentityFunction.apply(x * 2)
    node = result.grad_fn
    del result
    lab.collect()
    node.metadata["note"] = 1
    with lab.consistent("The dictionary must return the value that was stored"):
        lab.same("metadata of a node whose result was freed", node.metadata["note"])
