"""allow_mutation_on_saved_tensors: saved tensors may be changed, and backward sees them as they were."""

from __future__ import annotations

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour("autograd", sees=("value",))
def changes_that_are_allowed(lab: Lab) -> None:
    """Within allow_mutation_on_saved_tensors backward uses saved tensors as they were, however these were
    changed.
    """
    x = lab.integers(2, 3, low=1, requires_grad=True)

    def grad(name: str, out: torch.Tensor) -> None:
        lab.same(name, torch.autograd.grad(out.sum(), x)[0])

    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        held = x.clone()
        out = held**2
        held.sin_()
        grad("changed in place", out)

        held = x.clone()
        out = held**2
        held.zero_()
        held.add_(5)
        grad("changed twice", out)

        held = x.clone()
        out = held**2
        held[0].zero_()
        grad("through a view", out)

        base = x.clone()
        view = base[0]
        out = view**2
        base.mul_(3)
        grad("the base of a saved view", out)

        held = x.clone()
        first = held**2
        held.mul_(2)
        second = held**2
        held.mul_(2)
        grad("two versions of it", first + second)

        held = x.clone()
        out = held**2 + held**3 + held * held
        held.zero_()
        grad("saved many times", out)

        held = x.clone()
        out = held**2
        torch.sin(x.detach(), out=held.detach())
        grad("by out=", out)

        with torch.no_grad():
            held = x.clone().requires_grad_()
        out = (held.t() @ held.detach()).sum()
        with torch.no_grad():
            held.mul_(3)
        lab.same("a transposed one", torch.autograd.grad(out, held)[0])

        held = x.clone()
        out = held**2
        del out
        held.mul_(2)
        lab.same("saved no longer", held.detach())


@behaviour("autograd", sees=("value",))
def allowed_changes_twice_differentiated(lab: Lab) -> None:
    """Second derivatives through tensors that were changed are those of the values at the time."""
    x = lab.integers(3, low=1, requires_grad=True)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        held = x.clone()
        out = held**3
        held.zero_()
        (first,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        lab.same("first", first.detach())
        (second,) = torch.autograd.grad(first.sum(), x)
        lab.same("second", second)
    expected = 6 * x.detach()
    lab.holds("it is that of a cube", torch.equal(second.cpu(), expected.cpu()))


@behaviour("autograd", sees=("value", "error"))
def allowed_changes_end_with_their_context(lab: Lab) -> None:
    """After the context, backward through what was changed raises, as does a context within another."""
    x = lab.integers(3, low=1, requires_grad=True)
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as context:
        held = x.clone()
        out = held**2
        held.zero_()
        kept = (x.clone() * 2) ** 2
    lab.holds("there is a context", context is not None)
    lab.raises("outside", lambda: out.sum().backward(), AssertionError, RuntimeError)
    lab.raises("even if nothing was changed", lambda: kept.sum().backward(), AssertionError, RuntimeError)

    def nested() -> None:
        allowed = torch.autograd.graph.allow_mutation_on_saved_tensors
        with allowed(), allowed():
            pass

    lab.raises("nested", nested, match="allow_mutation_on_saved_tensors")
    held = x.clone()
    out = held**2
    held.zero_()
    lab.raises("without any", lambda: out.sum().backward(), match="inplace operation")
    lab.same("leaf", x.detach() * 1)
