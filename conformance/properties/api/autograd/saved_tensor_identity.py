"""Behaviours of saved tensors that are read from nodes: their identity and versions, and cases in which
saved-tensor hooks are not called.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import Function
from torch.autograd.graph import saved_tensors_hooks

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    basis="parity",
    ground="The note calls object identity a detail on which no one should rely",
)
def identity_of_saved_tensors(lab: Lab) -> None:
    """If a node saved a leaf, or the result of another node, a read of the saved tensor returns the same
    object. If a node saved its own result, the read returns a different tensor with the same memory and
    version.
    """
    a = lab.integers(3, low=1, requires_grad=True)
    b: Any = a * a
    c: Any = a * b
    d: Any = torch.exp(a * 0)
    lab.same("a leaf", [b.grad_fn._saved_self is a, b.grad_fn._saved_other is a, c.grad_fn._saved_self is a])
    lab.holds("the saved result of another node is the same object", c.grad_fn._saved_other is b)
    own = d.grad_fn._saved_result
    lab.same("a node's own result", [own is d, own.grad_fn is d.grad_fn])
    with lab.documented():
        lab.shares("a result and the tensor that its node saved", own, d)
    with torch.no_grad():
        d += 1
    lab.same("the saved tensor changes with the result", [torch.equal(own, d), own._version == d._version])
    c.sum().backward()
    lab.raises("a read of a freed saved tensor", lambda: c.grad_fn._saved_self, match="already been freed")
    with lab.documented():
        lab.same("the leaf", [a.detach(), a.grad])


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    page="generated/torch.Tensor.detach_.html",
    basis="parity",
    ground="No page says that detaching a saved input in place is an error",
)
def saved_tensors_that_were_detached(lab: Lab) -> None:
    """If an operator saved an input and the input is then detached in place, the backward raises an error. If
    the input is detached with the out-of-place ``detach``, the backward raises no error.
    """
    x = lab.put([1.0, 2.0], requires_grad=True)
    saved = x.clone()
    square: Any = saved**2
    saved.detach_()
    lab.raises("backward", lambda: square.sum().backward(), match="detached")
    saved = x.clone()
    square = saved**2
    saved.detach()
    square.sum().backward()
    with lab.documented():
        lab.expect("gradient after an ordinary detach", x.grad, [2.0, 4.0])


@behaviour(
    "autograd",
    must_detect=("value",),
    page="autograd.html",
    ground="The page calls the hooks for saved tensors only",
)
def numbers_are_not_packed(lab: Lab) -> None:
    """Saved-tensor hooks are not called for Python numbers. Packing a tensor does not change the tensor's
    version.
    """

    def raise_key_error(thing: Any) -> Any:
        raise KeyError("not to be called")

    x = lab.put([1.0, 2.0], requires_grad=True)
    with saved_tensors_hooks(raise_key_error, raise_key_error):
        out = (x * 5).sum()
    out.backward()
    lab.expect("gradient", x.grad, [5.0, 5.0])
    versions: list[Any] = []

    class CubeFunction(Function):
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
            versions.append((before, saved._version))
            return grad * 3 * t**2

    saved = x.clone()
    packed: list[torch.Tensor] = []

    def pack_as_index(t: torch.Tensor) -> int:
        packed.append(t.detach().clone())
        return len(packed) - 1

    with saved_tensors_hooks(pack_as_index, lambda index: packed[index]):
        cubed = CubeFunction.apply(saved)
    with torch.no_grad():
        saved.mul_(4)
    x.grad = None
    cubed.sum().backward()
    lab.expect("gradient by the values at the time of packing", x.grad, [3.0, 12.0])
    with lab.parity("versions are private numbers"):
        lab.same("versions of the unpacked and of the changed tensor", versions)


@behaviour(
    "autograd",
    must_detect=("value",),
    page="autograd.html",
    basis="parity",
    ground="No page says what entering a context during a backward does",
)
def hooks_entered_in_backward(lab: Lab) -> None:
    """If an unpack hook enters or leaves a context of saved-tensor hooks during a backward, this change has
    no effect after the backward.
    """
    calls: list[str] = []

    def make_recording_hooks(name: str, step: Any) -> Any:
        def run_callback_and_unpack(t: torch.Tensor) -> torch.Tensor:
            step()
            return t

        return saved_tensors_hooks(lambda t: (calls.append(name), t)[1], run_callback_and_unpack)  # type: ignore[func-returns-value]

    x = lab.put([1.0, 2.0], requires_grad=True)
    inner = make_recording_hooks("inner", lambda: None)
    enters = make_recording_hooks("enters", lambda: inner.__enter__())
    for _ in range(3):
        with enters:
            out = x.pow(3)
        out.sum().backward()
    outer = make_recording_hooks("outer", lambda: None)
    leaves = make_recording_hooks("leaves", lambda: outer.__exit__())
    with outer, leaves:
        out = x.pow(3)
    outer.__enter__()
    out.sum().backward()
    outer.__exit__()
    calls.clear()
    later = x.pow(3)
    later.sum().backward()
    lab.same("hooks called afterwards", calls)
    with lab.documented():
        lab.expect("gradient", x.grad, [15.0, 60.0])


@behaviour(
    "autograd",
    dtypes=("float32", "int64"),
    must_detect=("value",),
    page="generated/torch.Tensor.resize_.html",
    basis="parity",
    ground="No page says which resizes count as a new version",
)
def versions_of_resized_tensors(lab: Lab) -> None:
    """``resize_`` and ``resize_as_`` increase a tensor's version if they change its size. Otherwise they do
    not increase the version.
    """
    x, larger = lab.integers(1), lab.integers(3)
    versions = [x._version]
    x.resize_(1, 2)
    versions.append(x._version)
    x.resize_as_(larger)
    versions.append(x._version)
    x.resize_(3)
    versions.append(x._version)
    x.resize_as_(larger)
    versions.append(x._version)
    lab.expect("versions", torch.tensor(versions), torch.tensor([0, 1, 2, 2, 2]), host=True)
    x.fill_(3)
    with lab.documented():
        lab.same("value", x)
    same_object = x
    x.data = larger
    lab.same("a tensor after .data was set", [same_object is x, x])
