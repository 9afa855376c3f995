"""Behaviours of dual tensors: levels, tangents, and the strides of primals and tangents."""

from __future__ import annotations

import torch
import torch.autograd.forward_ad as forward

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "forward-ad",
    dtypes=("float32", "float64", "complex64"),
    level="training",
    must_detect=("value",),
    page="generated/torch.autograd.forward_ad.make_dual.html",
)
def tangents(lab: Lab) -> None:
    """A dual tensor carries its tangent through operators, views and in-place writes within its level."""
    x, t = lab.integers(2, 3), lab.integers(2, 3)
    with forward.dual_level():
        dual = forward.make_dual(x, t)
        parts = forward.unpack_dual(dual)
        lab.same("primal and tangent", [parts.primal, parts.tangent])
        lab.same("by place", [parts[0], parts[1]])
        for name, function in {
            "product": lambda d: d * d,
            "with a constant": lambda d: d * x + 2,
            "view": lambda d: d.t()[1],
            "sum": lambda d: d.sum(0),
            "matrix product": lambda d: torch.mm(d, d.t()),
            "in place": lambda d: (d * 1).mul_(d),
            "in place on a view": lambda d: _double_first_row(d * 1),
            "cat": lambda d: torch.cat((d, x)),
            "clone": lambda d: d.clone(),
        }.items():
            unpacked = forward.unpack_dual(function(dual))
            lab.same(name, [unpacked.primal, unpacked.tangent])
        unpacked_tensor = forward.unpack_dual(x * 2)
        with lab.parity("No page says that a missing tangent is None and not zeros within a level"):
            lab.holds("a plain tensor has no tangent", unpacked_tensor.tangent is None)
        lab.holds("a detached dual tensor has no tangent", forward.unpack_dual(dual.detach()).tangent is None)
        escaped = dual * 3
    lab.same("a dual tensor after the end of its level", escaped)


def _double_first_row(base: torch.Tensor) -> torch.Tensor:
    base[0].mul_(2)
    return base


@behaviour(
    "forward-ad", must_detect=("value", "error"), page="generated/torch.autograd.forward_ad.dual_level.html"
)
def levels(lab: Lab) -> None:
    """Tangents exist only inside a ``dual_level`` context. Only one level may be active at a time. When the
    level ends, its tangents are discarded.
    """
    x, t = lab.integers(3), lab.integers(3)
    lab.raises("no level", lambda: forward.make_dual(x, t), match="level")
    with forward.dual_level():
        dual = forward.make_dual(x, t)
        lab.same("tangent", forward.unpack_dual(dual).tangent)

        def enter_nested_level() -> None:
            with forward.dual_level():
                pass

        lab.raises("a level within a level", enter_nested_level, match="[Nn]ested")
    with forward.dual_level():
        lab.holds("the tangent of an ended level is discarded", forward.unpack_dual(dual).tangent is None)
        second_dual = forward.make_dual(x, t * 2)
        lab.same("tangent on the new level", forward.unpack_dual(second_dual).tangent)
    forward.enter_dual_level()
    try:
        lab.same("entered by hand", forward.unpack_dual(forward.make_dual(x, t) * 2).tangent)
    finally:
        forward.exit_dual_level()
    lab.raises("left too often", lambda: forward.exit_dual_level(level=0), match="level")


@behaviour(
    "forward-ad",
    must_detect=("error", "message"),
    page="generated/torch.autograd.forward_ad.make_dual.html",
    basis="parity",
    ground="No page says that these tangents or primals are refused",
)
def wrong_tangents(lab: Lab) -> None:
    """A tangent must have the shape of its primal. Primal and tangent must have a floating dtype. A tangent
    must not have a tangent itself.
    """
    x = lab.integers(2, 3)
    with forward.dual_level():
        with lab.documented():
            lab.raises("another shape", lambda: forward.make_dual(x, lab.integers(3)), match="shape|size")
        whole = lab.integers(2, 3, dtype=torch.int64)
        lab.raises("integers", lambda: forward.make_dual(whole, x), ValueError, match="float")
        lab.raises("an integral tangent", lambda: forward.make_dual(x, whole), ValueError, match="float")
        dual = forward.make_dual(x, x)
        lab.raises(
            "a tangent that has a tangent",
            lambda: forward.make_dual(x, dual),
            match="forward gradient|tangent",
        )
        lab.raises("no tensors", lambda: forward.make_dual(3.0, 1.0), TypeError, AttributeError, RuntimeError)


@behaviour(
    "forward-ad",
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.no_grad.html",
    ground="The pages of no_grad and inference_mode state what each does to forward-mode AD",
)
def forward_gradients_switched_off(lab: Lab) -> None:
    """Tangents are computed under ``no_grad``. No tangents are computed under ``inference_mode`` or
    ``_set_fwd_grad_enabled(False)``.
    """
    x, t = lab.integers(3), lab.integers(3)
    with forward.dual_level():
        dual = forward.make_dual(x, t)
        with torch.no_grad():
            tangent = forward.unpack_dual(dual * 2).tangent
        lab.same("under no_grad", tangent)
        with torch.inference_mode():
            tangent = forward.unpack_dual(dual * 2).tangent
        lab.holds("inference mode computes no tangent", tangent is None)
        leaf = x.clone().requires_grad_()
        dual_leaf = forward.make_dual(leaf, t)
        both = dual_leaf * dual_leaf
        (gradient,) = torch.autograd.grad(both.sum(), leaf)
        lab.same("tangent and gradient", [forward.unpack_dual(both).tangent.detach(), gradient])
        with lab.parity("_set_fwd_grad_enabled is private, and no page describes it"):
            with forward._set_fwd_grad_enabled(False):
                tangent = forward.unpack_dual(dual * 2).tangent
                new_tangent = forward.unpack_dual(forward.make_dual(x, t)).tangent
            lab.same("switched off", [tangent, new_tangent is None])
            lab.same("tangent after forward AD is enabled again", forward.unpack_dual(dual * 2).tangent)


@behaviour(
    "forward-ad",
    must_detect=("value", "alias"),
    page="generated/torch.autograd.forward_ad.make_dual.html",
    ground="The tangent is the directional derivative of the program, and views share memory with their base",
)
def tangents_of_changed_tensors(lab: Lab) -> None:
    """In-place writes propagate tangents from a view to its base and from a base to its views."""
    t = lab.integers(2, 3)
    with forward.dual_level():
        dual = forward.make_dual(lab.integers(2, 3), t)
        for name, change in {
            "copy": lambda b: b.copy_(dual),
            "product": lambda b: b.mul_(dual),
            "sum": lambda b: b.add_(dual),
        }.items():
            base = lab.integers(2, 3)
            change(base)
            lab.same(f"whole, {name}", [forward.unpack_dual(base).primal, forward.unpack_dual(base).tangent])
            base = lab.integers(2, 2, 3)
            change(base[1])
            lab.same(f"through a view, {name}", [*forward.unpack_dual(base)])
            base = lab.integers(2, 3)
            view = base.view(-1)[1:4]
            change(base)
            lab.same(f"a view made before the write, {name}", [*forward.unpack_dual(view)])
        copied = lab.integers(2, 3)
        copied.copy_(forward.make_dual(lab.integers(3), lab.integers(3)))
        lab.same("broadcast", [*forward.unpack_dual(copied)])
        strided = lab.integers(3, 2).t()
        strided.copy_(dual)
        lab.same("another layout", [*forward.unpack_dual(strided)])
        source = forward.make_dual(lab.integers(2, 3), lab.integers(2, 3))
        source.mul_(0)
        lab.same("of zero", [*forward.unpack_dual(source)])
        cleared = dual * 1
        cleared.zero_()
        unpacked = forward.unpack_dual(cleared)
        lab.same("cleared", [unpacked.primal, unpacked.tangent])
        detached = dual.detach()
        detached.mul_(2)
        with lab.parity("No page says what a write through a detached tensor does to the tangent"):
            lab.same(
                "a dual tensor changed through its detached tensor",
                [forward.unpack_dual(dual).primal, forward.unpack_dual(dual).tangent],
            )


@behaviour(
    "forward-ad",
    must_detect=("value", "error"),
    page="generated/torch.autograd.forward_ad.unpack_dual.html",
    basis="parity",
    ground="No page says that out= refuses dual tensors or that these results have None as tangent",
)
def tangents_and_out(lab: Lab) -> None:
    """An operator with ``out=`` rejects dual tensors. An operator without a forward derivative returns no
    tangent, or raises an error that names the missing derivative.
    """
    x, t = lab.integers(3), lab.integers(3)
    with forward.dual_level():
        dual = forward.make_dual(x, t)
        lab.raises("out= of a dual", lambda: torch.add(dual, dual, out=torch.empty_like(x)), match="out=")
        lab.raises("a dual tensor as out=", lambda: torch.add(x, x, out=dual), match="out=")
        flat = forward.unpack_dual(dual > 0)
        lab.holds("a comparison has no tangent", flat.tangent is None)
        lab.holds("nor has an index", forward.unpack_dual(dual.argmax()).tangent is None)
        lab.holds("a conversion to integers has no tangent", forward.unpack_dual(dual.long()).tangent is None)
        value, where = torch.sort(dual, stable=True)
        with lab.documented():
            lab.same("sorted", [*forward.unpack_dual(value)])
        lab.holds("positions have none", forward.unpack_dual(where).tangent is None)
        zero = forward.unpack_dual(dual * 0).tangent
        with lab.documented():
            lab.expect("tangent of zero", zero, [0.0, 0.0, 0.0])


@behaviour(
    "forward-ad",
    must_detect=("value",),
    page="generated/torch.autograd.forward_ad.make_dual.html",
    ground="The result is the directional derivative; conj and neg bits do not change values",
)
def tangents_with_lazy_bits(lab: Lab) -> None:
    """If primals and tangents are lazily conjugated or negated, the resulting tangents are the same as for
    materialized tensors.
    """
    z, t = lab.integers(3, dtype=torch.complex64), lab.integers(3, dtype=torch.complex64)
    real = lab.integers(3)
    with forward.dual_level():
        for name, (primal, tangent) in {
            "primal conjugated": (z.conj(), t),
            "tangent conjugated": (z, t.conj()),
            "both": (z.conj(), t.conj()),
        }.items():
            dual = forward.make_dual(primal, tangent)
            unpacked = forward.unpack_dual(dual * dual)
            lab.same(name, [unpacked.primal.resolve_conj(), unpacked.tangent.resolve_conj()])
            unpacked = forward.unpack_dual(dual.conj())
            lab.same(
                f"{name}, conjugated again", [unpacked.primal.resolve_conj(), unpacked.tangent.resolve_conj()]
            )
        negative = z.conj().imag
        for name, (primal, tangent) in {"primal": (negative, real), "tangent": (real, negative)}.items():
            unpacked = forward.unpack_dual(forward.make_dual(primal, tangent) * 3)
            lab.same(f"negated {name}", [unpacked.primal.resolve_neg(), unpacked.tangent.resolve_neg()])


@behaviour("forward-ad", must_detect=("value",), page="generated/torch.autograd.forward_ad.make_dual.html")
def tangents_of_odd_layouts(lab: Lab) -> None:
    """A primal with memory gaps, with a storage offset or without elements accepts a tangent with different
    strides.
    """
    base = lab.integers(4, 6)
    with forward.dual_level():
        for name, primal in {
            "gaps": base[:, ::2],
            "offset": base[1:, 2],
            "transposed": base.t(),
            "empty": base[:0],
            "empty at an offset": base[3:3, 1:],
        }.items():
            for kind, tangent in {
                "contiguous": lab.integers(*primal.shape),
                "transposed": lab.integers(*reversed(primal.shape)).permute(*reversed(range(primal.dim()))),
            }.items():
                unpacked = forward.unpack_dual(forward.make_dual(primal, tangent) * 2)
                lab.same(f"{name} with {kind} tangent", [unpacked.primal, unpacked.tangent])
        dual = forward.make_dual(base, base * 2)
        with lab.parity("No page describes the repr of a dual tensor"):
            lab.same("printed", "tangent=" in repr(dual))
