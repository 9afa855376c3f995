"""Behaviours of hooks on tensors: order, arguments and effects."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "autograd",
    level="training",
    must_detect=("value", "error"),
    page="generated/torch.Tensor.register_hook.html",
)
def tensor_hooks(lab: Lab) -> None:
    """A tensor hook receives the gradient of its tensor and may return a different gradient in its place.
    After ``remove`` the hook is not called.
    """
    x = lab.integers(2, 3, requires_grad=True)
    y = lab.integers(2, 3, requires_grad=True)
    z = x * y
    hook_gradients: list[torch.Tensor] = []
    handle = z.register_hook(lambda grad: hook_gradients.append(grad.clone()))
    z.sum().backward(retain_graph=True)
    lab.expect("seen gradient", hook_gradients[0], [[1.0] * 3] * 2)
    lab.same("gradients with a hook that returns None", (x.grad, y.grad))
    second = z.register_hook(lambda grad: grad * 2)
    x.grad = y.grad = None
    z.sum().backward(retain_graph=True)
    lab.same("gradients with a hook that doubles", (x.grad, y.grad))
    lab.same("number of calls of the removed hook", len(hook_gradients))
    second.remove()
    handle.remove()
    x.grad = y.grad = None
    z.sum().backward()
    lab.same("gradients after removal", (x.grad, y.grad, len(hook_gradients)))
    leaf = lab.integers(3, requires_grad=True)
    leaf.register_hook(lambda grad: grad * 10)
    for _ in range(2):
        (leaf * 2).sum().backward()
    lab.expect("gradient of a leaf with a hook, accumulated", leaf.grad, [40.0, 40.0, 40.0])
    without_gradient = lab.integers(3)
    with lab.parity("No page refuses a hook on a tensor that does not require grad"):
        lab.raises(
            "a hook on a tensor that does not require grad",
            lambda: without_gradient.register_hook(lambda g: g),
            match="require",
        )


@behaviour("autograd", must_detect=("value", "error"))
def order_of_hooks(lab: Lab) -> None:
    """Hooks of one tensor run in the order of registration. Each hook receives the gradient that the previous
    hook returned. A return value of a wrong type or size is an error.
    """
    x = lab.integers(3, requires_grad=True)
    y = x * 1
    order: list[str] = []
    y.register_hook(lambda grad: order.append("look"))
    y.register_hook(lambda grad: (order.append("double"), grad * 2)[1])  # type: ignore[func-returns-value]
    y.register_hook(lambda grad: (order.append("add"), grad + 1)[1])  # type: ignore[func-returns-value]
    y.sum().backward()
    lab.same("order", order)
    lab.expect("gradient", x.grad, [3.0, 3.0, 3.0])
    for name, wrong in {"a word": "no", "a list": [1.0]}.items():
        z = x * 2
        z.register_hook(lambda grad, wrong=wrong: wrong)
        with lab.parity("No page says that a return value of a wrong type is an error"):
            lab.raises(f"a hook that returns {name}", lambda: z.sum().backward(), RuntimeError, TypeError)
    z = x * 2
    z.register_hook(lambda grad: grad.new_ones(5))
    with lab.parity("No page says that a gradient of a wrong size is an error"):
        lab.raises("a hook that returns a gradient of a wrong size", lambda: z.sum().backward())

    def raise_key_error(grad: Any) -> Any:
        raise KeyError("hook failed")

    z = x * 2
    z.register_hook(raise_key_error)
    with lab.parity("No page says that an error of a hook reaches the caller"):
        lab.raises("a hook that raises", lambda: z.sum().backward(), KeyError)

    class CallableHook:
        def __call__(self, grad: torch.Tensor) -> torch.Tensor:
            return grad * 7

    z = x * 1
    z.register_hook(CallableHook())
    x.grad = None
    z.sum().backward()
    lab.expect("a hook without a name", x.grad, [7.0, 7.0, 7.0])


@behaviour("autograd", must_detect=("value",))
def hooks_and_changes_in_place(lab: Lab) -> None:
    """A hook that is registered before an in-place write receives the gradient of the tensor before the
    write. A hook that is registered after the write receives the gradient of the changed tensor.
    """
    x = lab.integers(2, requires_grad=True)
    y = x * 1
    hook_gradients: dict[str, torch.Tensor] = {}
    y.register_hook(lambda grad: hook_gradients.__setitem__("before", grad.clone()))
    y.retain_grad()
    y.mul_(3)
    y.register_hook(lambda grad: hook_gradients.__setitem__("after", grad.clone()))
    (y * 5).sum().backward()
    lab.expect("before", hook_gradients["before"], [15.0, 15.0])
    lab.expect("after", hook_gradients["after"], [5.0, 5.0])
    lab.expect("retained gradient of the changed tensor", y.grad, [5.0, 5.0])
    lab.expect("leaf", x.grad, [15.0, 15.0])

    base = x * 1
    view = base[0:1]
    view.register_hook(lambda grad: hook_gradients.__setitem__("view", grad.clone()))
    base.register_hook(lambda grad: hook_gradients.__setitem__("base", grad.clone()))
    base.retain_grad()
    view.mul_(2)
    (base * 7).sum().backward()
    lab.same("base's hook, set before the view was changed", hook_gradients["base"])
    lab.expect("retained gradient of the base", base.grad, [7.0, 7.0])

    many = (x * 1).expand(2, 2).clone()
    parts = many.unbind(0)
    copies = [part * 1 for part in parts]
    for index, part in enumerate(copies):
        part.register_hook(
            lambda grad, index=index: hook_gradients.__setitem__(f"part {index}", grad.clone())
        )
        part.mul_(index + 2)
    (copies[0] + copies[1]).sum().backward()
    lab.same("hooks of several", [hook_gradients["part 0"], hook_gradients["part 1"]])


@behaviour(
    "autograd",
    level="training",
    must_detect=("value", "error"),
    page="generated/torch.Tensor.retain_grad.html",
)
def retained_gradients(lab: Lab) -> None:
    """For a non-leaf tensor with ``retain_grad``, ``.grad`` accumulates the gradients that result from all
    hooks of the tensor. For a leaf, ``retain_grad`` does nothing.
    """
    x = lab.integers(3, requires_grad=True)
    h = x * 3
    lab.same("before", [h.retains_grad, x.retains_grad])
    h.retain_grad()
    h.retain_grad()
    lab.same("after", h.retains_grad)
    (h * h).sum().backward(retain_graph=True)
    lab.same("gradient of h", h.grad)
    (h * 2).sum().backward()
    lab.same("accumulated gradient of a non-leaf tensor", h.grad)
    lab.same("gradient of x", x.grad)
    x.retain_grad()
    lab.same("a leaf", x.retains_grad)
    hooked = x * 2
    hooked.register_hook(lambda grad: grad * 4)
    hooked.retain_grad()
    hooked.register_hook(lambda grad: grad * 5)
    hooked.sum().backward()
    lab.expect("gradient retained after all hooks", hooked.grad, [20.0, 20.0, 20.0])
    lab.raises(
        "retain_grad of a tensor that does not require grad",
        lambda: lab.integers(2).retain_grad(),
        match="require",
        type_is_documented=True,
        text_is_documented=True,
    )
    cycle = x * 2
    cycle.retain_grad()
    watch = weakref.ref(cycle)
    cycle.sum().backward()
    del cycle
    with lab.parity("No page says when the tensor is freed"):
        lab.holds("retain_grad keeps no tensor alive", lab.gone(watch))


@behaviour(
    "autograd",
    level="training",
    must_detect=("value", "error"),
    page="generated/torch.Tensor.register_post_accumulate_grad_hook.html",
)
def hooks_after_accumulation(lab: Lab) -> None:
    """Post-accumulate hooks of a leaf run in order, after the gradient was added to ``.grad``. These hooks
    must return None and can be registered only on leaves.
    """
    x = lab.integers(3, requires_grad=True)
    calls: list[Any] = []
    handle = x.register_post_accumulate_grad_hook(lambda t: calls.append(("first", t.grad.clone())))
    x.register_hook(lambda grad: calls.append(("tensor hook", grad.clone())))

    def apply_sgd_step_and_clear_gradient(t: Any) -> None:
        calls.append(("second", t is x))
        with torch.no_grad():
            t.sub_(t.grad, alpha=2)
        t.grad = None

    x.register_post_accumulate_grad_hook(apply_sgd_step_and_clear_gradient)
    (x * 3).sum().backward()
    lab.same("calls of the hooks", calls)
    lab.same("leaf after its step", x.detach())
    lab.holds("the gradient was dropped by the hook", x.grad is None)
    handle.remove()
    calls.clear()
    (x * 3).sum().backward()
    lab.same("after removal", calls)
    torch.autograd.grad((x * 3).sum(), x)
    lab.same("grad() does not accumulate", len(calls))
    lab.raises(
        "on a tensor that is not a leaf",
        lambda: (x * 1).register_post_accumulate_grad_hook(print),
        match="leaf",
    )
    second = lab.integers(2, requires_grad=True)
    second.register_post_accumulate_grad_hook(lambda t: 5)
    with lab.parity("No page says that a returned value is an error"):
        lab.raises("a hook that returns something", lambda: second.sum().backward(), RuntimeError, TypeError)
    deleted = lab.integers(2, requires_grad=True)

    class HookWithoutEffect:
        def __call__(self, t: torch.Tensor) -> None:
            pass

    hook = HookWithoutEffect()
    watch = weakref.ref(hook)
    deleted.register_post_accumulate_grad_hook(hook)
    del hook
    lab.holds("the tensor keeps its hook", watch() is not None)
    del deleted
    with lab.parity("No page says when a hook is freed"):
        lab.holds("the hook is freed with the tensor", lab.gone(watch))


@behaviour(
    "autograd",
    must_detect=("value",),
    page="https://docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html",
    ground="The tutorial trains this way; the page of the hook has a similar example",
)
def optimizer_in_backward(lab: Lab) -> None:
    """A post-accumulate hook of each parameter may run the optimizer's step and clear the gradient. A
    backward then trains like the ordinary training loop.
    """
    weight, data = lab.integers(4, 3), lab.integers(5, 3)
    trained = []
    for fused in (False, True):
        parameter = weight.clone().requires_grad_()
        optimizer = torch.optim.SGD([parameter], lr=0.5)
        if fused:
            parameter.register_post_accumulate_grad_hook(
                lambda t, o=optimizer: (o.step(), o.zero_grad(), None)[2]
            )
        for _ in range(3):
            (data @ parameter.T).sum().backward()
            if not fused:
                optimizer.step()
                optimizer.zero_grad()
        lab.holds("gradients were cleared", parameter.grad is None)
        trained.append(lab.same(f"parameter, in backward: {fused}", parameter.detach().clone()))
    with lab.consistent("training in the hook and in the loop must give the same parameter"):
        lab.holds("both ways of training give the same parameter", torch.equal(trained[0], trained[1]))


@behaviour("autograd", must_detect=("value", "error"), page="autograd.html")
def hooks_of_several_tensors(lab: Lab) -> None:
    """A hook of ``register_multi_grad_hook`` is called once per backward, when all of the registered tensors
    have gradients. With mode "any" it is called at the first gradient.
    """
    a, b, c = (lab.integers(2, requires_grad=True) for _ in range(3))
    calls: list[Any] = []

    def record_gradients(grads: Any) -> None:
        calls.append([None if grad is None else grad.clone() for grad in grads])

    handle = torch.autograd.graph.register_multi_grad_hook((a, b, c), record_gradients)
    (a * 2 + b * 3).sum().backward()
    (a * b * c).sum().backward(inputs=(a,))
    (a * 2 + b * 3 + c * 4).sum().backward()
    lab.same("calls with all gradients", calls)
    handle.remove()
    (a + b + c).sum().backward()
    lab.same("none after removal", len(calls))
    calls.clear()
    any_of = torch.autograd.graph.register_multi_grad_hook(
        (a, b), lambda grad: calls.append(grad.clone()), mode="any"
    )
    (a * 2 + b * 2).sum().backward()
    lab.expect("the first of any", calls[0], [2.0, 2.0])
    lab.same("once for each backward", len(calls))
    (b * 5).sum().backward()
    lab.same("calls of a hook of one tensor", calls[1])
    any_of.remove()
    lab.raises(
        "an unknown mode",
        lambda: torch.autograd.graph.register_multi_grad_hook((a,), record_gradients, mode="some"),  # type: ignore[arg-type]
        ValueError,
        match="mode",
    )


@behaviour("autograd", must_detect=("value",))
def hooks_without_gradient_flow(lab: Lab) -> None:
    """Hooks of tensors that no gradient reaches are not called. Hooks of the tensor on which ``backward`` is
    called receive the gradient that was passed to ``backward``.
    """
    x = lab.integers(3, requires_grad=True)
    calls: list[Any] = []
    y, unused = x * 2, x * 3
    unused.register_hook(lambda grad: calls.append("unused"))
    y.register_hook(lambda grad: calls.append(grad.clone()))
    seed_gradient = lab.put([1.0, 2.0, 3.0])
    y.backward(seed_gradient)
    lab.same("calls", calls)
    lab.expect("gradient", x.grad, [2.0, 4.0, 6.0])
    calls.clear()
    z = x * 2
    z.register_hook(lambda grad: calls.append("z"))
    gradients = torch.autograd.grad(z.sum(), z)
    lab.expect("gradient with respect to the tensor itself", gradients[0], [1.0, 1.0, 1.0])
    lab.same("calls of the tensor's own hook", calls)
    inner = x * 2
    outer = inner * 3
    inner.register_hook(lambda grad: grad * 100)
    gradients = torch.autograd.grad(outer.sum(), inner)
    lab.expect("torch.autograd.grad returns the gradient after hooks", gradients[0], [300.0, 300.0, 300.0])
