"""Behaviours of the nodes of the graph: hooks on nodes, edges between nodes, and gradients with respect to
edges.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour("autograd", must_detect=("value",), page="generated/torch.autograd.graph.Node.register_hook.html")
def hooks_of_nodes(lab: Lab) -> None:
    """A hook of a node receives the gradients of the node's inputs and outputs, and may replace the gradients
    of the inputs. A pre-hook may replace the gradients of the outputs.
    """
    x, y = lab.integers(3, requires_grad=True), lab.integers(3, requires_grad=True)
    hook_gradients: list[Any] = []
    z: Any = x * y
    handle = z.grad_fn.register_hook(
        lambda inputs, outputs: hook_gradients.append(
            [[t.clone() for t in inputs], [t.clone() for t in outputs]]
        )
    )
    z.sum().backward(retain_graph=True)
    lab.same("gradients that a hook receives", hook_gradients)
    handle.remove()
    x.grad = y.grad = None
    change = z.grad_fn.register_hook(lambda inputs, outputs: tuple(t * 2 for t in inputs))
    before = z.grad_fn.register_prehook(lambda outputs: (outputs[0] + 1,))
    z.sum().backward(retain_graph=True)
    lab.same("gradients with both", (x.grad, y.grad))
    change.remove()
    before.remove()
    x.grad = y.grad = None
    z.sum().backward()
    lab.same("gradients without", (x.grad, y.grad, len(hook_gradients)))
    order: list[str] = []
    w: Any = x * 2
    w.register_hook(lambda grad: order.append("tensor"))
    w.grad_fn.register_prehook(lambda grads: order.append("before"))
    w.grad_fn.register_hook(lambda inputs, outputs: order.append("after"))
    w.sum().backward()
    lab.same("order", order)


@behaviour(
    "autograd", must_detect=("value",), page="generated/torch.autograd.graph.Node.register_prehook.html"
)
def node_hooks_with_several_outputs(lab: Lab) -> None:
    """The pre-hook of a node with several outputs receives one gradient for each output. For an unused output
    the gradient is None or zeros.
    """
    x = lab.integers(4, 3, requires_grad=True)
    hook_gradients: list[Any] = []
    first, second = x.unbind(0)[:2]
    node: Any = first.grad_fn
    with lab.parity("No page says that all results of a call have one node object"):
        lab.holds("outputs of one call have one node", second.grad_fn is node)
    with lab.parity("No page describes this attribute"):
        lab.same("places of outputs", [first.output_nr, second.output_nr])

    def record_gradients(grads: Any) -> None:
        hook_gradients.append([None if g is None else g.clone() for g in grads])

    node.register_prehook(record_gradients)
    (first * 2 + second * 3).sum().backward()
    lab.same("number of gradients", len(hook_gradients[0]))
    lab.same("gradients of the used outputs", hook_gradients[0][:2])
    lab.same("gradient", x.grad)


@behaviour("autograd", must_detect=("value", "error"), page="autograd.html")
def gradients_to_edges(lab: Lab) -> None:
    """``grad`` and ``backward`` accept edges of the graph in place of tensors. If the tensor of an edge is
    later changed in place, the edge still refers to the tensor before the change.
    """
    x = lab.integers(3, requires_grad=True)
    h = x * 2
    edge = get_gradient_edge(h)
    lab.holds(
        "an edge has a node and an output number", isinstance(edge, GradientEdge) and edge.output_nr == 0
    )
    with lab.parity("No page says that the edge and the tensor return the same node object"):
        lab.holds("the edge and the tensor have the same node", edge.node is h.grad_fn)
    out = (h * h).sum()
    by_tensor = torch.autograd.grad(out, h, retain_graph=True)
    by_edge = torch.autograd.grad(out, edge, retain_graph=True)
    lab.same("gradient by tensor and edge", (by_tensor, by_edge))
    h = x * 2
    edge = get_gradient_edge(h)
    h.mul_(3)
    out = h.sum()
    lab.expect(
        "gradient before a change in place", torch.autograd.grad(out, edge, retain_graph=True)[0], [3.0] * 3
    )
    lab.expect(
        "gradient after a change in place", torch.autograd.grad(out, h, retain_graph=True)[0], [1.0] * 3
    )
    lab.same("the leaf and an edge", torch.autograd.grad(out, (x, edge)))  # type: ignore[arg-type]
    leaf = get_gradient_edge(x)
    y = (x * 5).sum()
    y.backward(inputs=(leaf,))
    lab.expect("accumulated through the leaf's edge", x.grad, [5.0, 5.0, 5.0])
    z = x * 4
    torch.autograd.backward(get_gradient_edge(z), lab.put([1.0, 2.0, 3.0]))
    lab.same("backward from an edge", x.grad)
    gradients = torch.autograd.grad(get_gradient_edge(x * 4), x, lab.put([1.0, 1.0, 2.0]))
    lab.expect("grad from an edge", gradients[0], [4.0, 4.0, 8.0])
    parts = (x * 2).unbind(0)
    edges = [get_gradient_edge(part) for part in parts]
    total = parts[0] * 2 + parts[1] * 3
    lab.same("edges of several outputs", torch.autograd.grad(total, edges[:2]))
    with lab.parity("No page says that an edge of such a tensor is refused"):
        lab.raises(
            "an edge of a tensor that does not require grad",
            lambda: get_gradient_edge(lab.integers(2)),
            match="require",
        )
    unused = get_gradient_edge(x * 9)
    gradients = torch.autograd.grad((x * 2).sum(), (unused, x), allow_unused=True)  # type: ignore[arg-type]
    lab.holds("the gradient of an unused edge is None", gradients[0] is None)
    with lab.parity("No page says that zeros for an edge are refused"):
        lab.raises(
            "zeros for an edge",
            lambda: torch.autograd.grad((x * 2).sum(), (unused,), materialize_grads=True),
            match="Edge",
        )


@behaviour(
    "autograd",
    must_detect=("value",),
    page="https://docs.pytorch.org/tutorials/beginner/introyt/autogradyt_tutorial.html",
    ground="The tutorial walks the graph by next_functions; the reference page has no text",
)
def walking_the_graph(lab: Lab) -> None:
    """``next_functions`` of nodes lead from a result to the gradient accumulators of the leaves. Nodes are
    instances of ``torch.autograd.graph.Node`` and have names and metadata.
    """
    x, y = lab.integers(2, requires_grad=True), lab.integers(2, requires_grad=True)
    z: Any = (x * y + x).exp()
    names = []
    nodes = []
    queue = [z.grad_fn]
    leaves = []
    while queue:
        node = queue.pop(0)
        names.append(node.name())
        nodes.append(node)
        queue += [after for after, _ in node.next_functions if after is not None]
        if hasattr(node, "variable"):
            leaves.append("x" if node.variable is x else "y" if node.variable is y else "?")
    lab.holds("each node is an instance of Node", all(isinstance(node, Node) for node in nodes))
    with lab.parity("No page lists the names of nodes"):
        lab.same("names", names)
    with lab.parity("No page describes the attribute of accumulators that holds the leaf"):
        lab.same("leaves", sorted(leaves))
    with lab.parity("No page describes the numbers next to the nodes"):
        lab.same("places", [input_nr for _, input_nr in z.grad_fn.next_functions])
    lab.holds("a leaf has no node", x.grad_fn is None and x.is_leaf and not z.is_leaf)
    with lab.parity("No page says what represents an input that does not require grad"):
        lab.holds("a constant has no next node", (x + lab.integers(2)).grad_fn.next_functions[1][0] is None)  # type: ignore[union-attr]
    node = z.grad_fn
    node.metadata["note"] = 5
    with lab.consistent("The dictionary must return what was stored in it"):
        lab.same("metadata", z.grad_fn.metadata["note"])
    with lab.parity("No page says that reading the node twice returns the same object"):
        lab.holds("two reads return the same node object", z.grad_fn is node)
    with (
        torch.no_grad(),
        lab.parity("No page says that reading the node under no_grad returns the same object"),
    ):
        lab.holds("a read under no_grad returns the same node", (z.grad_fn is node))
    lab.close("gradient at the end", torch.autograd.grad(z.sum(), (x, y)), roundings=64)


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    basis="parity",
    ground="The functions are private; no page describes them",
)
def the_node_that_runs(lab: Lab) -> None:
    """During a hook, the running graph task (the current backward) has an id. Outside of a backward, this id
    does not exist, and the execution order cannot be queried.
    """
    identity = torch._C._current_graph_task_id
    x = lab.integers(2, requires_grad=True)
    tasks: list[int] = []
    y = x * 2
    y.register_hook(lambda grad: tasks.append(identity()))
    z = y * 3
    z.register_hook(lambda grad: tasks.append(identity()))
    lab.same("outside", identity())
    z.sum().backward()
    lab.holds("all hooks of one backward see one graph task", len(set(tasks)) == 1 and tasks[0] != -1)
    lab.same("outside again", identity())
    with lab.documented():
        lab.expect("gradient", x.grad, [6.0, 6.0])
    (x * 2).sum().backward()
    w = x * 2
    w.register_hook(lambda grad: tasks.append(identity()))
    w.sum().backward()
    lab.holds("the next backward has a different graph task", tasks[-1] != tasks[0])
    lab.raises("the order outside", lambda: torch._C._current_graph_task_execution_order(), match="backward")  # type: ignore[attr-defined]


@behaviour("autograd", must_detect=("value",))
def shared_nodes_add_up(lab: Lab) -> None:
    """If paths of a graph meet at a node, their gradients are added. The addition does not change a gradient
    tensor that the caller or a hook holds.
    """
    x = lab.integers(3, requires_grad=True)
    hook_gradients: list[torch.Tensor] = []
    a, b = x * 1, x * 1
    a.register_hook(lambda grad: hook_gradients.append(grad))
    b.register_hook(lambda grad: hook_gradients.append(grad))
    seed_gradient = lab.put([1.0, 2.0, 3.0])
    torch.autograd.backward(
        (a, b, a + b, a * 2), (seed_gradient, seed_gradient, seed_gradient, seed_gradient)
    )
    lab.expect("the passed gradient is unchanged", seed_gradient, [1.0, 2.0, 3.0])
    lab.expect("sum", x.grad, [6.0, 12.0, 18.0])
    with lab.consistent("A gradient that a hook holds must keep its value during the backward"):
        lab.same("gradients that the hooks hold", hook_gradients)
    x.grad = None
    diamond = x * 2
    upper, lower = diamond + 1, diamond * 3
    for _ in range(4):
        upper, lower = upper + lower, upper - lower
    (upper * 2 + lower).sum().backward()
    lab.same("a diamond", x.grad)
    strided = lab.integers(3, 2, requires_grad=True)
    out = strided.t().contiguous().sum() + strided.expand(4, 3, 2).sum() + strided.sum(0).sum()
    out.backward()
    lab.expect("of expanded gradients", strided.grad, [[6.0, 6.0]] * 3)
