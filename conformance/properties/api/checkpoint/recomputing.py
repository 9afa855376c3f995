"""Behaviours of ``torch.utils.checkpoint``: a checkpointed function runs again in the backward and gives the
gradients of an ordinary call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, set_checkpoint_early_stop

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


def _with_call_log(log: list[int], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with a log: each call appends an element to ``log``."""

    def logged_call(*args: Any, **kwargs: Any) -> Any:
        log.append(1)
        return function(*args, **kwargs)

    return logged_call


@behaviour("checkpoint", level="training", must_detect=("value",))
def recomputation(lab: Lab) -> None:
    """A checkpointed call gives the values and gradients of an ordinary call. The checkpointed function runs
    again in the backward.
    """
    x, y = lab.integers(3, 4, requires_grad=True), lab.integers(4, 3, requires_grad=True)

    def doubled_squared_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a @ b).pow(2) * 2

    expected = torch.autograd.grad(doubled_squared_product(x, y).sum(), (x, y))
    lab.same("plain", expected)
    for reentrant in (False, True):
        log: list[int] = []
        x.grad = y.grad = None
        out = checkpoint(_with_call_log(log, doubled_squared_product), x, y, use_reentrant=reentrant)
        lab.same(f"value, reentrant {reentrant}", out.detach())
        lab.same(f"calls before backward, reentrant {reentrant}", len(log))
        out.sum().backward()
        lab.same(f"calls after, reentrant {reentrant}", len(log))
        lab.same(f"gradients, reentrant {reentrant}", [x.grad, y.grad])
    log = []
    out = checkpoint(_with_call_log(log, doubled_squared_product), x, y, use_reentrant=False)
    lab.same("gradients from torch.autograd.grad", torch.autograd.grad(out.sum(), (x, y)))
    with torch.no_grad():
        lab.same(
            "without gradients", checkpoint(doubled_squared_product, x, y, use_reentrant=False).requires_grad
        )


@behaviour("checkpoint", level="training", capabilities=("random",), must_detect=("value",))
def random_state_of_recomputation(lab: Lab) -> None:
    """The recomputation draws the same random numbers as the forward and leaves the generators unchanged,
    unless ``preserve_rng_state`` is False.
    """
    x: Any = lab.floats(64, requires_grad=True)
    for reentrant in (False, True):
        torch.manual_seed(3)
        masks: list[torch.Tensor] = []

        def apply_random_mask(a: torch.Tensor, masks: list[torch.Tensor] = masks) -> torch.Tensor:
            mask = (torch.rand_like(a) > 0.5).to(a.dtype)
            masks.append(mask)
            return a * mask * 2

        x.grad = None
        out = checkpoint(apply_random_mask, x, use_reentrant=reentrant)
        before = torch.rand(2, device=lab.device)
        out.sum().backward()
        lab.holds(
            f"forward and recomputation draw equal masks, reentrant {reentrant}",
            torch.equal(masks[0].cpu(), masks[1].cpu()),
        )
        lab.holds(
            f"the gradient uses the mask, reentrant {reentrant}",
            torch.equal(x.grad.cpu(), 2 * masks[0].cpu()),
        )
        after = torch.rand(2, device=lab.device)
        torch.manual_seed(3)
        torch.rand_like(x.detach())
        drawn_before, drawn_after = torch.rand(2, device=lab.device), torch.rand(2, device=lab.device)
        lab.holds(
            f"the forward advances the generator once, reentrant {reentrant}",
            torch.equal(before.cpu(), drawn_before.cpu()),
        )
        lab.holds(
            f"the backward keeps the generator, reentrant {reentrant}",
            torch.equal(after.cpu(), drawn_after.cpu()),
        )
    drop = torch.nn.Dropout(0.5)
    values = []
    checkpoint(
        lambda a: values.append(drop(a)) or values[-1] * 2,  # type: ignore[func-returns-value]
        x,
        use_reentrant=False,
        preserve_rng_state=False,
    ).sum().backward()
    lab.same("calls with preserve_rng_state=False", [len(values), x.grad.shape])
    lab.same("something that is computed", x.detach().gt(0).sum())


@behaviour("checkpoint", must_detect=("value",))
def arguments_of_checkpoints(lab: Lab) -> None:
    """``checkpoint`` passes keywords, None, numbers, and nested or unused arguments to the function.
    ``checkpoint`` returns all results of the function, also results that are not tensors.
    """
    x, y = lab.integers(3, requires_grad=True), lab.integers(3, requires_grad=True)

    def tree_of_results(a: Any, *, scale: int, extra: Any = None, nested: Any = None) -> Any:
        out = a * scale
        if nested is not None:
            out = out * nested["y"][0]
        return {"out": out, "word": "done", "none": None, "list": [a + 1, 3]}

    result = checkpoint(tree_of_results, x, scale=3, nested={"y": [y]}, use_reentrant=False)
    lab.same("words", [result["word"], result["none"], result["list"][1]])
    (result["out"].sum() + result["list"][0].sum()).backward()
    lab.same("gradients", [x.grad, y.grad])
    x.grad = None
    pair = checkpoint(lambda a, b: (a * 2, b), x, 5, use_reentrant=True)
    lab.same("a number, reentrant", pair[1])
    pair[0].sum().backward()
    lab.same("gradient, reentrant", x.grad)
    x.grad = None
    detached = checkpoint(lambda a: (a * a, (a * 3).detach()), x, use_reentrant=False)
    lab.same("a detached result", [detached[0].requires_grad, detached[1].requires_grad])
    detached[0].sum().backward()
    lab.same("gradient beside it", x.grad)
    without_gradient = lab.integers(3)
    inside = torch.nn.Parameter(lab.integers(3))
    checkpoint(lambda a: a * inside, without_gradient, use_reentrant=False).sum().backward()
    lab.same("a parameter that is not an argument", inside.grad)
    once = checkpoint(lambda a: a, x, use_reentrant=False)
    once.sum().backward()
    lab.same("the identity", x.grad)


@behaviour(
    "checkpoint",
    must_detect=("value", "warning", "error"),
    ground="The page describes the determinism check, but promises an error only indirectly",
)
def misuse_of_checkpoints(lab: Lab) -> None:
    """``checkpoint`` raises an error for an unknown keyword, and for a recomputation that does not save the
    same tensors as the forward. A reentrant checkpoint warns if no input requires grad.
    """
    x = lab.integers(4, requires_grad=True)
    with lab.parity("No page says that an unknown keyword is refused"):
        lab.raises(
            "an unknown keyword", lambda: checkpoint(torch.sin, x, use_reentrant=True, unknown=1), ValueError
        )
    calls: list[int] = []

    def save_fewer_on_recomputation(a: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return a * a * a if len(calls) % 2 else a + 1

    def save_smaller_on_recomputation(a: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        scaled = a * 1 if len(calls) % 2 else (a * 1)[:2]
        return scaled * scaled

    out = checkpoint(save_fewer_on_recomputation, x, use_reentrant=False)
    with lab.parity("The page says that an error or wrong gradients may follow"):
        lab.raises(
            "a recomputation that saves fewer tensors",
            lambda: out.sum().backward(),
            match="different number of tensors",
        )
    calls.clear()
    recomputed = checkpoint(save_smaller_on_recomputation, x, use_reentrant=False)
    lab.raises(
        "a recomputation that saves smaller tensors",
        lambda: recomputed.sum().backward(),
        match="different metadata",
    )
    calls.clear()
    unchecked = checkpoint(lambda a: a * a, x, use_reentrant=False, determinism_check="none")
    unchecked.sum().backward()
    lab.same("without the check", x.grad)
    lab.raises(
        "an unknown check",
        lambda: checkpoint(torch.sin, x, use_reentrant=False, determinism_check="some").sum().backward(),
        ValueError,
    )
    lab.warns(
        "reentrant without gradients",
        lambda: checkpoint(torch.neg, x.detach(), use_reentrant=True),
        match="requires_grad",
    )
    fails = [True]

    def fail_on_recomputation(a: torch.Tensor) -> torch.Tensor:
        if not fails[0]:
            raise KeyError("in recomputation")
        return a * a

    out = checkpoint(fail_on_recomputation, x, use_reentrant=False)
    fails[0] = False
    with lab.parity("No page says that an error of the recomputation reaches the caller"):
        lab.raises("an error in recomputation", lambda: out.sum().backward(), KeyError)
    fails[0] = True
    x.grad = None
    checkpoint(fail_on_recomputation, x, use_reentrant=False).sum().backward()
    with lab.consistent("A failed backward must not affect later calls"):
        lab.same("gradient after a failed backward", x.grad)


@behaviour(
    "checkpoint",
    capabilities=("double_backward",),
    must_detect=("value",),
    ground="The page allows any part of a model and all ways of backward; it does not mention nesting",
)
def nested_checkpoints(lab: Lab) -> None:
    """Nested checkpoints give the gradients of an ordinary call, also for second derivatives and retained
    graphs.
    """
    x = lab.integers(3, low=1, requires_grad=True)

    def raise_to_power(a: torch.Tensor, power: int = 2) -> torch.Tensor:
        return a**power

    def with_checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: checkpoint(function, *args, use_reentrant=False, **kwargs)

    def product_of_two_checkpoints(a: torch.Tensor) -> Any:
        return with_checkpoint(raise_to_power)(a) * with_checkpoint(lambda b: b * 3)(a)

    def checkpoint_with_keyword(a: torch.Tensor, *, power: int) -> Any:
        return with_checkpoint(raise_to_power)(a, power=power), "word"

    for name, function in {
        "one level": with_checkpoint(raise_to_power),
        "two levels": with_checkpoint(with_checkpoint(raise_to_power)),
        "three levels": with_checkpoint(with_checkpoint(with_checkpoint(raise_to_power))),
        "children": with_checkpoint(product_of_two_checkpoints),
        "children within": with_checkpoint(with_checkpoint(product_of_two_checkpoints)),
        "keywords": lambda a: with_checkpoint(checkpoint_with_keyword)(a, power=3)[0],
    }.items():
        out = function(x)
        lab.same(f"value of {name}", out.detach())
        lab.same(f"gradient of {name}", torch.autograd.grad(out.sum(), x)[0])
    out = with_checkpoint(with_checkpoint(raise_to_power))(x)
    (first,) = torch.autograd.grad(out.sum(), x, create_graph=True, retain_graph=True)
    lab.same("second derivative", torch.autograd.grad(first.sum(), x)[0])
    out = with_checkpoint(raise_to_power)(x)
    lab.same("a retained graph", [torch.autograd.grad(out.sum(), x, retain_graph=True)[0] for _ in range(2)])
    shared = with_checkpoint(lambda a: (a * a, a * 3))(x)
    lab.same("one checkpoint with two results", torch.autograd.grad(shared[0].sum() + shared[1].sum(), x)[0])


@behaviour("checkpoint", must_detect=("value",))
def early_stop(lab: Lab) -> None:
    """The recomputation stops as soon as every saved tensor is available, unless early stop is disabled."""
    x = lab.integers(3, requires_grad=True)
    log: list[str] = []

    def square_between_log_entries(a: torch.Tensor) -> torch.Tensor:
        log.append("start")
        out = a * a
        out = out + 1
        log.append("end")
        return out

    for stop in (True, False):
        log.clear()
        with set_checkpoint_early_stop(stop):
            out = checkpoint(square_between_log_entries, x, use_reentrant=False)
        out.sum().backward()
        lab.same(f"log with early stop {stop}", log)
    lab.same("gradient", x.grad)
    log.clear()
    with lab.parity("No page says that an addition saves nothing"):
        nothing = checkpoint(lambda a: (log.append("run"), a + 1)[1], x, use_reentrant=False)  # type: ignore[func-returns-value]
        nothing.sum().backward()
        lab.same("runs of a function that saves no tensor", log)


@behaviour("checkpoint", must_detect=("value",))
def sequences_of_checkpoints(lab: Lab) -> None:
    """``checkpoint_sequential`` gives the values and gradients of the sequence of functions, for any number
    of segments.
    """
    layers = [lambda a: a * 2, lambda a: a * a, lambda a: a + 1, lambda a: a * 3]
    x = lab.integers(3, requires_grad=True)
    expected = x
    for layer in layers:
        expected = layer(expected)
    lab.same("plain gradient", torch.autograd.grad(expected.sum(), x)[0])
    for segments in (1, 2, 4):
        for reentrant in (False, True):
            out = checkpoint_sequential(layers, segments, x, use_reentrant=reentrant)
            lab.same(f"value in {segments}", out.detach())
            x.grad = None
            out.sum().backward()
            lab.same(f"gradient with {segments} segments, reentrant {reentrant}", x.grad)
    torch.manual_seed(1)
    model = lab.to(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2)))
    out = checkpoint_sequential(model, 2, x.detach(), use_reentrant=False)
    out.sum().backward()
    lab.close("a module's gradient", [p.grad for p in model.parameters()], roundings=64, matrix=True)


@behaviour("checkpoint", capabilities=("autocast",), must_detect=("value",))
def contexts_of_checkpoints(lab: Lab) -> None:
    """The function ``context_fn`` returns one context for the forward and one for the recomputation. The
    recomputation runs under the autocast settings of the forward.
    """
    x = lab.integers(3, requires_grad=True)
    log: list[str] = []

    @contextlib.contextmanager
    def log_context(name: str) -> Any:
        log.append(f"enter {name}")
        yield
        log.append(f"leave {name}")

    out = checkpoint(
        lambda a: (log.append("run"), a * a)[1],  # type: ignore[func-returns-value]
        x,
        use_reentrant=False,
        context_fn=lambda: (log_context("forward"), log_context("recomputation")),
    )
    out.sum().backward()
    lab.same("log", log)
    lab.same("gradient", x.grad)
    leaf = lab.integers(3, requires_grad=True)
    with torch.autograd.graph.save_on_cpu():
        out = checkpoint(lambda a: (a * a) * 2, leaf, use_reentrant=False)
    out.sum().backward()
    lab.same("with saved tensors on the host", leaf.grad)
    if not lab.target.capable("autocast"):
        return
    modes: list[Any] = []
    kind = lab.device.type

    def square_and_record_autocast(a: torch.Tensor) -> torch.Tensor:
        modes.append((torch.is_autocast_enabled(kind), str(torch.get_autocast_dtype(kind))))
        return a @ a

    square = lab.integers(3, 3, requires_grad=True)
    with torch.autocast(kind, dtype=torch.bfloat16):
        out = checkpoint(square_and_record_autocast, square, use_reentrant=False)
    with lab.parity("No page lists the operators that autocast casts on every device"):
        lab.same("dtype", out.dtype)
    out.float().sum().backward()
    with lab.consistent("forward and recomputation must run under the same autocast settings"):
        lab.same("modes seen", modes)
    lab.same("gradient under autocast", square.grad)
