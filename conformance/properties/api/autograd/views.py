"""Behaviours of in-place writes into views and bases, and of the gradients of both."""

from __future__ import annotations

import contextlib

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "autograd",
    level="training",
    must_detect=("value", "alias"),
    page="autograd.html",
    ground="The page promises correct gradients whenever in-place operations raise no error",
)
def gradients_through_changed_views(lab: Lab) -> None:
    """An in-place write into a view is part of the graph of its base. The gradients of base, view and written
    values are correct.
    """
    x = lab.integers(2, 3, requires_grad=True)
    put = lab.integers(3, requires_grad=True)
    for name, change in {
        "product": lambda view: view.mul_(put),
        "sum": lambda view: view.add_(put * 2),
        "copy": lambda view: view.copy_(put * put),
        "fill": lambda view: view.fill_(5),
        "zero": lambda view: view.zero_(),
    }.items():
        x.grad = put.grad = None
        base = x * 2
        view = base[0]
        change(view)
        lab.same(f"base after {name}", base.detach())
        weights = lab.put([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        (base * weights).sum().backward()
        lab.same(f"gradients of {name} through the base", [x.grad, put.grad])
        x.grad = put.grad = None
        base = x * 2
        view = base[0]
        change(view)
        (view * weights[1]).sum().backward()
        lab.same(f"gradients of {name} through the view", [x.grad, put.grad])


@behaviour(
    "autograd",
    must_detect=("value", "alias"),
    page="autograd.html",
    ground="The page promises correct gradients whenever in-place operations raise no error",
)
def views_of_changed_bases(lab: Lab) -> None:
    """If a base is changed in place, views that were created before the change have the new values of the
    base and correct gradients. This holds for views of views at any depth.
    """
    x = lab.integers(2, 4, requires_grad=True)
    base = x * 1
    row = base[0]
    part = row[1:3]
    base.mul_(3)
    lab.same("view of a view", part.detach())
    (part * 2).sum().backward()
    lab.expect("its gradient", x.grad, [[0.0, 6.0, 6.0, 0.0], [0.0] * 4])
    x.grad = None
    base = x * 1
    row = base[0]
    part = row[1:3]
    part.mul_(5)
    lab.same("a row after a part of it was changed", row.detach())
    (row.sum() + base.sum()).backward()
    lab.expect("gradient of row and base", x.grad, [[2.0, 10.0, 10.0, 2.0], [1.0] * 4])
    x.grad = None
    base = x * 1
    row, column = base[0], base[:, 1]
    row.mul_(2)
    column.mul_(3)
    row.add_(1)
    lab.same("after crossing changes", base.detach())
    base.sum().backward()
    lab.expect("gradient of crossing changes", x.grad, [[2.0, 6.0, 2.0, 2.0], [1.0, 3.0, 1.0, 1.0]])
    x.grad = None
    turned = (x * 1).t()
    turned[0].zero_()
    turned.mul_(2)
    (turned * turned.detach()).sum().backward()
    lab.same("gradient of a transposed base", x.grad)
    no_grad_base = lab.integers(2, 4)
    no_grad_row = no_grad_base[1]
    no_grad_row.add_(lab.integers(4, requires_grad=True) * 1)
    lab.same(
        "requires_grad flags after a write into a base without grad",
        [no_grad_base.requires_grad, no_grad_base[0].requires_grad, no_grad_row.requires_grad],
    )
    unchanged = lab.integers(4)
    inner = unchanged.view(2, 2)
    with torch.no_grad():
        inner.add_(x[:, :2])
    lab.same("not without gradients", [unchanged.requires_grad, inner.requires_grad])


@behaviour(
    "autograd",
    must_detect=("value",),
    page="autograd.html",
    ground="The page promises correct gradients whenever in-place operations raise no error",
)
def writes_by_index(lab: Lab) -> None:
    """An assignment by index, mask or slice passes gradients to the elements that are not overwritten, and to
    the values that are written.
    """
    x, y = lab.integers(4, 3, requires_grad=True), lab.integers(4, 3, requires_grad=True)
    where = lab.put([2, 0])
    mask = lab.put([[True, False, True]] * 4)
    weights = lab.integers(4, 3, low=1)
    for name, write in {
        "an element": lambda t: t.__setitem__((1, 2), y[0, 0]),
        "a number": lambda t: t.__setitem__(0, 5.0),
        "a row": lambda t: t.__setitem__(1, y[0]),
        "a slice": lambda t: t.__setitem__((slice(1, 3), slice(None, 2)), y[:2, 1:]),
        "a step": lambda t: t.__setitem__(slice(None, None, 2), y[1]),
        "rows": lambda t: t.__setitem__(where, y[:2]),
        "a mask": lambda t: t.__setitem__(mask, y[mask] * 2),
        "a mask and a number": lambda t: t.__setitem__(mask, 0.0),
        "everything": lambda t: t.__setitem__(..., y * 3),
        "a new dimension": lambda t: t.__setitem__(slice(0, 1), y[None, 2]),
        "broadcast": lambda t: t.__setitem__((slice(None), 1), y[0, 0]),
    }.items():
        x.grad = y.grad = None
        written = x * 1
        write(written)
        lab.same(f"value after {name}", written.detach())
        (written * weights).sum().backward()
        lab.same(f"gradients of {name}", [x.grad, y.grad])


@behaviour("autograd", must_detect=("value",), ground="follows from the chain rule")
def reads_by_index(lab: Lab) -> None:
    """If a read by index, mask or slice returns an element several times, the gradients of this element are
    added.
    """
    x = lab.integers(4, 5, requires_grad=True)
    twice = lab.put([1, 1, 3, 1])
    columns = lab.put([[0, 4], [4, 4]])
    for name, read in {
        "element": lambda: x[1, 2],
        "row": lambda: x[-1],
        "slice": lambda: x[1:4:2, ::3],
        "ellipsis": lambda: x[..., 1],
        "repeated rows": lambda: x[twice],
        "repeated pairs": lambda: x[twice[:2], columns],
        "list": lambda: x[[0, 0, 2]],
        "mask": lambda: x[x.detach() > 0],
        "new dimensions": lambda: x[None, :, None, 1],
        "index_select": lambda: x.index_select(0, twice),
        "gather": lambda: x.gather(1, lab.put([[0, 0, 4]] * 4)),
        "take": lambda: x.take(columns),
        "mixed": lambda: x[1:3, columns],
        "expanded": lambda: x.expand(3, 4, 5)[1:, 2],
        "diagonal": lambda: x.diagonal(),
        "expanded diagonal": lambda: x[0].expand(5, 5).diagonal() * 2,
        "expanded select": lambda: x[0].expand(3, 5).select(0, 1),
        "expanded slice": lambda: x[0].expand(3, 5)[0:2],
        "select and sum": lambda: x.select(1, 1).sum() + x.sum(0).select(0, 2),
    }.items():
        out = read()
        lab.same(f"value of {name}", out.detach())
        weights = torch.arange(1, out.numel() + 1, device=lab.device, dtype=out.dtype).view(out.shape)
        lab.same(f"gradient of {name}", torch.autograd.grad((out * weights).sum(), x)[0])


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    page="generated/torch.unsafe_split.html",
    ground="The page says that split restricts in-place changes of its results; unbind is not named",
)
def several_views_at_once(lab: Lab) -> None:
    """Views that ``split``, ``chunk`` and ``unbind`` return must not be changed in place while gradients are
    recorded. Results of ``unsafe_split``, and copies of views, may be changed.
    """
    x = lab.integers(4, 2, requires_grad=True)
    for name, make in {
        "split": lambda t: t.split(2),
        "chunk": lambda t: t.chunk(2),
        "unbind": lambda t: t.unbind(0),
        "split_with_sizes": lambda t: t.split_with_sizes([1, 3]),
    }.items():
        base = x * 1
        with (
            contextlib.nullcontext()
            if name in ("split", "chunk")
            else lab.parity("No page says that results of unbind or split_with_sizes refuse writes")
        ):
            lab.raises(
                f"a write into one result of {name}", lambda: make(base)[0].mul_(2), match="multiple views"
            )
        with lab.parity("No page says that views of these results refuse writes"):
            lab.raises(f"a write into a view of one result of {name}", lambda: make(base)[0].view(-1).mul_(2))
        parts = make(base)
        base.mul_(2)
        with lab.parity("No page says that reading the node is an error"):
            lab.raises(f"reading the graph of {name} after a change", lambda: parts[0].grad_fn)
        no_grad_base = x.detach().clone()
        make(no_grad_base)[0].mul_(2)
        lab.same(f"without gradients {name} may", no_grad_base)
    for name, make in {
        "unsafe_split": lambda t: t.unsafe_split(2),
        "unsafe_chunk": lambda t: t.unsafe_chunk(2),
        "unbind_copy": lambda t: torch.unbind_copy(t),
    }.items():
        x.grad = None
        parts = make(x * 1)
        parts[0].mul_(3)
        (parts[0].sum() + parts[1].sum()).backward()
        lab.same(f"gradient of {name}", x.grad)
    with torch.no_grad():
        parts = x.unbind(0)
        view = (x * 1)[0]
    with lab.parity("No page says that a view made under no_grad refuses writes"):
        lab.raises("a write into a view made under no_grad", lambda: parts[0].mul_(2))
    lab.same("a view of a tensor made under no_grad may be changed", view.mul_(2).requires_grad)


@behaviour(
    "autograd",
    level="training",
    must_detect=("value", "error"),
    page="https://docs.pytorch.org/tutorials/beginner/introyt/autogradyt_tutorial.html",
    ground="only a tutorial for users says that these writes raise an error",
)
def leaves_in_place(lab: Lab) -> None:
    """A leaf that requires grad must not be changed in place, directly or through a view. If values that
    require grad are written into a tensor that does not require grad, this tensor then requires grad.
    """
    leaf = lab.integers(2, 3, requires_grad=True)
    for name, change in {
        "add_": lambda: leaf.add_(1),
        "a view": lambda: leaf[0].mul_(2),
        "a view of a view": lambda: leaf.view(-1)[1:].zero_(),
        "assignment": lambda: leaf.__setitem__(0, 1.0),
        "transposed": lambda: leaf.t().add_(1),
    }.items():
        lab.raises(name, change, match="leaf", type_is_documented=True)
    with lab.consistent("A refused write must not change the leaf"):
        lab.same("the leaf is unchanged", leaf.detach())
    with lab.parity("No page says that inputs that require grad exclude out="):
        lab.raises("out=", lambda: torch.add(leaf, 1, out=lab.integers(2, 3)), match="out=")
    lab.raises(
        "an out= tensor that requires grad", lambda: torch.add(leaf.detach(), 1, out=leaf), match="out="
    )
    with torch.no_grad():
        into = lab.integers(2, 3)
        torch.add(leaf, 1, out=into)
        leaf.add_(1)
    lab.same("out= and a write into a leaf under no_grad", [into, leaf.detach()])
    product = lab.integers(2, 3)
    product.mul_(leaf)
    lab.same("flags after a product in place", [product.requires_grad, product.is_leaf])
    product.sum().backward()
    lab.same("gradient of the factor", leaf.grad)
    whole = lab.integers(2, 3, dtype=torch.int64)
    whole.add_(1)
    lab.same("integers stay without", whole.requires_grad)
    with lab.parity("No page says that a backward without a graph is an error after such a copy"):
        lab.raises("integers with a gradient", lambda: whole.copy_(leaf).sum().backward())


@behaviour(
    "autograd",
    must_detect=("value",),
    page="autograd.html",
    ground="The page promises correct gradients whenever in-place operations raise no error",
)
def changes_of_dtype_views(lab: Lab) -> None:
    """After a write into a real view of a complex tensor, or into a complex view of a real tensor, both
    tensors have correct gradients.
    """
    z = lab.integers(3, dtype=torch.complex64, requires_grad=True)
    base = z * 1
    real = torch.view_as_real(base)
    real.mul_(2)
    lab.same("base", base.detach())
    (base * base.conj()).real.sum().backward()
    lab.same("gradient through view_as_real", z.grad)
    z.grad = None
    base = z * 1
    base.imag.mul_(3)
    base.real.zero_()
    (base * lab.put([1 + 1j, 2.0, 3j])).real.sum().backward()
    lab.same("gradient through parts", z.grad)
    x = lab.integers(3, 2, requires_grad=True)
    pairs = x * 1
    torch.view_as_complex(pairs).mul_(1j)
    lab.same("turned", pairs.detach())
    (pairs * lab.put([[1.0, 2.0]] * 3)).sum().backward()
    lab.same("gradient through view_as_complex", x.grad)


@behaviour(
    "autograd",
    must_detect=("value",),
    page="autograd.html",
    ground="The page promises correct gradients whenever in-place operations raise no error",
)
def gradients_past_changes(lab: Lab) -> None:
    """A chain of in-place writes gives the same gradients as the equivalent out-of-place operators. A write
    through a detached view is not recorded in the graph.
    """
    x, y = lab.integers(3, requires_grad=True), lab.integers(3, requires_grad=True)
    a = x * 1
    a.mul_(y).add_(x).mul_(2).sub_(y)
    expected = (x * y + x) * 2 - y
    with lab.consistent("in-place and out-of-place operators must give the same values"):
        lab.holds("values agree", torch.equal(a.detach().cpu(), expected.detach().cpu()))
    lab.same("chain", torch.autograd.grad(a.sum(), (x, y)))
    lab.same("plain", torch.autograd.grad(expected.sum(), (x, y)))
    base = (x * 1).expand(2, 3).clone()
    half = base[0].detach()
    half.zero_()
    lab.same("after a detached half was cleared", base.detach())
    base.sum().backward()
    lab.expect("gradient without the write through a detached view", x.grad, [2.0, 2.0, 2.0])
    x.grad = None
    b = x * 2
    c = b
    c += y
    lab.holds("+= changes in place", c is b)
    c.sum().backward()
    lab.same("gradient of +=", x.grad)
    wide = lab.integers(3, 4).t().requires_grad_()
    gaps = (wide * 1)[::2]
    gaps.mul_(3)
    gaps.sum().backward()
    lab.same("gradient of a view with gaps", wide.grad)
    w = x.clone()
    w.unsqueeze_(0).squeeze_(0)
    w.sum().backward()
    lab.same("gradient of a tensor whose shape was changed in place", x.grad)
    cleared = x.clone()
    cleared.t_()
    with torch.no_grad():
        cleared.zero_()
    cleared.sum().backward()
    lab.same("a change without gradients is not recorded", x.grad)
