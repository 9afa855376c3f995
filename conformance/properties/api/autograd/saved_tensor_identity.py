"""Saved tensors seen from nodes: their identity, versions, and what hooks are not called for."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import Function
from torch.autograd.graph import saved_tensors_hooks

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour("autograd", sees=("value", "error"))
def identity_of_saved_tensors(lab: Lab) -> None:
    """A saved leaf or result of another node comes back as the very tensor; a node's own result as another
    tensor of the same memory and version.
    """
    a = lab.integers(3, low=1, requires_grad=True)
    b: Any = a * a
    c: Any = a * b
    d: Any = torch.exp(a * 0)
    lab.same("a leaf", [b.grad_fn._saved_self is a, b.grad_fn._saved_other is a, c.grad_fn._saved_self is a])
    lab.holds("a result of another node", c.grad_fn._saved_other is b)
    own = d.grad_fn._saved_result
    lab.same("a node's own result", [own is d, own.grad_fn is d.grad_fn])
    lab.shares("a result and what its node saved", own, d)
    with torch.no_grad():
        d += 1
    lab.same("it changes with the result", [torch.equal(own, d), own._version == d._version])
    c.sum().backward()
    lab.raises("a freed one", lambda: c.grad_fn._saved_self, match="already been freed")
    lab.same("the leaf", [a.detach(), a.grad])


@behaviour("autograd", sees=("value", "error"))
def saved_tensors_that_were_detached(lab: Lab) -> None:
    """Detaching a tensor in place is an error for a graph that saved it as an input, and none for that which
    it is a result of.
    """
    x = lab.put([1.0, 2.0], requires_grad=True)
    held = x.clone()
    square: Any = held**2
    held.detach_()
    lab.raises("backward", lambda: square.sum().backward(), match="detached")
    held = x.clone()
    square = held**2
    held.detach()
    square.sum().backward()
    lab.expect("gradient after an ordinary detach", x.grad, [2.0, 4.0])


@behaviour("autograd", sees=("value",))
def numbers_are_not_packed(lab: Lab) -> None:
    """Hooks of saved tensors are not called for Python numbers, and do not touch the versions of what they
    pack.
    """

    def refuse(thing: Any) -> Any:
        raise KeyError("not to be called")

    x = lab.put([1.0, 2.0], requires_grad=True)
    with saved_tensors_hooks(refuse, refuse):
        out = (x * 5).sum()
    out.backward()
    lab.expect("gradient", x.grad, [5.0, 5.0])
    versions: list[Any] = []

    class Cube(Function):
        @staticmethod
        def forward(ctx: Any, t: torch.Tensor) -> Any:
            ctx.save_for_backward(t)
            return t**3

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (t,) = ctx.saved_tensors
            before = t._version
            t = t * 1
            t.add_(0)
            versions.append((before, held._version))
            return grad * 3 * t**2

    held = x.clone()
    packed: list[torch.Tensor] = []

    def pack(t: torch.Tensor) -> int:
        packed.append(t.detach().clone())
        return len(packed) - 1

    with saved_tensors_hooks(pack, lambda place: packed[place]):
        cubed = Cube.apply(held)
    with torch.no_grad():
        held.mul_(4)
    x.grad = None
    cubed.sum().backward()
    lab.expect("gradient of the values at the time", x.grad, [3.0, 12.0])
    lab.same("versions of the packed one and of the changed one", versions)


@behaviour("autograd", sees=("value",))
def hooks_entered_in_backward(lab: Lab) -> None:
    """Hooks of saved tensors that are entered or left while a backward unpacks do not apply to what comes
    after it.
    """
    calls: list[str] = []

    def make(name: str, step: Any) -> Any:
        def unpack(t: torch.Tensor) -> torch.Tensor:
            step()
            return t

        return saved_tensors_hooks(lambda t: (calls.append(name), t)[1], unpack)  # type: ignore[func-returns-value]

    x = lab.put([1.0, 2.0], requires_grad=True)
    inner = make("inner", lambda: None)
    enters = make("enters", lambda: inner.__enter__())
    for _ in range(3):
        with enters:
            out = x.pow(3)
        out.sum().backward()
    outer = make("outer", lambda: None)
    leaves = make("leaves", lambda: outer.__exit__())
    with outer, leaves:
        out = x.pow(3)
    outer.__enter__()
    out.sum().backward()
    outer.__exit__()
    calls.clear()
    later = x.pow(3)
    later.sum().backward()
    lab.same("hooks called afterwards", calls)
    lab.expect("gradient", x.grad, [15.0, 60.0])


@behaviour("autograd", dtypes=("float32", "int64"), sees=("value",))
def versions_of_resized_tensors(lab: Lab) -> None:
    """resize_ and resize_as_ count as a change in place if they change the size, and as none if they do
    not.
    """
    x, other = lab.integers(1), lab.integers(3)
    shown = [x._version]
    x.resize_(1, 2)
    shown.append(x._version)
    x.resize_as_(other)
    shown.append(x._version)
    x.resize_(3)
    shown.append(x._version)
    x.resize_as_(other)
    shown.append(x._version)
    lab.expect("versions", torch.tensor(shown), torch.tensor([0, 1, 2, 2, 2]), host=True)
    x.fill_(3)
    lab.same("value", x)
    held = x
    x.data = other
    lab.same("a tensor with other data", [held is x, x])
