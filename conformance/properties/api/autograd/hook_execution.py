"""Behaviours of the hooks and nodes that a backward runs: hooks of gradient accumulators, hooks of the inputs
of ``torch.autograd.grad``, and retained gradients.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import Function

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour("autograd", must_detect=("value",))
def hooks_of_accumulators(lab: Lab) -> None:
    """Hooks of a leaf's gradient accumulator (its AccumulateGrad node) receive the gradient that the leaf's
    tensor hooks returned. Accumulator hooks run only if the backward accumulates into the leaf.
    """
    x = lab.put([1.0, 2.0], requires_grad=True)
    copied: Any = x.clone()
    accumulator = copied.grad_fn.next_functions[0][0]
    observed: list[Any] = []
    input_counts: list[int] = []

    def record_gradients_after(inputs: Any, outputs: Any) -> None:
        observed.append(("after", [g.clone() for g in outputs]))
        input_counts.append(len(inputs))

    accumulator.register_prehook(lambda grads: observed.append(("before", [g.clone() for g in grads])))
    accumulator.register_hook(record_gradients_after)
    x.register_hook(lambda grad: grad * 2)
    copied.backward(lab.put([3.0, 4.0]))
    lab.same("gradients that the accumulator's hooks received", observed)
    with lab.parity("No page says how many inputs an accumulator has"):
        lab.same("numbers of the accumulator's inputs", input_counts)
    lab.expect("gradient", x.grad, [6.0, 8.0])

    first, second, third = (lab.put([1.0], requires_grad=True) for _ in range(3))
    calls: list[str] = []
    first.register_hook(lambda grad: calls.append("first"))
    third_copy: Any = third.clone()
    third_copy.grad_fn.next_functions[0][0].register_hook(lambda inputs, outputs: calls.append("third"))
    (first + second + third_copy).sum().backward(inputs=[second])
    lab.same("hooks of leaves that are not among the inputs", calls)
    lab.expect("gradient of the leaf among the inputs", second.grad, [1.0])
    lab.holds(
        "leaves that are not among the inputs have no gradient", first.grad is None and third.grad is None
    )


@behaviour("autograd", must_detect=("value",))
def hooks_of_inputs_of_grad(lab: Lab) -> None:
    """``torch.autograd.grad`` runs the tensor hooks of its inputs. ``grad`` does not run the hooks of the
    nodes that created these inputs, or of nodes nearer to the leaves. ``backward`` with ``inputs=``
    accumulates gradients and therefore runs the hooks of gradient accumulators.
    """
    a = lab.put([1.0, 2.0], requires_grad=True)
    b: Any = a * 2
    c = b * 3
    calls: list[str] = []
    a.register_hook(lambda grad: calls.append("tensor a"))
    b.register_hook(lambda grad: calls.append("tensor b"))
    accumulator = b.grad_fn.next_functions[0][0]
    for name, node in {"accumulator": accumulator, "node of b": b.grad_fn}.items():
        node.register_prehook(lambda grads, name=name: calls.append(f"before {name}"))
        node.register_hook(lambda inputs, outputs, name=name: calls.append(f"after {name}"))
    for name, run in {
        "grad to b": lambda: torch.autograd.grad(c.sum(), b, retain_graph=True),
        "grad to a and b": lambda: torch.autograd.grad(c.sum(), (a, b), retain_graph=True),
        "grad to a": lambda: torch.autograd.grad(c.sum(), a, retain_graph=True),
        "backward into b": lambda: c.sum().backward(inputs=b, retain_graph=True),
        "backward into a": lambda: c.sum().backward(inputs=a, retain_graph=True),
    }.items():
        calls.clear()
        lab.same(f"results of {name}", run())
        lab.same(f"tensor hooks run by {name}", [call for call in calls if call.startswith("tensor")])
        with lab.parity(
            "The note leaves open which node hooks run for inputs, and warns against relying on them"
        ):
            lab.same(f"hooks run by {name}", calls)
    lab.expect("gradient of a", a.grad, [6.0, 6.0])


@behaviour("autograd", must_detect=("value",), page="generated/torch.autograd.Function.backward.html")
def hooks_beside_missing_gradients(lab: Lab) -> None:
    """Hooks on results of an ``autograd.Function`` are called with gradients and never with None, also if the
    backward returns None for an input that does not require grad.
    """
    needs: list[Any] = []

    class CopiesOfTwoInputs(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
            needs.append(ctx.needs_input_grad)
            return x * 1, y * 1

        @staticmethod
        def backward(ctx: Any, grad_x: Any, grad_y: Any) -> Any:
            return grad_x, None

    x, y = lab.put([1.0, 2.0], requires_grad=True), lab.put([3.0, 4.0])
    first, second = CopiesOfTwoInputs.apply(x, y)
    lab.same("which inputs need gradients", needs)
    hook_gradients: list[Any] = []
    first.register_hook(lambda grad: hook_gradients.append(("left", grad.clone())))
    second.register_hook(lambda grad: hook_gradients.append(("right", grad.clone())))
    (first + second * 2).sum().backward()
    lab.same("hooks", sorted(name for name, _ in hook_gradients))
    lab.same("gradients seen", dict(hook_gradients))
    lab.expect("gradient", x.grad, [1.0, 1.0])
    lab.holds("an input that does not require grad has no gradient", y.grad is None)


@behaviour(
    "autograd",
    must_detect=("value",),
    page="generated/torch.Tensor.retain_grad.html",
    ground="The page promises the tensor's gradient, and does not mention in-place writes",
)
def retained_gradients_of_changed_tensors(lab: Lab) -> None:
    """After in-place writes, a tensor with ``retain_grad`` has the gradient of its latest version. This also
    holds if an operator returned the tensor as one of several results, and if the tensor is changed through a
    view.
    """
    x = lab.put([2.0, 3.0], requires_grad=True)
    b: Any = x.clone()
    b.retain_grad()
    b.mul_(2)
    b.retain_grad()
    b.mul_(5)
    (b * 7).sum().backward()
    lab.expect("changed twice", b.grad, [7.0, 7.0])
    lab.expect("its leaf", x.grad, [70.0, 70.0])

    class DoubleAndTriple(Function):
        @staticmethod
        def forward(ctx: Any, t: torch.Tensor) -> Any:
            return t * 2, t * 3

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            return first * 2 + second * 3

    x.grad = None
    doubled, tripled = DoubleAndTriple.apply(x)
    doubled.retain_grad()
    tripled.retain_grad()
    doubled.mul_(2)
    (doubled + tripled * 5).sum().backward()
    lab.same("several results", [doubled.grad, tripled.grad, x.grad])
    x.grad = None
    variance, mean = torch.var_mean(x, dim=0)
    variance.retain_grad()
    mean.retain_grad()
    variance.mul_(2)
    (variance + mean).backward()
    lab.same("several results of an operator", [variance.grad, mean.grad])

    x.grad = None
    base: Any = x.clone()
    base.retain_grad()
    view = base[:1]
    view.mul_(3)
    view.retain_grad()
    (base * lab.put([5.0, 6.0])).sum().backward()
    lab.expect("a base changed through a view", base.grad, [5.0, 6.0])
    lab.expect("the leaf of that base", x.grad, [15.0, 6.0])


@behaviour(
    "autograd", must_detect=("value",), page="generated/torch.Tensor.register_post_accumulate_grad_hook.html"
)
def one_hook_for_several_leaves(lab: Lab) -> None:
    """A post-accumulate hook may be registered on several leaves. Each backward calls the hook once per leaf
    and passes that leaf.
    """
    first, second = lab.put([1.0, 2.0], requires_grad=True), lab.put([3.0, 4.0], requires_grad=True)
    calls: list[Any] = []

    def record_and_scale_gradient(leaf: torch.Tensor) -> None:
        assert leaf.grad is not None
        calls.append(("first" if leaf is first else "second", leaf.grad.clone()))
        leaf.grad.mul_(10)

    first.register_post_accumulate_grad_hook(record_and_scale_gradient)
    second.register_post_accumulate_grad_hook(record_and_scale_gradient)
    (first * second).sum().backward()
    lab.same("calls", dict(calls))
    lab.same("how many", len(calls))
    lab.same("gradients", [first.grad, second.grad])


@behaviour(
    "autograd",
    must_detect=("value",),
    ground="The hooks section says that nodes of inputs run only if another input needs them",
)
def what_grad_leaves_out(lab: Lab) -> None:
    """``torch.autograd.grad``, and ``backward`` with ``inputs=``, run only nodes that lead to at least one of
    the inputs. This also holds in graphs with in-place writes through views.
    """
    runs: list[str] = []

    class RaisesInBackward(Function):
        @staticmethod
        def forward(ctx: Any, t: torch.Tensor) -> Any:
            return t * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            runs.append("it ran")
            raise KeyError("not to be run")

    x, y = lab.put([1.0, 2.0], requires_grad=True), lab.put([3.0, 4.0], requires_grad=True)
    guarded = RaisesInBackward.apply(y)

    def add_guarded_into_view() -> torch.Tensor:
        out = x.clone().view(-1)
        out += guarded
        return out

    def use_view_before_write() -> torch.Tensor:
        out = x.clone().view(-1)
        earlier = out * 2
        out += guarded
        return out + earlier

    for name, make in {"added": add_guarded_into_view, "used before": use_view_before_write}.items():
        lab.same(f"grad to x, {name}", torch.autograd.grad(make().sum(), x))
        lab.same(f"grad to the result of the Function, {name}", torch.autograd.grad(make().sum(), guarded))
        lab.same(f"runs, {name}", len(runs))
        x.grad = None
        make().sum().backward(inputs=[x])
        lab.same(f"backward into x, {name}", x.grad)
        lab.same(f"runs after backward into x, {name}", len(runs))
        lab.raises(
            f"grad to y, {name}", lambda: torch.autograd.grad(make().sum(), y), KeyError, match="not to"
        )
        lab.raises(f"backward, {name}", lambda: make().sum().backward(), KeyError, match="not to")
        runs.clear()
    shards = [lab.put([float(index), 1.0], requires_grad=True) for index in range(4)]
    middle = [leaf * (index + 1) + leaf * leaf for index, leaf in enumerate(shards)]
    loss = sum((part * (index + 1)).sum() for index, part in enumerate(middle))
    upper = torch.autograd.grad(loss, middle)  # type: ignore[arg-type]
    for start in (0, 2):
        part = slice(start, start + 2)
        lab.same(f"shard {start}", torch.autograd.grad(middle[part], shards[part], upper[part]))
