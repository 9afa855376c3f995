"""Behaviours of tensors that graphs save for the backward, and of saved-tensor hooks that pack and unpack
them.
"""

from __future__ import annotations

import tempfile
import weakref
from pathlib import Path
from typing import Any

import torch
from torch.autograd.function import Function
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour("autograd", level="training", must_detect=("value", "error"), page="autograd.html")
def changes_of_saved_tensors(lab: Lab) -> None:
    """If a saved tensor was changed in place before the backward, the backward raises an error. Changing a
    tensor that was not saved is allowed.
    """
    x = lab.integers(3, low=1, requires_grad=True)
    for name, make in {
        "product": lambda t: t * t,
        "exponential": lambda t: (t * 0).exp(),
        "quotient": lambda t: t.detach() / t,
        "power": lambda t: t**3,
    }.items():
        saved = x * 1
        out = make(saved)
        changed = out if name == "exponential" else saved
        changed.add_(1)
        lab.raises(f"backward of a changed {name}", lambda: out.sum().backward(), match="inplace operation")
    saved = x * 1
    out = saved * saved
    view = saved[0:1]
    view.zero_()
    lab.raises("a change through a view", lambda: out.sum().backward(), match="inplace operation")
    saved = x * 1
    out = saved + saved
    saved.mul_(5)
    with lab.parity("No page says which operators save their inputs"):
        out.sum().backward()
        lab.expect("a sum saves nothing", x.grad, [2.0, 2.0, 2.0])
    x.grad = None
    saved = x * 1
    out = saved * saved
    with torch.no_grad():
        saved.zero_()
    lab.raises("a change without gradients", lambda: out.sum().backward(), match="inplace operation")
    saved = x * 1
    out = saved * saved
    saved.detach().zero_()
    lab.raises("a change of a detached tensor", lambda: out.sum().backward(), match="inplace operation")
    saved = x * 1
    out = saved * saved
    with lab.parity("No page describes changes through `.data`; the gradient is wrong"):
        saved.data.mul_(2)
        out.sum().backward()
        lab.same("gradient after a change through .data", x.grad)


@behaviour(
    "autograd",
    must_detect=("value",),
    page="generated/torch.autograd.graph.increment_version.html",
    basis="parity",
    ground="The notes mention counters; no page gives their values or says which tensors share a counter",
)
def version_counters(lab: Lab) -> None:
    """A tensor's version counts its in-place writes. A view or a detached tensor shares the version of its
    source. ``.data`` and clones have their own versions.
    """
    x = lab.integers(2, 3)
    versions = [x._version]
    x.add_(1)
    versions.append(x._version)
    view, flat = x[0], x.view(-1)
    view.mul_(2)
    versions += [x._version, view._version, flat._version]
    flat[0] = 9
    versions += [x._version, view._version]
    detached = x.detach()
    detached.zero_()
    versions += [x._version, detached._version]
    x.data.add_(1)
    copied = x.clone()
    copied.add_(1)
    versions += [x._version, copied._version]
    torch.add(x, x, out=x)
    versions.append(x._version)
    with torch.no_grad():
        x.fill_(3)
    versions.append(x._version)
    lab.same("versions", versions)
    with lab.documented():
        lab.same("value", x)
    before = x._version
    torch.autograd.graph.increment_version(x)
    by_hand = x._version
    with lab.documented():
        lab.holds("increment_version increases the version", by_hand > before)
    torch.autograd.graph.increment_version([x, copied])
    with lab.documented():
        lab.holds("increment_version accepts a list", x._version > by_hand)
    lab.same("increases by both calls of increment_version", [by_hand - before, x._version - by_hand])
    before = x._version
    x.resize_(3, 2)
    lab.holds(
        "resizing to equally many elements increases the version by at most one", x._version - before <= 1
    )


@behaviour(
    "autograd",
    capabilities=("double_backward",),
    level="training",
    must_detect=("value",),
    page="autograd.html",
)
def packing_hooks(lab: Lab) -> None:
    """Within ``saved_tensors_hooks``, the pack hook is called once for every saved tensor, and the unpack
    hook at each use of the tensor. If contexts are nested, only the hooks of the innermost context are
    called.
    """
    x = lab.integers(3, low=1, requires_grad=True)
    calls: list[str] = []

    def scaling_hooks(name: str, factor: int) -> Any:
        def record_and_scale(t: torch.Tensor) -> Any:
            calls.append(f"pack {name}")
            return (t * factor).detach()

        def record_and_return(t: Any) -> Any:
            calls.append(f"unpack {name}")
            return t

        return saved_tensors_hooks(record_and_scale, record_and_return)

    with scaling_hooks("outer", 2):
        y = x * x
        with scaling_hooks("inner", 3):
            z = x**3
        w = x * x
    unhooked = x * x
    for name, out in {"outer": y, "inner": z, "outer again": w, "without": unhooked}.items():
        lab.same(f"gradient {name}", torch.autograd.grad(out.sum(), x, retain_graph=True)[0])
        lab.same(f"hooks called {name}", sorted(set(calls)))
        with lab.parity("No page says how many tensors an operator saves, or how often it reads them"):
            lab.same(f"calls {name}", sorted(calls))
    with scaling_hooks("same", 1), scaling_hooks("same", 1):
        out = x * x
    torch.autograd.grad(out.sum(), x, retain_graph=True)
    before = len(calls)
    torch.autograd.grad(out.sum(), x)
    lab.holds("a second backward unpacks again", "unpack same" in calls[before:])
    with lab.parity("No page says how many tensors an operator saves, or how often it reads them"):
        lab.same("calls of a second backward", len(calls) - before)
    second = x**3
    with scaling_hooks("graph", 1):
        (first,) = torch.autograd.grad(second.sum(), x, create_graph=True)
    lab.same("second derivative", torch.autograd.grad(first.sum(), x)[0])


@behaviour("autograd", must_detect=("value", "error"))
def misused_packing_hooks(lab: Lab) -> None:
    """Errors of pack and unpack hooks propagate. A pack hook must not change its tensor, and an unpack hook
    must return a tensor. Saved-tensor hooks can be disabled.
    """
    x = lab.integers(3, low=1, requires_grad=True)

    class PackingError(Exception):
        pass

    def raise_packing_error(thing: Any) -> Any:
        raise PackingError("not this one")

    def square_with_hooks(pack: Any, unpack: Any) -> torch.Tensor:
        with saved_tensors_hooks(pack, unpack):
            return x * x

    with lab.parity("No page says that an error of a hook reaches the caller"):
        lab.raises(
            "pack fails",
            lambda: square_with_hooks(raise_packing_error, lambda t: t),
            PackingError,
            match="not this one",
        )
    squared = square_with_hooks(lambda t: t, raise_packing_error)
    with lab.parity("No page says that an error of a hook reaches the caller"):
        lab.raises("unpack fails", lambda: squared.sum().backward(), PackingError)
    not_a_tensor = square_with_hooks(lambda t: "word", lambda t: t)
    with lab.parity("The page says what the hook should return, not that another value is an error"):
        lab.raises("unpack gives a word", lambda: not_a_tensor.sum().backward(), TypeError)

    def pack_in_place() -> None:
        with saved_tensors_hooks(lambda t: t.add_(1), lambda t: t):
            ((x * 1) ** 2).sum()

    lab.raises("pack changes its tensor", pack_in_place, match="in place|inplace|in-place")
    with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
        lab.raises(
            "disabled",
            lambda: square_with_hooks(lambda t: t, lambda t: t),
            match="not here",
            type_is_documented=True,
            text_is_documented=True,
        )
        with torch.autograd.graph.disable_saved_tensors_hooks("nor there"):
            lab.raises(
                "disabled twice",
                lambda: square_with_hooks(lambda t: t, lambda t: t),
                match="nor there",
                type_is_documented=True,
                text_is_documented=True,
            )
        lab.raises(
            "saving a tensor while hooks are disabled again",
            lambda: square_with_hooks(lambda t: t, lambda t: t),
            match="not here",
            type_is_documented=True,
            text_is_documented=True,
        )
    with saved_tensors_hooks(lambda t: t, lambda t: t):

        def disable_hooks() -> None:
            with torch.autograd.graph.disable_saved_tensors_hooks("too late"):
                pass

        with lab.parity("No page says that disabling inside a hook context is an error"):
            lab.raises("disabling hooks inside a hook context", disable_hooks, match="too late|hooks")
    lab.same(
        "allowed again", torch.autograd.grad(square_with_hooks(lambda t: t * 2, lambda t: t).sum(), x)[0]
    )


@behaviour(
    "autograd",
    capabilities=(
        "double_backward",
        "serialization",
    ),
    must_detect=("value",),
)
def packing_elsewhere(lab: Lab) -> None:
    """Saved-tensor hooks can store tensors in files, as Python lists or on the host, also views and
    transposed tensors. The gradients are the same as without hooks.
    """
    x = lab.integers(3, 4, requires_grad=True)
    y = lab.integers(4, 3, requires_grad=True)

    def scalar_loss() -> torch.Tensor:
        return ((x @ y).pow(2).t()[1:] * x[:, :2].t().sum()).sum() + (x.t() * 3 * y).sum()

    expected = torch.autograd.grad(scalar_loss(), (x, y))
    lab.same("plain", expected)
    with tempfile.TemporaryDirectory() as folder:
        count = [0]

        def save_to_file(t: torch.Tensor) -> str:
            count[0] += 1
            path = str(Path(folder) / f"{count[0]}.pt")
            torch.save(t, path)
            return path

        with saved_tensors_hooks(save_to_file, torch.load):
            out = scalar_loss()
        lab.same("from files", torch.autograd.grad(out, (x, y)))
    with saved_tensors_hooks(
        lambda t: (t.cpu().tolist(), t.dtype), lambda p: torch.tensor(p[0], dtype=p[1]).to(lab.device)
    ):
        out = scalar_loss()
    lab.same("from numbers", torch.autograd.grad(out, (x, y)))
    with save_on_cpu():
        out = scalar_loss()
    lab.same("on the host", torch.autograd.grad(out, (x, y)))
    with save_on_cpu():
        saved: Any = x * x
        lab.same("the unpacked tensor", saved.grad_fn._saved_self.detach())
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    lab.same("second derivative", torch.autograd.grad(first.sum(), x)[0])
    with save_on_cpu():
        number = torch.tensor(3.0, device=lab.device, requires_grad=True)
        out = x * number + number.exp() * 0
    lab.same("with numbers", torch.autograd.grad(out.sum(), (x, number)))


@behaviour("autograd", must_detect=("value", "error"))
def hooks_of_one_saved_tensor(lab: Lab) -> None:
    """A single saved tensor can have its own pair of hooks. The pair can be registered only once, while the
    tensor's graph is alive. The backward uses the tensor that the unpack hook returns.
    """
    x = lab.integers(3, low=1, requires_grad=True)
    for name, make, slot in (
        ("a leaf", lambda: x * x, "_raw_saved_self"),
        ("a result", lambda: (x - x.detach()).exp(), "_raw_saved_result"),
        ("an input that is not a leaf", lambda: (x * 2).pow(2), "_raw_saved_self"),
    ):
        out: Any = make()
        getattr(out.grad_fn, slot).register_hooks(lambda t: (t * 4).detach(), lambda t: t / 2)
        lab.same(f"gradient with hooks of {name}", torch.autograd.grad(out.sum(), x)[0])
        with lab.parity("The note says that this error may fail to appear"):
            lab.raises(
                f"freed {name}",
                lambda: getattr(out.grad_fn, slot).register_hooks(lambda t: t, lambda t: t),
                match="freed|second time",
            )
    squared: Any = x * x
    slot = squared.grad_fn._raw_saved_self
    slot.register_hooks(lambda t: t, lambda t: t)
    with lab.parity("No page says that a second pair is refused"):
        lab.raises("a second pair", lambda: slot.register_hooks(lambda t: t, lambda t: t), match="already")
    second: Any = x * x
    with lab.parity("No page says that a missing hook is refused"):
        lab.raises(
            "only one of the two hooks",
            lambda: second.grad_fn._raw_saved_self.register_hooks(lambda t: t),
            TypeError,
        )
    with lab.parity("No page says that a number in place of a hook is refused"):
        lab.raises("no function", lambda: second.grad_fn._raw_saved_self.register_hooks(1, 2), TypeError)
    with lab.parity("No page says that a SavedTensor cannot be created by the user"):
        lab.raises(
            "a SavedTensor created by the user",
            lambda: torch.autograd.SavedTensor(),  # type: ignore[attr-defined]
            TypeError,
            RuntimeError,
        )


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    basis="parity",
    ground="The note only says that saved tensors appear under a prefix, for debugging",
)
def what_nodes_show_of_saved(lab: Lab) -> None:
    """Nodes expose the tensors, sizes, numbers, lists and None values that they saved. After a backward the
    saved tensors are freed.
    """
    x = lab.integers(2, 3, 4, 4, requires_grad=True)
    y: Any = x.sum(1, keepdim=True)
    lab.same("sum", [y.grad_fn._saved_dim, y.grad_fn._saved_keepdim, list(y.grad_fn._saved_self_sym_sizes)])
    power: Any = x.pow(3)
    lab.same("power", power.grad_fn._saved_exponent)
    with lab.documented():
        lab.same("saved input", power.grad_fn._saved_self.detach())
    lab.holds("the saved leaf is the same object", power.grad_fn._saved_self is x)
    scaled: Any = x * 5
    lab.holds("a product with a number saves no tensor", scaled.grad_fn._saved_self is None)
    both: Any = (x * x.detach()).grad_fn
    lab.same("a product with a constant", [both._saved_self is None, both._saved_other is None])
    picked: Any = x[:, torch.tensor([0, 2], device=lab.device)]
    lab.same("indices", [None if t is None else t for t in picked.grad_fn._saved_indices])
    root: Any = (x * x + 1).sqrt()
    lab.same("the saved result", torch.equal(root.grad_fn._saved_result.detach(), root.detach()))
    narrow: Any = x.narrow(2, 1, 2)
    lab.same("start and dimension of a slice", [narrow.grad_fn._saved_start, narrow.grad_fn._saved_dim])
    power.sum().backward()
    with lab.documented():
        lab.same("gradient", x.grad)
    lab.raises("a read of a freed saved tensor", lambda: power.grad_fn._saved_self, match="second time|freed")


@behaviour(
    "autograd",
    must_detect=("value",),
    basis="parity",
    ground="No page says which tensors a graph keeps alive",
)
def memory_of_graphs(lab: Lab) -> None:
    """A graph retains only the tensors that its backward needs. These tensors are freed after the backward,
    or when the result is freed.
    """

    class WeakReferenceableObject:
        pass

    def weak_reference_to_attached_object(t: torch.Tensor) -> Any:
        bag = WeakReferenceableObject()
        t.bag = bag  # type: ignore[attr-defined]
        return weakref.ref(bag)

    x = lab.integers(3, low=1, requires_grad=True)
    a = x * 2
    reference = weak_reference_to_attached_object(a)
    total = a + 1
    del a
    lab.holds("a summand is freed", lab.gone(reference))
    a = x * 2
    reference = weak_reference_to_attached_object(a)
    square = a * a
    del a
    lab.holds("a factor is retained with its attributes", reference() is not None)
    (square + total).sum().backward()
    with lab.documented():
        lab.holds("the factor is freed after the backward", lab.gone(reference))
    with lab.documented():
        lab.same("gradient", x.grad)
    a = x * 2
    reference = weak_reference_to_attached_object(a)
    square = a * a
    del a, square
    lab.holds("the factor is freed with the result", lab.gone(reference))
    constant = x * 3
    reference = weak_reference_to_attached_object(constant)
    indexed = constant[torch.tensor([0], device=lab.device)]
    del constant
    lab.holds("indexing does not retain the indexed tensor", lab.gone(reference))
    indexed.sum().backward()
    with lab.documented():
        lab.same("gradient of indexing", x.grad)


class _SavesIntermediate(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        middle = x + 1
        ctx.save_for_backward(x, middle)
        return middle * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, middle = ctx.saved_tensors
        return grad * (x + middle)


@behaviour("autograd", must_detect=("value",), page="autograd.html")
def packing_hooks_and_functions(lab: Lab) -> None:
    """Saved-tensor hooks apply to ``save_for_backward``, both for inputs and for tensors that the forward
    created.
    """
    x = lab.integers(3, requires_grad=True)
    packed: list[torch.Tensor] = []

    def pack_as_index(t: torch.Tensor) -> int:
        packed.append(t.detach().clone())
        return len(packed) - 1

    with saved_tensors_hooks(pack_as_index, lambda index: packed[index]):
        out = _SavesIntermediate.apply(x)
    lab.same("packed", packed)
    out.sum().backward()
    lab.same("gradient", x.grad)
    same = x * 1
    with saved_tensors_hooks(pack_as_index, lambda index: packed[index]):
        out = same * same
    same.add_(1)
    out.sum().backward()
    lab.same("gradient from a packed copy after a change", x.grad)
