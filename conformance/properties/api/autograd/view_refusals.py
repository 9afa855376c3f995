"""Behaviours of views for which in-place writes are refused, and of views that outlive the graph of their
base.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import Function

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


class _ViewFunction(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    basis="parity",
    ground="No page says that these views refuse tensors that require grad",
)
def refused_writes_to_plain_views(lab: Lab) -> None:
    """If the base of a view does not require grad, the view may refuse a write of a tensor that requires
    grad. The view refuses the write if an ``autograd.Function``, or an operator with several results, created
    the view. Other views accept the write.
    """
    put = lab.put([5.0], requires_grad=True)
    for name, make, text in (
        ("a Function's view", _ViewFunction.apply, "custom Function"),
        ("one of several views", lambda t: t.unbind()[0], "multiple views"),
    ):
        for operation, write in {"sum": lambda t: t.add_(put), "copy": lambda t: t.copy_(put)}.items():
            view = make(lab.put([[1.0, 2.0]]))
            lab.raises(f"{operation} into {name}", lambda: write(view), match=text)
    base = lab.put([[1.0, 2.0]])
    base.select(1, 0).copy_(put)
    with lab.documented():
        lab.same("an ordinary view", base.detach())
    (base * lab.put([[3.0, 4.0]])).sum().backward()
    with lab.documented():
        lab.expect("gradient through the write", put.grad, [3.0])


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    basis="parity",
    ground="No page says which views refuse writes",
)
def views_changed_to_other_views(lab: Lab) -> None:
    """Some views refuse writes: views created under ``no_grad``, views created by an ``autograd.Function``,
    and views that are one of several results. These views still refuse writes after their shape was changed
    in place.
    """
    makers: dict[str, Any] = {
        "one": lambda t: t.view_as(t),
        "one of several": lambda t: t.unbind()[0],
        "a Function's": _ViewFunction.apply,
    }
    texts = {"one": None, "one of several": "multiple views", "a Function's": "custom Function"}
    for name, make in makers.items():
        for graph in (True, False):
            for needs in (True, False):
                base = lab.integers(2, 3).requires_grad_(needs).clone()
                with torch.set_grad_enabled(graph):
                    view = make(base)
                text = texts[name] if graph else "no_grad mode"
                label = f"{name}, graph {graph}, needs {needs}"
                if needs and text is not None:
                    lab.raises(f"write to {label}", lambda: view.add_(1), match=text)
                    with torch.no_grad():
                        view.mul_(2)
                        with lab.documented():
                            lab.same(f"a write to {label} without gradients", view)
                        view.unsqueeze_(0)
                    lab.raises(f"write to {label} of another shape", lambda: view.add_(1), match=text)
                else:
                    view.unsqueeze_(0)
                    view.add_(1)
                    with lab.documented():
                        lab.same(f"{label} of another shape", [view.detach(), base.detach()])


@behaviour(
    "autograd",
    must_detect=("value",),
    page="autograd.html",
    ground="The page promises correct gradients whenever in-place operations raise no error",
)
def views_outlive_their_base(lab: Lab) -> None:
    """If a base is detached in place, the graphs of results that were computed from its views do not change.
    If a base that requires grad is changed in place, its views have a ``grad_fn``, also if the ``grad_fn`` is
    read under ``no_grad``.
    """
    x, y = lab.put([1.0, 2.0], requires_grad=True), lab.put([3.0, 4.0], requires_grad=True)
    z = x * 2
    view = z[:1]
    base = x * y
    part = base[:1] * 1
    base.detach_()
    lab.same("a detached base", [base.requires_grad, base.grad_fn is None])
    lab.same("a result that was computed from a view of the base", [part.requires_grad, part.grad_fn is None])
    part.sum().backward()
    lab.same("gradients of this result", [x.grad, y.grad])
    z.mul_(3)
    with torch.no_grad(), lab.consistent("The node must not depend on the mode in which it is read"):
        lab.holds("a changed base's view has a node under no_grad", view.grad_fn is not None)
    x.grad = None
    view.sum().backward()
    lab.expect("gradient of the changed base's view", x.grad, [6.0, 0.0])
    complex_leaf = lab.put([1.0 + 1.0j], requires_grad=True)
    copied = complex_leaf.clone()
    real = copied.real
    copied.add_(1)
    with torch.no_grad(), lab.consistent("The node must not depend on the mode in which it is read"):
        lab.holds("a changed base's real view has a node under no_grad", real.grad_fn is not None)
    real.sum().backward()
    lab.expect("gradient of the real part", complex_leaf.grad, [1.0 + 0.0j])
