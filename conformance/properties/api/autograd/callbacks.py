"""Behaviours of a running backward: callbacks at its end, the execution order of its nodes, and the current
node.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import Function

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


def _queue_callback(callback: Any) -> None:
    """Queue a callback for the end of the running backward."""
    torch.autograd.Variable._execution_engine.queue_callback(callback)


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    basis="parity",
    ground="No page describes callbacks that are queued in the engine",
)
def callbacks_at_the_end(lab: Lab) -> None:
    """A callback queued during a backward runs once, after all gradients are accumulated. The callback may
    queue other callbacks. An error of a callback propagates from the backward.
    """
    x = lab.put([1.0, 2.0], requires_grad=True)
    calls: list[Any] = []

    def record_last() -> None:
        calls.append("last")

    def record_gradient_and_queue_last() -> None:
        assert x.grad is not None
        calls.append(("first", x.grad.clone()))
        _queue_callback(record_last)

    y = x * 3
    handle = y.register_hook(lambda grad: _queue_callback(record_gradient_and_queue_last))
    y.sum().backward(retain_graph=True)
    lab.same("calls", calls)
    handle.remove()
    y.sum().backward(retain_graph=True)
    lab.same("calls after a second backward without the hook", len(calls))

    def raise_key_error() -> None:
        raise KeyError("in a callback")

    x.register_hook(lambda grad: _queue_callback(raise_key_error))
    lab.raises("a callback that fails", lambda: y.sum().backward(), KeyError, match="in a callback")
    lab.raises("outside of a backward", lambda: _queue_callback(record_last), match="backward")


@behaviour(
    "autograd",
    must_detect=("value",),
    basis="parity",
    ground="No page describes callbacks that are queued in the engine",
)
def callbacks_of_nested_backward(lab: Lab) -> None:
    """A callback runs at the end of the backward that queued the callback. Callbacks of an inner backward run
    before the outer backward continues.
    """
    log: list[str] = []

    def run_nested_backward(callback_depths: set[int]) -> None:
        class InnerFunction(Function):
            @staticmethod
            def forward(ctx: Any, t: torch.Tensor) -> Any:
                return t * 1

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                if 1 in callback_depths:
                    _queue_callback(lambda: log.append("inner"))
                return grad

        class OuterFunctionWithNestedBackward(Function):
            @staticmethod
            def forward(ctx: Any, t: torch.Tensor) -> Any:
                return t * 1

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                if 0 in callback_depths:
                    _queue_callback(lambda: log.append("outer"))
                inside = grad.detach().requires_grad_()
                with torch.enable_grad():
                    InnerFunction.apply(inside).sum().backward()
                log.append("after the inner one")
                return grad * inside.grad

        x = lab.put([1.0, 2.0], requires_grad=True)
        OuterFunctionWithNestedBackward.apply(x).sum().backward()
        with lab.documented():
            lab.expect(f"gradient with callbacks at {sorted(callback_depths)}", x.grad, [1.0, 1.0])

    for depths in ({0}, {1}, {0, 1}):
        log.clear()
        run_nested_backward(depths)
        lab.same(f"order with callbacks at {sorted(depths)}", log)


@behaviour(
    "autograd",
    must_detect=("value",),
    basis="parity",
    ground="No page states the order of the outer and the inner nodes",
)
def order_of_nested_backward(lab: Lab) -> None:
    """A backward that runs inside a node finishes before the remaining nodes of the outer backward run."""
    order: list[str] = []

    class RecordsThatBackwardRan(Function):
        @staticmethod
        def forward(ctx: Any, t: torch.Tensor) -> Any:
            return t * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            order.append("waits")
            return grad

    class RunsNestedBackward(Function):
        @staticmethod
        def forward(ctx: Any, t: torch.Tensor, depth: int) -> Any:
            ctx.depth = depth
            with torch.enable_grad():
                ctx.smaller = t.detach().requires_grad_() - 1
            return ctx.smaller.detach()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            order.append("nested")
            if ctx.depth:
                with torch.enable_grad():
                    RunsNestedBackward.apply(ctx.smaller, ctx.depth - 1).sum().backward()
            return grad, None

    first, second = lab.put([6.0], requires_grad=True), lab.put([5.0], requires_grad=True)
    (RecordsThatBackwardRan.apply(first) * RunsNestedBackward.apply(second, 5)).sum().backward()
    lab.same("order", order)
    with lab.documented():
        lab.same("gradients", [first.grad, second.grad])


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    basis="parity",
    ground="these functions are private and have no page",
)
def the_current_node(lab: Lab) -> None:
    """During a backward, a hook can query the execution order of the remaining nodes, and whether a given
    node will run.
    """
    x, y = lab.put([1.0, 2.0], requires_grad=True), lab.put([3.0, 4.0], requires_grad=True)
    a: Any = x * 2
    b: Any = y * 3
    c: Any = a + b
    total = c.sum()
    execution_flags: list[Any] = []
    orders: list[list[str]] = []

    def record_execution_flags(grad: Any) -> None:
        execution_flags.append(
            [torch._C._will_engine_execute_node(node) for node in (a.grad_fn, b.grad_fn, c.grad_fn)]
        )

    def record_execution_order(grad: Any) -> None:
        order = torch._C._current_graph_task_execution_order()  # type: ignore[attr-defined]
        orders.append([node.name() for node in order])

    handle = c.register_hook(record_execution_flags)
    total.backward(retain_graph=True)
    total.backward(inputs=[x], retain_graph=True)
    lab.same("which nodes will run in backward(), and in backward(inputs=[x])", execution_flags)
    handle.remove()
    handle = total.register_hook(record_execution_order)
    with torch.autograd.set_multithreading_enabled(False):
        total.backward(retain_graph=True)
    lab.same("the order", orders)
    handle.remove()
    lab.raises(
        "a query outside of a backward",
        lambda: torch._C._will_engine_execute_node(a.grad_fn),
        match="backward",
    )
    current = torch._C._current_autograd_node
    lab.holds("no node runs outside of a backward", current() is None)
    names: list[Any] = []
    a.grad_fn.register_prehook(lambda grads: names.append(current() is a.grad_fn))
    b.grad_fn.register_hook(lambda inputs, outputs: names.append(current() is b.grad_fn))
    total.backward()
    lab.same("the current node in hooks of two nodes", names)
    lab.holds("no node runs afterwards", current() is None)
    with lab.documented():
        lab.same("gradients", [x.grad, y.grad])
