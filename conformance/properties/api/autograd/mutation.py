"""Behaviours of ``allow_mutation_on_saved_tensors``: saved tensors may be changed in place, and the backward
uses their original values.
"""

from __future__ import annotations

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour("autograd", must_detect=("value",), page="autograd.html")
def changes_that_are_allowed(lab: Lab) -> None:
    """Within ``allow_mutation_on_saved_tensors``, a saved tensor may be changed in place in any way. The
    backward uses the values at the time of saving.
    """
    x = lab.integers(2, 3, low=1, requires_grad=True)

    def record_gradient(name: str, out: torch.Tensor) -> None:
        lab.same(name, torch.autograd.grad(out.sum(), x)[0])

    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        saved = x.clone()
        out = saved**2
        saved.sin_()
        record_gradient("changed in place", out)

        saved = x.clone()
        out = saved**2
        saved.zero_()
        saved.add_(5)
        record_gradient("changed twice", out)

        saved = x.clone()
        out = saved**2
        saved[0].zero_()
        record_gradient("through a view", out)

        base = x.clone()
        view = base[0]
        out = view**2
        base.mul_(3)
        record_gradient("the base of a saved view", out)

        saved = x.clone()
        first = saved**2
        saved.mul_(2)
        second = saved**2
        saved.mul_(2)
        record_gradient("two versions of it", first + second)

        saved = x.clone()
        out = saved**2 + saved**3 + saved * saved
        saved.zero_()
        record_gradient("saved many times", out)

        saved = x.clone()
        out = saved**2
        torch.sin(x.detach(), out=saved.detach())
        record_gradient("by out=", out)

        with torch.no_grad():
            saved = x.clone().requires_grad_()
        out = (saved.t() @ saved.detach()).sum()
        with torch.no_grad():
            saved.mul_(3)
        lab.same("a transposed saved tensor", torch.autograd.grad(out, saved)[0])

        saved = x.clone()
        out = saved**2
        del out
        saved.mul_(2)
        lab.same("saved no longer", saved.detach())


@behaviour(
    "autograd",
    capabilities=("double_backward",),
    must_detect=("value",),
    page="autograd.html",
    ground="The page keeps the original version for the backward, and does not mention second derivatives",
)
def allowed_changes_twice_differentiated(lab: Lab) -> None:
    """Second derivatives through saved tensors that were changed in place use the values at the time of
    saving.
    """
    x = lab.integers(3, low=1, requires_grad=True)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        saved = x.clone()
        out = saved**3
        saved.zero_()
        (first,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        lab.same("first", first.detach())
        (second,) = torch.autograd.grad(first.sum(), x)
        lab.same("second", second)
    expected = 6 * x.detach()
    lab.holds("the second derivative is the derivative of 3x²", torch.equal(second.cpu(), expected.cpu()))


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    page="autograd.html",
    basis="parity",
    ground="No page says that a later backward or nested contexts are errors",
)
def allowed_changes_end_with_their_context(lab: Lab) -> None:
    """A backward through a graph that was recorded inside an ``allow_mutation_on_saved_tensors`` context is
    an error after this context ends. These contexts must not be nested.
    """
    x = lab.integers(3, low=1, requires_grad=True)
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as context:
        saved = x.clone()
        out = saved**2
        saved.zero_()
        unchanged = (x.clone() * 2) ** 2
    with lab.documented():
        lab.holds("the context manager returns a context", context is not None)
    lab.raises("outside", lambda: out.sum().backward(), AssertionError, RuntimeError)
    lab.raises(
        "a backward outside, without changed tensors",
        lambda: unchanged.sum().backward(),
        AssertionError,
        RuntimeError,
    )

    def nest_contexts() -> None:
        allowed = torch.autograd.graph.allow_mutation_on_saved_tensors
        with allowed(), allowed():
            pass

    lab.raises("nested", nest_contexts, match="allow_mutation_on_saved_tensors")
    saved = x.clone()
    out = saved**2
    saved.zero_()
    with lab.documented():
        lab.raises("without any", lambda: out.sum().backward(), match="inplace operation")
    with lab.documented():
        lab.same("leaf", x.detach() * 1)
