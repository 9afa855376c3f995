"""Behaviours of tensors that checkpointed calls recompute: reads of saved tensors, memory, hooks and
identity.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.autograd.function import Function
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "checkpoint",
    must_detect=("value", "error"),
    basis="parity",
    ground="No page says that reading a saved tensor of a checkpointed call recomputes it",
)
def reading_recomputed_tensors(lab: Lab) -> None:
    """Each read of a saved tensor of a checkpointed call recomputes this tensor, and so does the backward.
    After the backward the saved tensor is freed.
    """
    x = lab.integers(3, low=1, requires_grad=True)
    runs: list[int] = []

    out: Any = checkpoint(lambda a: (runs.append(1), (a * 0).exp())[1], x, use_reentrant=False)  # type: ignore[func-returns-value]
    run_counts = [len(runs)]
    for _ in range(2):
        lab.expect("the saved result", out.grad_fn._saved_result, [1.0, 1.0, 1.0])
        run_counts.append(len(runs))
    out.sum().backward()
    run_counts.append(len(runs))
    lab.same("runs", run_counts)
    lab.raises("after backward", lambda: out.grad_fn._saved_result, match="already been freed")
    with lab.documented():
        lab.same("gradient", x.grad)


@behaviour("checkpoint", must_detect=("value",))
def tensors_kept_by_checkpoints(lab: Lab) -> None:
    """Between forward and backward, an ordinary call retains its intermediate tensors, and a checkpointed
    call does not. An input that an ``autograd.Function`` saves is the same object when it is unpacked.
    """
    x = lab.integers(3, low=1, requires_grad=True)

    class WeakReferenceableObject:
        pass

    watched: list[Any] = []

    def square_watched_intermediate(a: torch.Tensor) -> torch.Tensor:
        middle = a * 2
        token = WeakReferenceableObject()
        middle.token = token  # type: ignore[attr-defined]
        watched.append(weakref.ref(token))
        return middle * middle

    ordinary_result = square_watched_intermediate(x)
    with lab.parity("No page says that a saved tensor keeps its Python attributes"):
        lab.holds("an ordinary call retains its saved tensor", watched[-1]() is not None)
    out = checkpoint(square_watched_intermediate, x, use_reentrant=False)
    lab.holds("a checkpointed call frees its intermediate tensor", lab.gone(watched[-1]))
    for name, result in {"plain": ordinary_result, "checkpointed": out}.items():
        lab.same(f"gradient, {name}", torch.autograd.grad(result.sum(), x)[0])

    saved_inputs: list[torch.Tensor] = []

    class SavesSecondInput(Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> Any:
            ctx.save_for_backward(b)
            return a * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (b,) = ctx.saved_tensors
            saved_inputs.append(b)
            return grad * b, None

    factor = lab.integers(3)
    x.grad = None
    checkpoint(SavesSecondInput.apply, x, factor, use_reentrant=False).sum().backward()
    with lab.parity("No page says that the unpacked tensor is the same object"):
        lab.holds("a saved input is unpacked as the same object", saved_inputs[0] is factor)
    lab.same("gradient through a Function", x.grad)

    class SavesThreeProducts(Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Any:
            w, y, z = a * b, b * c, a * c
            ctx.save_for_backward(w, y, z)
            return w + y + z

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            w, y, z = ctx.saved_tensors
            return grad * w, grad * y, grad * z

    inputs = [lab.integers(3, requires_grad=True) for _ in range(3)]
    expected_gradients = torch.autograd.grad(SavesThreeProducts.apply(*inputs).sum(), inputs)
    recomputed_gradients = torch.autograd.grad(
        checkpoint(SavesThreeProducts.apply, *inputs, use_reentrant=False).sum(), inputs
    )
    lab.same("results that a Function saved", [expected_gradients, recomputed_gradients])


@behaviour(
    "checkpoint",
    capabilities=("double_backward",),
    must_detect=("value",),
    page="generated/torch.Tensor.register_hook.html",
)
def hooks_of_shared_parameters(lab: Lab) -> None:
    """If a tensor is used inside and outside of a checkpoint, the tensor's hook runs once and receives the
    sum of the gradients. A checkpointed function may run a backward itself.
    """
    weight, x = lab.integers(3, requires_grad=True), lab.integers(3, requires_grad=True)
    hook_gradients: list[torch.Tensor] = []
    weight.register_hook(lambda grad: hook_gradients.append(grad.clone()))
    checkpoint(lambda a: weight * a, weight * x, use_reentrant=False).sum().backward()
    lab.same("gradients that the hook received", hook_gradients)
    lab.same("gradients", [weight.grad, x.grad])
    y = lab.integers(3, requires_grad=True)

    def scale_by_inner_gradient(a: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            inner = a.detach().requires_grad_()
            square = checkpoint(lambda b: b * b, inner, use_reentrant=False)
            (penalty,) = torch.autograd.grad(square.sum(), inner, create_graph=True)
            penalty.sum().backward()
            assert inner.grad is not None
        return a * inner.grad

    out = checkpoint(scale_by_inner_gradient, y, use_reentrant=False)
    out.sum().backward()
    lab.expect("a backward within a checkpoint", y.grad, [2.0, 2.0, 2.0])


@behaviour(
    "checkpoint",
    must_detect=("warning",),
    basis="parity",
    ground="The page announces an exception for a missing use_reentrant, and no warning",
)
def checkpoints_want_a_choice(lab: Lab) -> None:
    """``checkpoint`` and ``checkpoint_sequential`` warn if ``use_reentrant`` is not passed, and still return
    the result. If ``use_reentrant`` is passed, they do not warn.
    """
    x = lab.integers(3, requires_grad=True)
    layers = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.ReLU())
    lab.warns("checkpoint", lambda: checkpoint(torch.sin, x), match="use_reentrant")
    lab.warns("checkpoint_sequential", lambda: checkpoint_sequential(layers, 2, x), match="use_reentrant")
    for reentrant in (True, False):
        lab.silent(f"checkpoint with {reentrant}", lambda: checkpoint(torch.sin, x, use_reentrant=reentrant))
        lab.silent(
            f"checkpoint_sequential with {reentrant}",
            lambda: checkpoint_sequential(layers, 2, x, use_reentrant=reentrant),
        )
    torch.relu(x).sum().backward()
    with lab.documented():
        lab.same("gradient", x.grad)
