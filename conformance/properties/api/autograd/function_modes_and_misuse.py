"""Behaviours of user-defined ``autograd.Function`` classes: grad modes, lifetimes, misuse, views and repeated
differentiation.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.autograd.function import Function

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


class _DoubleFunction(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2


@behaviour(
    "autograd",
    capabilities=("double_backward",),
    must_detect=("value", "error"),
    page="notes/extending.html",
    ground="The forward gets tensors that do not track history; gradients may be enabled locally",
)
def grad_mode_in_functions(lab: Lab) -> None:
    """The forward of an ``autograd.Function`` runs with gradients disabled. Under ``no_grad`` the result does
    not require grad. The forward and the backward may enable gradients.
    """
    modes = []

    class RecordsGradMode(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            modes.append(torch.is_grad_enabled())
            with torch.enable_grad():
                inner_input = x.detach().requires_grad_()
                result = inner_input * inner_input
            ctx.save_for_backward(inner_input, result)
            return result.detach()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            modes.append(torch.is_grad_enabled())
            inner_input, result = ctx.saved_tensors
            with torch.enable_grad():
                (gradient,) = torch.autograd.grad(result, inner_input, grad)
            return gradient

    x = lab.put([1.0, 2.0, 3.0], requires_grad=True)
    RecordsGradMode.apply(x).sum().backward()
    lab.expect("gradient of a graph inside the forward", x.grad, [2.0, 4.0, 6.0])
    with torch.no_grad():
        result = RecordsGradMode.apply(x)
    lab.same("under no_grad", [result.requires_grad, modes])
    with lab.parity("No page says that a backward of a tensor without history is an error"):
        lab.raises(
            "backward of a result without history",
            lambda: result.sum().backward(),
            match="does not require grad",
        )
    RecordsGradMode.apply(x).sum().backward(create_graph=True)
    lab.same("grad mode with create_graph", modes[-1])
    x.grad = None


@behaviour("autograd", capabilities=("double_backward",), must_detect=("value",), page="notes/extending.html")
def functions_differentiated_repeatedly(lab: Lab) -> None:
    """Higher derivatives through an ``autograd.Function`` can be computed repeatedly, with and without
    ``create_graph``.
    """
    x = lab.integers(4, low=1, high=3, requires_grad=True)

    class CubeFunction(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * 3 * x * x

    derivatives = []
    total = CubeFunction.apply(x).sum()
    for _ in range(3):
        (gradient,) = torch.autograd.grad(total, x, create_graph=True)
        derivatives.append(gradient.detach().clone())
        total = gradient.sum()
    lab.same("three derivatives of a cube", derivatives)
    lab.expect("the third", derivatives[2], [6.0] * 4)
    outer = CubeFunction.apply(CubeFunction.apply(x))
    derivative = torch.autograd.grad(outer.sum(), x, create_graph=True)[0]
    second_derivatives = [torch.autograd.grad(derivative.sum(), x, retain_graph=True)[0] for _ in range(3)]
    lab.same("second derivative of a cube of a cube", second_derivatives)


@behaviour(
    "autograd",
    must_detect=("value",),
    page="notes/extending.html",
    basis="parity",
    ground="No page says when the objects that a context holds are freed",
)
def graphs_of_functions_are_freed(lab: Lab) -> None:
    """The objects that the context of an ``autograd.Function`` holds are freed together with the graph. A
    deep graph is freed without deep recursion.
    """

    class OwnedObject:
        pass

    class KeepsObjectInContext(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            ctx.owner = owners[0]
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    owners = [OwnedObject()]
    watch = weakref.ref(owners[0])
    x = lab.integers(3, requires_grad=True)
    result = KeepsObjectInContext.apply(x)
    owners.clear()
    lab.holds("the context lives as long as the result", watch() is not None)
    result.sum().backward()
    with lab.documented():
        lab.same("gradient", x.grad)
    del result
    lab.holds("the context is freed with the result", lab.gone(watch))

    deep = lab.integers(1, requires_grad=True)
    chain = deep
    for _ in range(600):
        chain = _DoubleFunction.apply(chain) - chain
    with lab.documented():
        lab.same("end of a chain", chain.detach())
    chain.backward()
    with lab.documented():
        lab.expect("gradient of a chain", deep.grad, [1.0])
    chain = deep * 1
    for _ in range(3000):
        chain = chain + 1
    del chain
    lab.holds("an unused deep graph is freed", True)


@behaviour(
    "autograd",
    must_detect=("error",),
    page="notes/extending.html",
    basis="parity",
    ground="No page says that these mistakes raise an error",
)
def misuse_of_functions(lab: Lab) -> None:
    """Misuse of an ``autograd.Function`` raises an error and does not crash. Examples are calling an
    instance, a missing backward, saving an object that is not a tensor, and reading saved tensors that were
    freed.
    """
    x = lab.integers(3, requires_grad=True)
    bare = _DoubleFunction()
    lab.raises("calling an instance", lambda: bare(x), RuntimeError, TypeError)
    lab.raises("a backward alone", lambda: bare.apply_backward(x), AttributeError, RuntimeError, TypeError)  # type: ignore[attr-defined]
    stashed: list[Any] = []

    class StoresItsContext(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            ctx.save_for_backward(x)
            stashed.append(ctx)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    result = StoresItsContext.apply(x)
    lab.same("a saved tensor that is read through a stored context", stashed[0].saved_tensors[0].detach())
    result.sum().backward()
    lab.raises(
        "a freed tensor that is read through a stored context",
        lambda: stashed[0].saved_tensors,
        match="second time|already been freed",
    )
    stashed.clear()

    class FunctionWithoutBackward(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            return x.clone()

    lab.raises("no backward", lambda: FunctionWithoutBackward.apply(x).sum().backward(), NotImplementedError)

    class SavesString(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            ctx.save_for_backward("word")
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    with lab.documented():
        lab.raises("saving an object that is not a tensor", lambda: SavesString.apply(x), TypeError)


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    page="generated/torch.narrow.html",
    ground="narrow returns a view; it follows that a Function may return this view",
)
def views_out_of_functions(lab: Lab) -> None:
    """A view that an ``autograd.Function`` returns shares memory with its base. An in-place write into this
    view is refused if the input requires grad.
    """

    class ReturnsFirstRowView(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            ctx.shape = x.shape
            return x.narrow(0, 0, 1)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            full = grad.new_zeros(ctx.shape)
            full[0] = grad[0] * 10
            return full

    class ReturnsViewAndDouble(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            return x.view_as(x), x * 2

        @staticmethod
        def backward(ctx: Any, first_grad: Any, second_grad: Any) -> Any:
            return first_grad + 2 * second_grad

    x = lab.integers(2, 3, requires_grad=True)
    base = x * 1
    row = ReturnsFirstRowView.apply(base)
    lab.shares("base and row", base, row)
    row.sum().backward()
    lab.expect("gradient of a row", x.grad, [[10.0] * 3, [0.0] * 3])
    base = x * 1
    with lab.parity("No page says that a write into a view that a Function returns is an error"):
        lab.raises(
            "in place on a view made by a Function",
            lambda: ReturnsFirstRowView.apply(base).mul_(2).sum(),
            match="custom Function",
        )
    with torch.no_grad():
        lab.same(
            "a Function's view and narrow have equal requires_grad flags",
            ReturnsFirstRowView.apply(x).requires_grad == x.narrow(0, 0, 1).requires_grad,
        )
    first, second = ReturnsViewAndDouble.apply(x * 1)
    with lab.parity("No page says that a write into a view that a Function returns is an error"):
        lab.raises("in place on one of several results", lambda: first.mul_(2), match="in-?place|inplace")
    second.mul_(3)
    x.grad = None
    second.sum().backward()
    lab.expect("in place on a result that is not a view", x.grad, [[6.0] * 3] * 2)
    without_gradient = lab.integers(2, 3)
    view = ReturnsFirstRowView.apply(without_gradient)
    view.add_(1)
    lab.same("in place without gradients", without_gradient)


@behaviour(
    "autograd",
    must_detect=("value",),
    page="notes/extending.html",
    ground="values and gradients follow from the formulas of the Function",
)
def functions_change_local_tensors(lab: Lab) -> None:
    """The forward and the backward of an ``autograd.Function`` may change tensors in place that they created
    themselves, also before these tensors are saved.
    """

    class WritesLocalTensors(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            local = x.clone()
            local[0] = 0
            local.mul_(2)
            view = local.view(-1)
            view.add_(1)
            ctx.save_for_backward(local)
            return local

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (local,) = ctx.saved_tensors
            grad = grad.clone()
            grad[0] = 0
            grad.mul_(2)
            return grad + 0 * local

    x = lab.integers(3, 2, requires_grad=True)
    result = WritesLocalTensors.apply(x)
    lab.same("result", result.detach())
    result.sum().backward()
    lab.expect("gradient", x.grad, [[0.0, 0.0], [2.0, 2.0], [2.0, 2.0]])
    mask = lab.put([True, False, True])
    x.grad = None
    cloned = x.clone()
    cloned[mask] = 0
    (cloned * cloned).sum().backward()
    lab.same("gradient after a masked write", x.grad)


@behaviour(
    "autograd",
    must_detect=("value",),
    page="notes/extending.html",
    basis="parity",
    ground="No page says which class a result has when a Function returns its input",
)
def functions_on_subclasses(lab: Lab) -> None:
    """If the forward of an ``autograd.Function`` returns its input, the result has the class of the input,
    also for a tensor subclass.
    """

    class EmptySubclass(torch.Tensor):
        pass

    class IdentityWithScaledGradient(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 5

    x: Any = lab.integers(3).as_subclass(EmptySubclass).requires_grad_()
    result = IdentityWithScaledGradient.apply(x)
    lab.holds("the subclass stays", type(result) is EmptySubclass)
    result.sum().backward()
    with lab.documented():
        lab.expect("gradient", x.grad.as_subclass(torch.Tensor), [5.0, 5.0, 5.0])


@behaviour(
    "autograd",
    capabilities=("double_backward",),
    must_detect=("value",),
    page="generated/torch.Tensor.backward.html",
)
def backward_without_a_graph(lab: Lab) -> None:
    """The operations of a backward are recorded only with ``create_graph``. Saved leaves are unpacked with
    the ``requires_grad`` flag that they had when they were saved.
    """
    flags = []

    class RecordsRequiresGradInBackward(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x, y = ctx.saved_tensors
            grad_x = grad * y
            flags.append((grad_x.requires_grad, x.requires_grad))
            return grad_x, grad * x

    x: Any = lab.integers(3, requires_grad=True)
    y = lab.integers(3, requires_grad=True)
    RecordsRequiresGradInBackward.apply(x, y).sum().backward()
    lab.same("gradients", (x.grad, y.grad))
    lab.holds("gradients need no gradient", not x.grad.requires_grad)
    (first,) = torch.autograd.grad(RecordsRequiresGradInBackward.apply(x, y).sum(), x, create_graph=True)
    lab.holds("with create_graph they do", first.requires_grad)
    lab.same("flags seen in backward", flags)
    lab.holds("saved inputs still require grad", x.requires_grad and y.requires_grad)
