"""Behaviours of ``make_dual`` and ``unpack_dual``: shared memory, versions, and gradients of primals and
tangents.
"""

from __future__ import annotations

import torch
import torch.autograd.forward_ad as forward

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "forward-ad", must_detect=("value", "alias"), page="generated/torch.autograd.forward_ad.make_dual.html"
)
def memory_of_duals(lab: Lab) -> None:
    """A dual tensor shares memory and version with its primal, and its tangent is the tensor passed to
    ``make_dual``. Writes to the primal and to this tangent are visible in the dual tensor. The primal, and
    the tensors that ``unpack_dual`` returns, have no tangent themselves.
    """
    x, t = lab.integers(2, low=1), lab.integers(2, low=1)
    with forward.dual_level():
        dual = forward.make_dual(x, t)
        lab.shares("primal and dual", x, dual)
        primal, tangent = forward.unpack_dual(dual)
        lab.shares("primal and unpacked primal", x, primal)
        lab.shares("tangent and unpacked tangent", t, tangent)
        x.add_(1)
        with lab.parity("The attribute _version is private, and no page describes it"):
            lab.same("versions", [x._version == dual._version, x._version == primal._version])
        dual *= 2
        lab.same("primal and dual tensor after the dual tensor was doubled", [x, *forward.unpack_dual(dual)])
        with lab.parity("No page says that a write to the dual tensor changes the tensor passed as tangent"):
            lab.same("the tensor passed as tangent after the dual was doubled", t)
        with lab.parity("No page says that a missing tangent is None and not zeros within a level"):
            lab.holds("the primal has no tangent", forward.unpack_dual(x).tangent is None)
        primal, tangent = forward.unpack_dual(dual)
        lab.holds("the unpacked primal has no tangent", forward.unpack_dual(primal).tangent is None)
        lab.holds("a tangent has none", forward.unpack_dual(tangent).tangent is None)
        primal *= 3
        lab.same("after the unpacked primal was tripled", [*forward.unpack_dual(dual)])
        tangent *= 5
        lab.same("after the unpacked tangent was written", [*forward.unpack_dual(dual)])
        view = lab.integers(2, 2).t()
        for name, write in {
            "sum": lambda into, d: into.add_(d),
            "product": lambda into, d: into.mul_(d),
            "copy": lambda into, d: into.copy_(d),
        }.items():
            base = lab.integers(2, 2)
            view = base.t()
            write(view, forward.make_dual(lab.integers(2, 2), lab.integers(2, 2)))
            view *= 2
            lab.same(f"base of a view written by {name}", [*forward.unpack_dual(base)])


@behaviour(
    "forward-ad",
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.autograd.forward_ad.unpack_dual.html",
)
def graphs_of_duals(lab: Lab) -> None:
    """Gradients of an unpacked primal flow only to the packed primal, and gradients of an unpacked tangent
    only to the packed tangent. A dual tensor that was detached, also in place, has no tangent.
    """
    x, t = lab.integers(2, requires_grad=True), lab.integers(2, requires_grad=True)
    with forward.dual_level():
        dual = forward.make_dual(x, t)
        primal, tangent = forward.unpack_dual(dual)
        for name, part in {"primal": primal, "tangent": tangent}.items():
            gradients = torch.autograd.grad((part * 2).sum(), (x, t), allow_unused=True)
            lab.same(f"gradients of the {name}", list(gradients))
        with torch.no_grad():
            primal, tangent = forward.unpack_dual(dual * 3)
        lab.same("under no_grad", [primal, tangent, primal.requires_grad, tangent.requires_grad])
        copied = dual.clone()
        copied.detach_()
        primal, tangent = forward.unpack_dual(copied * 2)
        lab.same("detached in place", [primal, tangent, primal.requires_grad])
    with torch.inference_mode():
        primal_ones, tangent_ones = torch.ones(2, device=lab.device), torch.ones(2, device=lab.device)
        with forward.dual_level():
            dual = forward.make_dual(primal_ones, tangent_ones)
            dual += 1
            lab.expect("the primal after a write to the dual in inference mode", primal_ones, [2.0, 2.0])


@behaviour(
    "forward-ad",
    must_detect=("value", "error"),
    capabilities=("strides",),
    page="generated/torch.autograd.forward_ad.make_dual.html",
)
def primals_within_larger_memory(lab: Lab) -> None:
    """A primal that is part of a larger tensor accepts a tangent of the primal's size. ``as_strided`` of the
    dual tensor may view memory beyond the primal.
    """
    whole, t = lab.integers(5), lab.integers(4)
    with forward.dual_level():
        dual = forward.make_dual(whole[:4], t)
        before = t.clone()
        tangent = forward.unpack_dual(dual).tangent
        lab.same("tangent", tangent)
        tangent *= 2
        with lab.parity("No page says whether the tangent is copied if the storages differ in size"):
            lab.same("the tensor passed as tangent, and its old value", [t, before])
        strided = forward.unpack_dual(dual.as_strided((5,), (1,), 0))
        lab.same("all of the memory", strided.primal)
        lab.same("the elements of the strided tangent inside the primal", strided.tangent[:4])
        with lab.parity("No page says that igamma has no forward derivative"):
            lab.raises(
                "an operator without a derivative",
                lambda: torch.igamma(dual.abs() + 1, dual.abs() + 1),
                NotImplementedError,
                match="forward AD",
            )
