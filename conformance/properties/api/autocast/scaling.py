"""Behaviours of gradient scaling with ``torch.amp.GradScaler``."""

from __future__ import annotations

import pickle
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab

NEEDS = ("grad_scaler", "autograd")


def make_scaler(lab: Lab, **options: Any) -> torch.amp.GradScaler:
    """Return a GradScaler for the device. By default the scale is 4 and doubles after each step."""
    return torch.amp.GradScaler(lab.device.type, **{"init_scale": 4.0, "growth_interval": 1, **options})


def two_whole_number_parameters(lab: Lab) -> list[torch.nn.Parameter]:
    """Return two parameters with small whole numbers, of shapes (3,) and (2, 2)."""
    return [torch.nn.Parameter(lab.integers(3)), torch.nn.Parameter(lab.integers(2, 2))]


@behaviour("autocast", level="training", capabilities=NEEDS, must_detect=("value",))
def scale_moves(lab: Lab) -> None:
    """The scale of a GradScaler grows after steps with finite gradients. The scale shrinks after a step with
    an infinite or NaN gradient, and this step changes no parameter.
    """
    parameters = two_whole_number_parameters(lab)
    optimizer = torch.optim.SGD(parameters, lr=0.5)
    scaling = make_scaler(lab)
    for step, factor in enumerate((1.0, float("inf"), 1.0, float("nan"), 1.0, 1.0)):
        before = [parameter.detach().clone() for parameter in parameters]
        optimizer.zero_grad()
        loss: Any = sum((parameter * 2).sum() for parameter in parameters)
        scaling.scale(loss).backward()
        if factor != 1.0:
            first: Any = parameters[0]
            first.grad[0] = factor
        scaling.step(optimizer)
        scaling.update()
        lab.same(f"the scale after step {step}", scaling.get_scale())
        moved = not torch.equal(before[0], parameters[0].detach())
        lab.holds(f"step {step} changes parameters only if gradients are finite", moved == (factor == 1.0))
        lab.same(f"parameters after step {step}", [parameter.detach() for parameter in parameters])
    slow = make_scaler(lab, growth_interval=3, growth_factor=8.0, backoff_factor=0.25)
    for step in range(7):
        optimizer.zero_grad()
        slow.scale(parameters[0].sum()).backward()
        slow.step(optimizer)
        slow.update()
        lab.same(f"the scale with growth interval 3 after step {step}", slow.get_scale())
    slow.update(3.0)
    lab.expect("the scale after update(3.0)", slow.get_scale(), 3.0)
    top = make_scaler(lab, init_scale=2.0**127, growth_factor=2.0)
    optimizer.zero_grad()
    (parameters[0].sum() * 0).backward()
    top.scale(torch.zeros((), device=lab.device))
    top.step(optimizer)
    top.update()
    with lab.parity("No page says that the scale stays finite"):
        lab.holds("a scale never overflows", torch.isfinite(torch.tensor(top.get_scale())))


@behaviour("autocast", level="training", capabilities=NEEDS, must_detect=("value", "error"))
def unscaled_gradients(lab: Lab) -> None:
    """``unscale_`` divides gradients by the scale once, so that they can be clipped. A call of ``unscale_``,
    ``step`` or ``update`` out of order is refused.
    """
    parameters = two_whole_number_parameters(lab)
    optimizer = torch.optim.SGD(parameters, lr=1.0)
    scaling = make_scaler(lab)
    loss: Any = sum((p * 3).sum() for p in parameters)
    scaled = scaling.scale(loss)
    lab.same("a scaled loss", scaled.detach())
    scaled.backward()
    lab.expect("scaled gradients", parameters[0].grad, [12.0] * 3)
    scaling.unscale_(optimizer)
    lab.expect("unscaled gradients", parameters[0].grad, [3.0] * 3)
    lab.raises(
        "unscaled twice",
        lambda: scaling.unscale_(optimizer),
        match="already been called",
        type_is_documented=True,
    )
    norm = torch.nn.utils.clip_grad_norm_(parameters, 2.0)
    lab.close("the norm", norm)
    before = parameters[0].detach().clone()
    scaling.step(optimizer)
    lab.close("a clipped step", before - parameters[0].detach())
    with lab.parity("No page says that a second step before update is an error"):
        lab.raises("a second step", lambda: scaling.step(optimizer), match="already been called")
    with lab.parity("No page says that unscale_ after step is an error"):
        lab.raises(
            "unscaled after the step",
            lambda: scaling.unscale_(optimizer),
            match="already been called|after step",
        )
    scaling.update()
    with lab.parity("The page says when update should be called, and not that other calls are errors"):
        lab.raises("a call of update without a step", scaling.update, AssertionError, RuntimeError)
    losses: Any = [torch.ones(2, device=lab.device), (torch.ones((), device=lab.device),)]
    nested = scaling.scale(losses)
    with lab.parity("No page says that nested collections of outputs are accepted"):
        lab.same("a tree of losses", [nested[0], nested[1][0]])
    with lab.parity("No page says that an output that is not a tensor is an error"):
        lab.raises("a scaled number", lambda: scaling.scale(3.0), ValueError, AttributeError)  # type: ignore[call-overload]
    halves = [torch.nn.Parameter(torch.ones(2, dtype=torch.float16, device=lab.device))]
    halved = torch.optim.SGD(halves, lr=1.0)
    half_scaler = make_scaler(lab)
    half_scaler.scale(halves[0].float().sum()).backward()
    with lab.parity("No page says that gradients of float16 are refused"):
        lab.raises("half gradients", lambda: half_scaler.unscale_(halved), ValueError, match="FP16")


@behaviour(
    "autocast",
    level="training",
    capabilities=(*NEEDS, "double_backward"),
    must_detect=("value",),
    page="notes/amp_examples.html",
    ground="gradients are unscaled before the step, so that scaling does not change the training",
)
def scaled_training(lab: Lab) -> None:
    """Training with a scaler ends with the same parameters as training without a scaler. This holds if losses
    are accumulated, if they share parameters, and if a loss includes a gradient penalty.
    """
    start, offset = lab.integers(3), lab.integers(3)

    def trained_parameters(scaled: bool, kind: str) -> list[torch.Tensor]:
        first, second = torch.nn.Parameter(start.clone()), torch.nn.Parameter(offset.clone())
        first_optimizer, second_optimizer = (
            torch.optim.SGD([first], lr=0.25),
            torch.optim.SGD([second], lr=0.5, momentum=0.5),
        )
        scaling = make_scaler(lab, enabled=scaled)
        for _ in range(3):
            first_optimizer.zero_grad()
            second_optimizer.zero_grad()
            if kind == "accumulated":
                for part in (1.0, 2.0, 3.0):
                    scaling.scale((first * part).sum() + second.sum()).backward()
            elif kind == "several losses":
                scaling.scale((first * second.detach()).sum()).backward(retain_graph=True)
                scaling.scale((second * 2).sum() - first.sum()).backward()
            elif kind == "penalty":
                loss = (first * first).sum() + second.sum()
                (slope,) = torch.autograd.grad(scaling.scale(loss), first, create_graph=True)
                slope = slope / scaling.get_scale()
                scaling.scale(loss + slope.pow(2).sum() / 16).backward()
            elif kind == "clipped by value":
                scaling.scale((first * 4).sum() + second.sum()).backward()
                scaling.unscale_(first_optimizer)
                torch.nn.utils.clip_grad_value_([first], 2.0)
            else:
                scaling.scale((first * 2).sum() - second.sum()).backward()
            scaling.step(first_optimizer)
            scaling.step(second_optimizer)
            scaling.update()
        return [first.detach(), second.detach()]

    for kind in ("plain", "accumulated", "several losses", "penalty", "clipped by value"):
        unscaled, scaled = trained_parameters(False, kind), trained_parameters(True, kind)
        with lab.consistent("training with and without a scaler must end at the same parameters"):
            lab.holds(
                f"{kind}: the parameters with and without a scaler agree",
                all(torch.allclose(a, b) for a, b in zip(unscaled, scaled, strict=True)),
            )
        lab.close(kind, scaled, roundings=64)


@behaviour("autocast", level="training", capabilities=NEEDS, must_detect=("value",))
def scaler_states(lab: Lab) -> None:
    """A scaler's state can be saved, loaded and pickled. A disabled scaler changes nothing and has an empty
    state.
    """
    parameters = two_whole_number_parameters(lab)
    optimizer = torch.optim.SGD(parameters, lr=0.5)
    scaling = make_scaler(lab, growth_interval=2)
    scaling.scale(parameters[0].sum()).backward()
    scaling.step(optimizer)
    scaling.update()
    state = scaling.state_dict()
    lab.same("a state", dict(sorted(state.items())))
    restored = make_scaler(lab, init_scale=2.0)
    restored.load_state_dict(state)
    lab.same(
        "a loaded state",
        [
            restored.get_scale(),
            restored.get_growth_factor(),
            restored.get_backoff_factor(),
            restored.get_growth_interval(),
        ],
    )
    copied = pickle.loads(pickle.dumps(scaling))
    with lab.consistent("A pickled and loaded scaler must have the state of the original"):
        lab.same(
            "a pickled scaler",
            [copied.get_scale(), copied.is_enabled(), dict(sorted(copied.state_dict().items()))],
        )
    off = make_scaler(lab, enabled=False)
    loss = parameters[0].sum() * 2
    lab.holds("a disabled scaler returns the loss itself", off.scale(loss) is loss)
    lab.same("state of a disabled scaler", [off.state_dict(), off.get_scale(), off.is_enabled()])
    with lab.parity("No page says that loading an empty state is an error"):
        lab.raises(
            "loading the state of a disabled scaler",
            lambda: scaling.load_state_dict(off.state_dict()),
            RuntimeError,
            match="empty",
        )
    for option in ({"growth_factor": 1.0}, {"backoff_factor": 1.0}):
        with lab.parity("No page says that a factor of one is an error"):
            lab.raises(f"with {option}", lambda: make_scaler(lab, **option), AssertionError, ValueError)
    optimizer.zero_grad()
    with torch.autocast(lab.device.type, dtype=torch.bfloat16):
        result = (parameters[1] @ parameters[1]).float().sum()
    scaling.scale(result).backward()
    scaling.step(optimizer)
    scaling.update()
    lab.same("after a step under autocast", [parameters[1].detach(), scaling.get_scale()])
