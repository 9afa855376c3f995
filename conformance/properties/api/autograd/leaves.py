"""Behaviours of ``.data``, of saved leaves, of small graphs, of module hooks in double backward, and of the
``jvp`` of ``autograd.Function`` classes.
"""

from __future__ import annotations

import copy
import io
import pickle
import weakref
from typing import Any

import torch
import torch.autograd.forward_ad as forward
from torch.autograd.function import Function

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    page="tensors.html",
    basis="parity",
    ground="No page describes the attribute `data`",
)
def data_of_tensors(lab: Lab) -> None:
    """``.data`` is the tensor without its graph. ``.data`` can be set to a tensor of another size, but not to
    a tensor of another layout (such as sparse). The ``requires_grad`` flag of the tensor is preserved.
    """
    x = lab.integers(2, 3, requires_grad=True)
    data = x.data
    lab.same("flags of .data", [data.requires_grad, data.is_leaf])
    lab.shares("tensor and data", x, data)
    data.mul_(2)
    lab.same("written through", x.detach())
    lab.same("no version is counted", x._version)
    x.data = lab.integers(4)
    lab.same("replaced", [x.shape, x.requires_grad, x.is_leaf])
    (x * 3).sum().backward()
    lab.expect("gradient", x.grad, [3.0] * 4)
    y = lab.integers(2)
    y.data = y.data
    lab.same("by itself", y)
    lab.raises("by another kind", lambda: setattr(y, "data", torch.sparse_coo_tensor((2, 2))), match="type")  # type: ignore[arg-type,call-arg]
    lab.raises("by a number", lambda: setattr(y, "data", 3), TypeError)


@behaviour(
    "autograd",
    level="training",
    capabilities=("serialization",),
    must_detect=("value",),
    page="notes/serialization.html",
    basis="consistency",
    ground="A loaded tensor must have the values and flags of the saved tensor",
)
def leaves_saved(lab: Lab) -> None:
    """``pickle`` and ``torch.save`` preserve leaves, parameters and their ``requires_grad`` flags, and do not
    save gradients. A deep copy of a result with a graph is refused.
    """
    x = lab.integers(3, requires_grad=True)
    for name, copied in {
        "pickle": pickle.loads(pickle.dumps(x)),
        "saved": torch.load(_saved_to_buffer(x), weights_only=True),
        "parameter": torch.load(_saved_to_buffer(torch.nn.Parameter(x.detach())), weights_only=True),
    }.items():
        lab.same(name, [copied.requires_grad, copied.is_leaf, copied.detach()])
    (x * 2).sum().backward()
    buffer = torch.load(_saved_to_buffer(x), weights_only=True)
    with lab.parity("No page says that gradients are omitted"):
        lab.holds("gradients are not saved", buffer.grad is None)
    with lab.parity("No page says that a deep copy of a result is an error"):
        lab.raises("a deep copy of a result", lambda: copy.deepcopy(x * 2), match="leaf|leaves|graph")


def _saved_to_buffer(value: Any) -> io.BytesIO:
    """Return a buffer to which ``torch.save`` wrote a value. The buffer is rewound to its beginning."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


@behaviour("autograd", must_detect=("value",))
def small_graphs(lab: Lab) -> None:
    """Gradients of small graphs are correct. Examples are isolated results, powers with a tensor as base or
    exponent, leaves that an ``autograd.Function`` returns, and unused outputs.
    """
    x: Any = lab.put([1.0, 2.0, 3.0], requires_grad=True)
    y = lab.put([3.0, 2.0, 1.0], requires_grad=True)
    z = x + y
    lab.same("shape within a graph", [z.shape, z.size(0), z.dim(), len(z), z.numel()])
    where = z.argmax(0)
    picked = z.detach().requires_grad_()
    picked[where.item() : where.item() + 1].sum().backward()
    lab.same("an isolated node", picked.grad)
    lab.expect("base", torch.autograd.grad((x**2).sum(), x)[0], [2.0, 4.0, 6.0])
    lab.close("exponent", torch.autograd.grad((2**x).sum(), x)[0], roundings=64)
    lab.close("both", torch.autograd.grad((x**y).sum(), (x, y)), roundings=64)

    class ReturnsInputAndSum(Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> Any:
            return a, a + b

        @staticmethod
        def backward(ctx: Any, ga: Any, gb: Any) -> Any:
            return ga + gb, gb

    first, second = ReturnsInputAndSum.apply(x, y)
    x.register_hook(lambda grad: grad * 2)
    (first + second * 2).sum().backward()
    lab.expect("gradient of a leaf that a Function returns", x.grad, [6.0] * 3)
    lab.expect("gradient of the other input", y.grad, [2.0] * 3)
    with torch.no_grad():
        new_leaf = x * 2
    total = new_leaf.requires_grad_() * 3
    total.sum().backward()
    lab.expect("gradient of a leaf made under no_grad", new_leaf.grad, [3.0] * 3)
    lab.holds("the gradient of the first leaf is unchanged", torch.equal(x.grad.cpu(), torch.full((3,), 6.0)))


@behaviour(
    "autograd",
    capabilities=("double_backward",),
    level="training",
    must_detect=("value",),
    page="generated/torch.nn.Module.html",
)
def module_hooks_in_double_backward(lab: Lab) -> None:
    """A full backward hook of a module receives the gradients of the module's inputs and outputs in each
    backward. The hook creates no reference cycles.
    """
    module = torch.nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    module = lab.to(module)
    hook_gradients: list[Any] = []

    def record_gradients(module: Any, grad_input: Any, grad_output: Any) -> None:
        hook_gradients.append(
            [[t.detach().clone() for t in grad_input], [t.detach().clone() for t in grad_output]]
        )

    module.register_full_backward_hook(record_gradients)
    x = lab.integers(1, 2, requires_grad=True)
    out = module(x)
    (first,) = torch.autograd.grad((out * out).sum(), x, create_graph=True)
    first.sum().backward()
    lab.same("gradients that the hook received first", hook_gradients[0])
    lab.same("gradient of the weight", module.weight.grad)
    watch = weakref.ref(module)
    del module, out, first
    lab.collect()
    with lab.parity("No page says when the module is freed"):
        lab.holds("the module is freed", lab.gone(watch))


@behaviour(
    "forward-ad", capabilities=("autograd",), must_detect=("value", "error"), page="notes/extending.html"
)
def functions_with_tangents(lab: Lab) -> None:
    """The ``jvp`` of an ``autograd.Function`` computes the tangents of its results. The ``jvp`` may use saved
    tensors, accept numbers, return views, write in place and return None.
    """

    class ScaledProductWithJvp(Function):
        @staticmethod
        def forward(ctx: Any, factor: int, x: torch.Tensor, y: torch.Tensor) -> Any:
            ctx.factor = factor
            ctx.save_for_forward(x, y)
            return factor * x * y

        @staticmethod
        def jvp(ctx: Any, none: Any, dx: Any, dy: Any) -> Any:
            x, y = ctx.saved_tensors
            assert none is None
            return ctx.factor * (dx * y + x * dy)

    class FirstRowViewWithJvp(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            return x.narrow(0, 0, 1)

        @staticmethod
        def jvp(ctx: Any, dx: Any) -> Any:
            return dx.narrow(0, 0, 1)

    class DoublesInPlaceWithJvp(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def jvp(ctx: Any, dx: Any) -> Any:
            return dx.mul_(2)

    class ReturnsInputWithJvp(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            return x

        @staticmethod
        def jvp(ctx: Any, dx: Any) -> Any:
            return dx * 1

    class FunctionWithoutJvp(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            return x * 2

    class NonDifferentiableOutputWithJvp(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            flat = x * 0
            ctx.mark_non_differentiable(flat)
            return x * 2, flat

        @staticmethod
        def jvp(ctx: Any, dx: Any) -> Any:
            return dx * 2, None

    x, y, dx, dy = (lab.integers(2, 3) for _ in range(4))
    with forward.dual_level():
        a, b = forward.make_dual(x, dx), forward.make_dual(y, dy)
        lab.same("product", [*forward.unpack_dual(ScaledProductWithJvp.apply(3, a, b))])
        lab.same("view", [*forward.unpack_dual(FirstRowViewWithJvp.apply(a))])
        lab.same("in place", [*forward.unpack_dual(DoublesInPlaceWithJvp.apply(a * 1))])
        with lab.parity("The note requires a view, but does not say that other results are errors"):
            lab.raises(
                "a jvp that returns no view for a forward that does", lambda: ReturnsInputWithJvp.apply(a)
            )
        with lab.parity("No page says that a missing formula is an error"):
            lab.raises("no jvp", lambda: FunctionWithoutJvp.apply(a), NotImplementedError, RuntimeError)
        doubled, flat = NonDifferentiableOutputWithJvp.apply(a)
        lab.same("a result with a tangent, of two results", [*forward.unpack_dual(doubled)])
        lab.holds("the non-differentiable result has no tangent", forward.unpack_dual(flat).tangent is None)
        leaf = lab.integers(3, requires_grad=True)
        dual = forward.make_dual(leaf, lab.integers(3))
        both = dual * dual
        lab.same(
            "gradient and tangent of one result",
            [torch.autograd.grad(both.sum(), leaf)[0], forward.unpack_dual(both).tangent.detach()],
        )
