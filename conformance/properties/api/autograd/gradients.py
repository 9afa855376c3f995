"""Behaviours of ``torch.autograd.backward`` and ``torch.autograd.grad``: results, accumulation, refusals."""

from __future__ import annotations

from typing import Any

import torch

from conformance.behaviours.behaviour import FLOATS, behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "autograd",
    dtypes=FLOATS,
    level="bringup",
    must_detect=("value",),
    page="generated/torch.Tensor.backward.html",
)
def gradients_accumulate(lab: Lab) -> None:
    """``backward`` adds to ``.grad`` of every leaf that requires grad, and does not change ``.grad`` of other
    tensors. A gradient has the dtype and device of its leaf.
    """
    x, y, fixed = (
        lab.integers(2, 3, requires_grad=True),
        lab.integers(2, 3, requires_grad=True),
        lab.integers(2, 3),
    )
    (x * y + fixed * x).sum().backward()
    lab.same("after one backward", [x.grad, y.grad])
    lab.holds("a tensor without requires_grad has no gradient", fixed.grad is None)
    first = x.grad
    (x * 2).sum().backward()
    lab.same("after two", x.grad)
    lab.holds("the gradient is accumulated in place", x.grad is first)
    x.grad = None
    (x * 3).sum().backward()
    lab.expect("after the gradient was cleared", x.grad, [[3.0] * 3] * 2)


@behaviour(
    "autograd",
    level="training",
    must_detect=("value", "error"),
    page="generated/torch.autograd.backward.html",
)
def backward_of_several(lab: Lab) -> None:
    """``torch.autograd.backward`` accepts several tensors and one gradient for each of them. The gradient of
    a scalar may be None. A tensor may occur twice.
    """
    x, y = lab.integers(3, low=1, requires_grad=True), lab.integers(3, low=1, requires_grad=True)
    a, b = x * y, (x + y).sum()
    torch.autograd.backward((a, b), (lab.put([1.0, 2.0, 3.0]), None))
    lab.same("both", [x.grad, y.grad])
    x.grad = y.grad = None
    double = x * y
    ones = torch.ones_like(double)
    torch.autograd.backward((double, double), (ones, ones * 2))
    lab.same("the same root twice", [x.grad, y.grad])
    lab.raises(
        "backward of a tensor that is not a scalar",
        lambda: (x * 2).backward(),
        match="scalar",
        type_is_documented=True,
        text_is_documented=True,
    )
    lab.raises("too few gradients", lambda: torch.autograd.backward((x * 2, y * 2), (ones,)))
    lab.raises("a wrong shape", lambda: (x * 2).backward(lab.integers(2)), match="shape|size")
    lab.raises(
        "no graph",
        lambda: lab.integers(2).sum().backward(),
        match="does not require grad",
        type_is_documented=True,
        text_is_documented=True,
    )
    lab.raises(
        "None as the gradient of a root that is not a scalar",
        lambda: torch.autograd.backward((x * 2,), (None,)),
    )
    mixed = [x * 1, lab.integers(3)]
    with lab.parity(
        "No page refuses roots of which one does not require grad; the page even mentions such roots"
    ):
        lab.raises(
            "two roots, one does not require grad",
            lambda: torch.autograd.backward(mixed, (ones, ones)),
            match="element 1",
        )


@behaviour(
    "autograd",
    capabilities=("double_backward",),
    level="training",
    must_detect=("value", "error"),
    page="generated/torch.autograd.grad.html",
)
def grad_calls(lab: Lab) -> None:
    """``torch.autograd.grad`` returns gradients and does not change ``.grad``. An unused input is an error.
    With ``allow_unused`` its gradient is None, and with ``materialize_grads`` its gradient is zero.
    """
    x, y, unrelated = (lab.integers(2, 2, requires_grad=True) for _ in range(3))
    z = x * x + y * x + y * y
    lab.same("gradients", torch.autograd.grad(z, (x, y), torch.ones_like(z), retain_graph=True))
    lab.holds("nothing was accumulated", x.grad is None and y.grad is None)
    first = torch.autograd.grad(z.sum(), (x, y), create_graph=True)
    second = torch.autograd.grad(first[0].sum() + first[1].sum(), (x, y), retain_graph=True)
    lab.expect("second derivatives", second[0], [[3.0, 3.0], [3.0, 3.0]])
    lab.raises(
        "unused",
        lambda: torch.autograd.grad(z.sum(), (x, unrelated), retain_graph=True),
        match="unused|not have been used",
    )
    gradients = torch.autograd.grad(z.sum(), (x, unrelated), retain_graph=True, allow_unused=True)
    lab.holds("the gradient with allow_unused is None", gradients[1] is None)
    gradients = torch.autograd.grad(z.sum(), (x, unrelated), retain_graph=True, materialize_grads=True)
    lab.expect("gradient with materialize_grads", gradients[1], [[0.0, 0.0], [0.0, 0.0]])
    lab.raises(
        "materialized but not allowed",
        lambda: torch.autograd.grad(z.sum(), unrelated, allow_unused=False, materialize_grads=True),
        ValueError,
        match="allow_unused",
    )
    with lab.parity("No page says that an empty list of inputs is an error"):
        lab.raises(
            "no inputs", lambda: torch.autograd.grad(z.sum(), []), ValueError, RuntimeError, match="inputs"
        )
    lab.raises("inputs of no need", lambda: torch.autograd.grad(z.sum(), lab.integers(2)), match="require")
    with lab.parity("No page says that a number in place of a tensor is refused"):
        lab.raises("a number", lambda: torch.autograd.grad(z.sum(), 3), TypeError, RuntimeError)  # type: ignore[call-overload]
    hidden = x * 2
    out = (hidden * y).sum()
    lab.same(
        "with respect to a tensor that is not a leaf", torch.autograd.grad(out, hidden, retain_graph=True)
    )
    lab.same("gradients of a tensor and of the leaf below it", torch.autograd.grad(out, (hidden, x)))


@behaviour(
    "autograd",
    must_detect=("value",),
    ground="The hooks section implies that gradients not needed for the inputs are not computed",
)
def gradients_of_unreachable_leaves(lab: Lab) -> None:
    """``torch.autograd.grad`` runs only the nodes that lead to its inputs. Other leaves get no gradient, and
    hooks on other paths are not called.
    """
    x, y = lab.integers(3, requires_grad=True), lab.integers(3, requires_grad=True)
    calls: list[str] = []
    a = x * 2
    b = y * 3
    b.register_hook(lambda grad: calls.append("b"))
    out = (a * b).sum()
    lab.same("gradient of x", torch.autograd.grad(out, x, retain_graph=True))
    lab.same("calls", calls)
    both_gradients = torch.autograd.grad(out, (x, y), retain_graph=True)
    lab.same("both", both_gradients)
    lab.same("calls with both", calls)
    z = x.unbind(0)
    gradients = torch.autograd.grad(z[0] * 5, (x, z[0], z[1]), allow_unused=True)
    lab.same("one of several outputs", [gradients[0], gradients[1], gradients[2] is None])


@behaviour(
    "autograd",
    level="training",
    must_detect=("value", "error"),
    page="generated/torch.autograd.backward.html",
)
def backward_into_chosen_inputs(lab: Lab) -> None:
    """``backward`` with ``inputs=`` accumulates only into the given tensors, also if they are not leaves."""
    x, y = lab.integers(2, 2, requires_grad=True), lab.integers(2, 2, requires_grad=True)

    def sum_of_products() -> torch.Tensor:
        return (x * y + y * y).sum()

    sum_of_products().backward(inputs=[x])
    lab.same("x alone", [x.grad, y.grad is None])
    x.grad = None
    sum_of_products().backward(inputs=(x, y))
    lab.same("both", [x.grad, y.grad])
    x.grad = y.grad = None
    sum_of_products().backward(inputs=x)
    lab.same("a tensor in place of a list", [x.grad, y.grad is None])
    x.grad = None
    hidden = x * y
    hidden.retain_grad()
    (hidden * 3).sum().backward(inputs=[hidden, x])
    lab.same("a tensor that is not a leaf", [hidden.grad, x.grad, y.grad is None])
    with lab.parity("No page says that an empty list of inputs is an error"):
        lab.raises("none at all", lambda: sum_of_products().backward(inputs=[]), match="empty")
    torch.autograd.backward(sum_of_products(), inputs=[y])
    lab.same("as a function", y.grad)


@behaviour(
    "autograd",
    level="training",
    must_detect=("value", "error"),
    page="generated/torch.autograd.backward.html",
    ground="The page frees the graph; the notes mention the error of a second backward",
)
def graphs_are_freed(lab: Lab) -> None:
    """A second backward through a graph is an error if the first backward freed saved tensors. The second
    backward is allowed if the first used ``retain_graph``, or if the graph saved no tensors.
    """
    x = lab.integers(3, requires_grad=True)
    y: Any = x * x
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    lab.same("retained", x.grad)
    lab.raises("a second backward", lambda: y.sum().backward(), match="second time")
    with lab.parity("No page says that reading a freed saved tensor is an error"):
        lab.raises("saved values of a freed node", lambda: y.grad_fn._saved_self, match="freed|second time")
    x.grad = None
    h = x * x
    a, b = h.sum(), (h * 2).sum()
    a.backward(retain_graph=True)
    b.backward()
    lab.same("of two heads", x.grad)
    x.grad = None
    z = x + 1
    ones = torch.ones_like(z)
    with lab.parity("No page says that a graph without saved tensors survives a backward"):
        for _ in range(3):
            z.backward(ones)
        lab.expect("if nothing is saved", x.grad, [3.0, 3.0, 3.0])


@behaviour(
    "autograd",
    capabilities=("double_backward",),
    level="training",
    must_detect=("value", "warning"),
    page="generated/torch.autograd.grad.html",
)
def gradients_of_gradients(lab: Lab) -> None:
    """With ``create_graph``, gradients can be differentiated again. Hessian-vector products have the correct
    values.
    """
    x: Any = lab.put([1.0, 2.0], requires_grad=True)
    y = lab.put([3.0, -1.0], requires_grad=True)
    f = (x**2 * y + y**3).sum()
    gx, gy = torch.autograd.grad(f, (x, y), create_graph=True)
    lab.expect("df/dx", gx.detach(), [6.0, -4.0])
    lab.expect("df/dy", gy.detach(), [28.0, 7.0])
    vector = lab.put([1.0, 3.0])
    hx, hy = torch.autograd.grad((gx * vector).sum() + (gy * vector).sum(), (x, y))
    lab.expect("Hessian vector product in x", hx, [8.0, 6.0])
    lab.expect("Hessian vector product in y", hy, [20.0, -6.0])
    w = x * 2
    w.sum().backward(create_graph=True)
    lab.holds("backward with create_graph sets .grad", x.grad is not None)
    x.grad = None

    def backward_with_create_graph() -> None:
        (x * x).sum().backward(create_graph=True)

    lab.warns("backward with create_graph", backward_with_create_graph, match="create_graph")
    lab.holds("the accumulated gradient requires grad", x.grad is not None and x.grad.requires_grad)
    (x.grad * 3).sum().backward()
    lab.expect("gradient after a backward through .grad", x.grad.detach(), [8.0, 10.0])
    x.grad = None


@behaviour(
    "autograd",
    dtypes=("float32", "complex64"),
    must_detect=("value", "error"),
    page="generated/torch.autograd.grad.html",
)
def batched_gradients(lab: Lab) -> None:
    """``torch.autograd.grad`` with ``is_grads_batched`` returns one row of gradients for each row of
    ``grad_outputs``.
    """
    x = lab.integers(3, requires_grad=True)
    y = x * x * 2
    rows = torch.eye(3, device=lab.device, dtype=lab.dtype)
    jacobian = torch.autograd.grad(y, x, rows, is_grads_batched=True, retain_graph=True)[0]
    lab.same("Jacobian", jacobian)
    slow = torch.stack([torch.autograd.grad(y, x, row, retain_graph=True)[0] for row in rows])
    with lab.consistent("The batched call and single calls must give the same rows"):
        lab.holds("the batched gradients equal the single gradients", torch.equal(jacobian.cpu(), slow.cpu()))
    with lab.parity("The page does not say that a batch of a wrong shape is an error"):
        lab.raises(
            "a batch of one dimension too few",
            lambda: torch.autograd.grad(y, x, rows[0], is_grads_batched=True),
        )


@behaviour("autograd", level="training", must_detect=("value", "error"))
def leaves_and_requires_grad(lab: Lab) -> None:
    """``requires_grad`` can be set only on leaves of floating and complex dtypes. Results inherit the flag,
    and ``detach`` clears it.
    """
    x = lab.integers(2, 2)
    lab.same("at first", [x.requires_grad, x.is_leaf, x.grad_fn is None])
    lab.holds("requires_grad_ returns its tensor", x.requires_grad_() is x)
    y = x * 2
    lab.same("a result", [y.requires_grad, y.is_leaf, y.grad_fn is None])
    with lab.parity("No page says that clearing the flag of a result is an error"):
        lab.raises("on a result", lambda: setattr(y, "requires_grad", False), match="leaf")
    z = y.detach()
    lab.same("detached", [z.requires_grad, z.is_leaf])
    lab.shares("a tensor and its detached tensor", y, z)
    z.fill_(5)
    lab.same("a tensor after a write into its detached tensor", y.detach())
    for dtype in (torch.int64, torch.bool, torch.uint8):
        whole = lab.put([1, 0], dtype=dtype)
        lab.raises(f"requires_grad_() of {dtype}", lambda: whole.requires_grad_(), match="floating")
        lab.holds(
            f"requires_grad_(False) of {dtype} returns the tensor", whole.requires_grad_(False) is whole
        )
    for dtype in (torch.float16, torch.bfloat16, lab.other_float, torch.complex64):
        lab.same(f"{dtype}", lab.put([1, 0], dtype=dtype).requires_grad_().requires_grad)
    leaf = torch.zeros(2, device=lab.device, requires_grad=True)
    lab.same("factory", [leaf.requires_grad, leaf.is_leaf])
    like = torch.ones_like(y, requires_grad=True)
    lab.same("like", [like.requires_grad, like.is_leaf])
    lab.raises(
        "a factory of integers",
        lambda: torch.zeros(2, device=lab.device, dtype=torch.int64, requires_grad=True),
        match="floating",
    )
    integers = y.long()
    lab.same("a result of integers", integers.requires_grad)
    y.detach_()
    lab.same("detached in place", [y.requires_grad, y.is_leaf, y.grad_fn is None])
    lab.raises("numpy() of a tensor that requires grad", lambda: (x * 1).cpu().numpy(), match="detach")


@behaviour(
    "autograd",
    level="training",
    must_detect=("error",),
    page="autograd.html",
    ground="The section on gradient layouts assigns gradients; the refusals are on no page",
)
def assigned_gradients(lab: Lab) -> None:
    """The ``.grad`` of a tensor can be set to None, or to a tensor with the same shape, dtype and device. A
    tensor with another shape, dtype or device is refused.
    """
    x = lab.integers(2, 3, requires_grad=True)
    assigned = lab.integers(2, 3)
    x.grad = assigned
    lab.holds("the assigned gradient is the same object", x.grad is assigned)
    (x * 2).sum().backward()
    lab.same("accumulated into", assigned)
    with lab.parity("No page says that a gradient of a wrong shape is refused"):
        lab.raises("another shape", lambda: setattr(x, "grad", lab.integers(3, 3)), match="size")
    with lab.parity("No page says that a gradient of a wrong dtype is refused"):
        lab.raises(
            "another dtype",
            lambda: setattr(x, "grad", lab.integers(2, 3, dtype=lab.other_float)),
            match="type",
        )
    with lab.parity("No page says that a tensor cannot be its own gradient"):
        lab.raises("itself", lambda: setattr(x, "grad", x), match="own grad")
    with lab.parity("No page says that a number is refused"):
        lab.raises("a number", lambda: setattr(x, "grad", 0), TypeError)
    x.grad = None
    lab.holds("the gradient can be set to None", x.grad is None)
    x.grad = assigned
    with lab.parity("No page says that the attribute can be deleted"):
        del x.grad
        lab.holds("and deleted", x.grad is None)
    meta = torch.empty(2, 3, device="meta")
    with lab.parity("No page says that a gradient on another device is refused"):
        lab.raises("another device", lambda: setattr(x, "grad", meta), match="device|type")


@behaviour(
    "autograd",
    must_detect=("warning",),
    page="https://docs.pytorch.org/tutorials/beginner/understanding_leaf_vs_nonleaf_tutorial.html",
    ground="only a tutorial for users says that reading the gradient of a result warns",
)
def gradient_of_non_leaf_warns(lab: Lab) -> None:
    """Reading ``.grad`` of a non-leaf tensor warns, unless the gradient is retained. Reading ``.grad`` of a
    leaf does not warn.
    """
    x = lab.integers(3, requires_grad=True)
    lab.silent("a leaf", lambda: x.grad)
    lab.silent("no need", lambda: lab.integers(2).grad)
    y = x * 2
    lab.warns("a result", lambda: y.grad, match="not a leaf", is_documented=True)
    y.retain_grad()
    lab.silent("a retained result", lambda: y.grad)
    with torch.no_grad():
        lab.silent("under no_grad", lambda: (x * 2).grad)
    y.sum().backward()
    lab.same("retained", y.grad)


@behaviour(
    "autograd",
    must_detect=("value",),
    ground="follows from the chain rule for empty tensors and unused results",
)
def gradients_of_nothing(lab: Lab) -> None:
    """Tensors without elements have gradients without elements. An unused output of an operator contributes
    zeros to the gradient.
    """
    x = lab.integers(0, 3, requires_grad=True)
    (x * 2).sum().backward()
    lab.same("empty", x.grad)
    y = lab.integers(4, 3, requires_grad=True)
    top, where = y.sort(dim=0, stable=True)
    lab.holds("positions need no gradient", not where.requires_grad)
    top[0].sum().backward()
    lab.same("of sorted values", y.grad)
    a, _, c, _ = lab.integers(4, 2, requires_grad=True).unbind(0)
    lab.same("unused parts", torch.autograd.grad((a + c).sum(), (a, c)))
    empty = lab.integers(3, 0, requires_grad=True)
    out = empty @ lab.integers(0, 2)
    lab.expect("a product over nothing", out.detach(), [[0.0, 0.0]] * 3)
    out.sum().backward()
    lab.same("its gradient", empty.grad)


@behaviour("autograd", must_detect=("value",), capabilities=("strides",), page="autograd.html")
def layout_of_leaf_gradients(lab: Lab) -> None:
    """The first gradient of a dense leaf has the leaf's strides. The first gradient of a leaf with memory
    gaps is contiguous.
    """
    for name, start in {
        "channels last": lab.integers(2, 3, 2, 2).contiguous(memory_format=torch.channels_last),
        "transposed": lab.integers(3, 2).t(),
        "contiguous": lab.integers(2, 3),
    }.items():
        leaf: Any = start.detach().requires_grad_()
        (leaf * leaf.detach()).sum().backward()
        lab.same(f"gradient of a {name} leaf", leaf.grad)
        lab.same(f"strides of a {name} leaf's gradient", lab.strides(leaf.grad) == lab.strides(leaf))
    gaps: Any = lab.integers(3, 4)[:, ::2].requires_grad_()
    (gaps * 2).sum().backward()
    lab.holds("a leaf with gaps has a contiguous gradient", gaps.grad.is_contiguous())
    lab.expect("its gradient", gaps.grad, [[2.0, 2.0]] * 3)
