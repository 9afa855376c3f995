"""Behaviours of optimizers that torch's optimizer database does not cover: zero gradients, copies, older
states, hooks, averaged models and schedules.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import nn
from torch.optim import lr_scheduler as schedules
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._exact_modules import state_by_name, with_whole_number_state

#: Optimizers that accept dense gradients and need no closure. Without weight decay they change nothing
#: when gradients are zero.
DENSE_OPTIMIZERS: dict[str, Any] = {
    name: getattr(torch.optim, name)
    for name in (
        "Adadelta",
        "Adagrad",
        "Adam",
        "AdamW",
        "Adamax",
        "ASGD",
        "NAdam",
        "RAdam",
        "RMSprop",
        "Rprop",
        "SGD",
    )
}
#: Flags that later torch releases added. States saved by older releases do not contain them.
LATER_FLAGS = ("maximize", "foreach", "fused", "differentiable", "capturable", "decoupled_weight_decay")


def _make_optimizer(name: str, parameters: Any, **options: Any) -> Any:
    if name in ("AdamW", "ASGD"):
        options.setdefault("weight_decay", 0.0)
    if name == "ASGD":
        options.setdefault("lambd", 0.0)
    return DENSE_OPTIMIZERS[name](parameters, **options)


def _make_parameters(lab: Lab) -> list[nn.Parameter]:
    """Return two random parameters on the device."""
    return [nn.Parameter(lab.floats(3, 2)), nn.Parameter(lab.floats(4))]


@behaviour(
    "optim",
    level="training",
    must_detect=("value",),
    page="generated/torch.optim.SGD.html",
    ground="The update formula of each optimizer does not change a parameter with a gradient of zero",
)
def steps_without_gradients(lab: Lab) -> None:
    """A step with zero gradients does not change parameters. ``step`` returns the result of its closure."""
    for name in DENSE_OPTIMIZERS:
        parameters = _make_parameters(lab)
        before = [parameter.detach().clone() for parameter in parameters]
        optimizer = _make_optimizer(name, parameters)
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        losses = [optimizer.step(lambda: torch.ones(1)) for _ in range(2)]
        lab.holds(f"{name}: step returns the closure's value", all(float(loss) == 1.0 for loss in losses))
        lab.same(
            f"{name}: stays",
            [(after.detach() - start).abs().sum() for after, start in zip(parameters, before, strict=True)],
        )
    sgd = nn.Parameter(lab.put([1.0, 2.0]))
    sgd.grad = lab.put([2.0, -4.0])
    torch.optim.SGD([sgd], lr=0.25).step()
    lab.expect("SGD by hand", sgd.detach() + 0, [0.5, 3.0])
    adam = nn.Parameter(lab.put([1.0, 2.0]))
    adam.grad = lab.put([2.0, -4.0])
    torch.optim.Adam([adam], lr=0.5, eps=0.0).step()
    lab.expect(
        "Adam's first step has the size of the learning rate", adam.detach() + 0, [0.5, 2.5], roundings=16
    )
    best = nn.Parameter(lab.put([1.0]))
    best.grad = lab.put([2.0])
    torch.optim.SGD([best], lr=0.25, maximize=True).step()
    lab.expect("upwards", best.detach() + 0, [1.5])


@behaviour(
    "optim",
    level="training",
    must_detect=("value",),
    page="generated/torch.optim.Optimizer.load_state_dict.html",
    basis="consistency",
    ground="The next step after loading and the next step of the original optimizer must agree",
)
def older_states_of_optimizers(lab: Lab) -> None:
    """A saved state without newer flags, or with the step count stored as a Python number, can be loaded. The
    next step equals the next step of the original optimizer.
    """
    for name in DENSE_OPTIMIZERS:
        first = _make_parameters(lab)
        pushes = [[lab.floats(*weight.shape) for weight in first] for _ in range(3)]
        optimizer = _make_optimizer(name, first)

        def step_with_gradients(parameters: list[nn.Parameter], optimizer: Any, step_number: int) -> None:
            for parameter, push in zip(parameters, pushes[step_number], strict=True):
                parameter.grad = push.clone()
            optimizer.step()

        step_with_gradients(first, optimizer, 0)
        step_with_gradients(first, optimizer, 1)
        older = copy.deepcopy(optimizer.state_dict())
        for group in older["param_groups"]:
            for flag in LATER_FLAGS:
                group.pop(flag, None)
        numbers = copy.deepcopy(optimizer.state_dict())
        for values in numbers["state"].values():
            if isinstance(values.get("step"), torch.Tensor):
                values["step"] = values["step"].item()
        start = [weight.detach().clone() for weight in first]
        step_with_gradients(first, optimizer, 2)
        lab.close(f"{name}: goes on", [weight.detach() for weight in first], roundings=256)
        for state_name, values in (("older", older), ("with numbers", numbers)):
            second = [nn.Parameter(weight.clone()) for weight in start]
            loaded = _make_optimizer(name, second)
            loaded.load_state_dict(values)
            step_with_gradients(second, loaded, 2)
            lab.close(f"{name}, {state_name}: goes on", [weight.detach() for weight in second], roundings=256)
            same = all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(first, second, strict=True))
            lab.holds(f"{name}, {state_name}: the step is that of the original", same)


@behaviour(
    "optim",
    level="training",
    must_detect=("value", "error"),
    page="generated/torch.optim.Optimizer.register_step_pre_hook.html",
    ground="The pages of the hooks say when hooks run; no page describes copies and errors",
)
def copies_and_hooks_of_optimizers(lab: Lab) -> None:
    """Optimizers can be printed and copied with all their attributes. Hooks run around steps and when a state
    is saved or loaded. Invalid parameter groups raise an error.
    """
    for name in DENSE_OPTIMIZERS:
        parameters = _make_parameters(lab)
        optimizer = _make_optimizer(name, parameters)
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        copied = copy.deepcopy(optimizer)
        public = {attribute for attribute in vars(optimizer) if not attribute.startswith("_")}
        with lab.consistent("A copied optimizer must have the attributes of the original"):
            lab.holds(
                f"{name}: a copy has the same attributes",
                public == {attribute for attribute in vars(copied) if not attribute.startswith("_")},
            )
        with lab.parity("No page says what the text of an optimizer contains"):
            lab.holds(
                f"{name}: the text contains the options", name in repr(optimizer) and "lr" in repr(optimizer)
            )
        keys = [sorted(key for key in values) for values in optimizer.state_dict()["state"].values()]
        with lab.parity("The page says that the content of the state differs between optimizers"):
            lab.same(f"{name}: what it keeps", keys)
    parameters = _make_parameters(lab)
    optimizer = torch.optim.SGD(parameters, lr=0.5)
    order: list[str] = []
    handles = [
        optimizer.register_step_pre_hook(lambda hooked, args, kwargs: order.append("before")),
        optimizer.register_step_post_hook(lambda hooked, args, kwargs: order.append("after")),
        optimizer.register_state_dict_pre_hook(lambda hooked: order.append("saving")),
        optimizer.register_load_state_dict_post_hook(lambda hooked: order.append("loaded")),
    ]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    lab.same("hooks", order)
    for handle in handles:
        handle.remove()
    optimizer.step()
    lab.same("removed", order)
    lab.close("after two steps", [parameter.detach() for parameter in parameters])
    with lab.parity("No page says that the call is an error"):
        lab.raises("no parameters", lambda: torch.optim.SGD([], lr=0.5), ValueError)
        lab.raises(
            "a tensor in place of a list of parameters",
            lambda: torch.optim.SGD(parameters[0], lr=0.5),
            TypeError,
        )
        lab.raises(
            "a parameter that is not a leaf", lambda: torch.optim.SGD([parameters[0] * 2], lr=0.5), ValueError
        )
        lab.raises(
            "a parameter in two groups",
            lambda: optimizer.add_param_group({"params": parameters[:1]}),
            ValueError,
        )
        lab.raises("no tensor", lambda: torch.optim.SGD([1.0], lr=0.5), TypeError)  # type: ignore[arg-type]
        lab.raises(
            "a state with other parameter groups",
            lambda: optimizer.load_state_dict(torch.optim.SGD(parameters[:1], lr=0.5).state_dict()),
            ValueError,
        )
        lab.raises("a negative rate", lambda: torch.optim.SGD(parameters, lr=-1.0), ValueError)


@behaviour("optim", level="training", must_detect=("value",))
def rates_by_schedule(lab: Lab) -> None:
    """Each scheduler sets the learning rates of its formula, alone, in sequence and chained. Scheduling
    continues from a saved state.
    """
    makers: dict[str, tuple[Any, Any]] = {
        "step": (lambda o: schedules.StepLR(o, 2, 0.5), lambda t: 0.5 ** (t // 2)),
        "milestones": (
            lambda o: schedules.MultiStepLR(o, [1, 3], 0.5),
            lambda t: 0.5 ** ((t >= 1) + (t >= 3)),
        ),
        "exponential": (lambda o: schedules.ExponentialLR(o, 0.5), lambda t: 0.5**t),
        "constant": (lambda o: schedules.ConstantLR(o, 0.25, 3), lambda t: 0.25 if t < 3 else 1.0),
        "linear": (lambda o: schedules.LinearLR(o, 0.5, 1.0, 4), lambda t: 0.5 + 0.5 * min(t, 4) / 4),
        "polynomial": (lambda o: schedules.PolynomialLR(o, 4, 2.0), lambda t: (1 - min(t, 4) / 4) ** 2),
        "cosine": (
            lambda o: schedules.CosineAnnealingLR(o, 6),
            lambda t: (1 + math.cos(math.pi * t / 6)) / 2,
        ),
        "restarts": (
            lambda o: schedules.CosineAnnealingWarmRestarts(o, 3),
            lambda t: (1 + math.cos(math.pi * (t % 3) / 3)) / 2,
        ),
        "a function": (lambda o: schedules.LambdaLR(o, lambda t: 1 / (1 + t)), lambda t: 1 / (1 + t)),
        "factors": (lambda o: schedules.MultiplicativeLR(o, lambda t: 0.5), lambda t: 0.5**t),
    }
    for name, (make, formula) in makers.items():
        parameter = nn.Parameter(lab.put([100.0]))
        optimizer = torch.optim.SGD([parameter], lr=2.0)
        schedule = make(optimizer)
        moved = 0.0
        for t in range(6):
            expected_rate = 2.0 * formula(t)
            lab.holds(
                f"{name} sets the expected rate at step {t}",
                abs(optimizer.param_groups[0]["lr"] - expected_rate) < 1e-9,
            )
            lab.holds(
                f"{name} reports its rate at step {t}", abs(schedule.get_last_lr()[0] - expected_rate) < 1e-9
            )
            parameter.grad = lab.put([1.0])
            optimizer.step()
            moved += expected_rate
            schedule.step()
            if t == 2 and name != "a function":
                restored = make(torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=2.0))
                restored.load_state_dict(schedule.state_dict())
                with lab.consistent(
                    "The restored schedule and the original must have the same epoch and rate"
                ):
                    lab.holds(
                        f"{name}: a schedule restored from its state agrees",
                        restored.last_epoch == schedule.last_epoch
                        and restored.get_last_lr() == schedule.get_last_lr(),
                    )
        lab.expect(
            f"{name}: the parameter after steps with all rates",
            parameter.detach() + 0,
            [100.0 - moved],
            roundings=16,
        )
    optimizer = torch.optim.SGD([nn.Parameter(lab.put([1.0]))], lr=1.0)
    both = schedules.SequentialLR(
        optimizer, [schedules.ConstantLR(optimizer, 0.5, 10), schedules.ExponentialLR(optimizer, 0.5)], [2]
    )
    rates = []
    for _ in range(5):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        both.step()
    lab.same("one after another", rates)
    optimizer = torch.optim.SGD([nn.Parameter(lab.put([1.0]))], lr=1.0)
    chained = schedules.ChainedScheduler(
        [schedules.ConstantLR(optimizer, 0.5, 2), schedules.ExponentialLR(optimizer, 0.5)]
    )
    rates = []
    for _ in range(4):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        chained.step()
    lab.expect("chained", rates, [0.5, 0.25, 0.25, 0.125])
    plateau = schedules.ReduceLROnPlateau(
        optimizer := torch.optim.SGD([nn.Parameter(lab.put([1.0]))], lr=1.0), factor=0.5, patience=1
    )
    for loss in (3.0, 2.0, 2.0, 2.0, 2.0):
        plateau.step(loss)
    lab.holds("ReduceLROnPlateau halves the rate", optimizer.param_groups[0]["lr"] == 0.5)
    cycle = schedules.OneCycleLR(
        optimizer := torch.optim.SGD([nn.Parameter(lab.put([1.0]))], lr=1.0), max_lr=2.0, total_steps=6
    )
    ups = []
    for _ in range(5):
        ups.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        cycle.step()
    lab.holds(
        "OneCycleLR has its largest rate inside the cycle",
        0 < ups.index(max(ups)) < 5 and abs(max(ups) - 2.0) < 0.5,
    )
    two = torch.optim.SGD(
        [{"params": [nn.Parameter(lab.put([1.0]))], "lr": 4.0}, {"params": [nn.Parameter(lab.put([1.0]))]}],  # type: ignore[arg-type]
        lr=1.0,
    )
    schedules.StepLR(two, 1, 0.5).step()
    lab.same("rate of each group, starting from its own rate", [group["lr"] for group in two.param_groups])


@behaviour(
    "optim",
    level="training",
    must_detect=("value",),
    page="generated/torch.optim.swa_utils.AveragedModel.html",
)
def averaged_models(lab: Lab) -> None:
    """An ``AveragedModel`` contains the mean or the moving average of the models that it received.
    ``update_bn`` recomputes the batch-norm statistics of the ``AveragedModel``.
    """
    net: Any = nn.Sequential(
        with_whole_number_state(lab, nn.Linear(2, 3)), with_whole_number_state(lab, nn.BatchNorm1d(3))
    )
    mean: Any = AveragedModel(net)
    moving: Any = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.5))
    weights = []
    for factor in (1.0, 2.0, 4.0, 1.0):
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.mul_(factor)
        weights.append(net[0].weight.detach().clone())
        mean.update_parameters(net)
        moving.update_parameters(net)
    lab.close("the mean", mean.module[0].weight.detach(), roundings=32)
    lab.close("mean of all weights", torch.stack(weights).mean(0), roundings=32)
    lab.close("moving average of the weights", moving.module[0].weight.detach(), roundings=32)
    by_hand = weights[0]
    for weight in weights[1:]:
        by_hand = by_hand * 0.5 + weight * 0.5
    lab.close("by hand", by_hand, roundings=32)
    lab.holds("n_averaged counts the models", int(mean.n_averaged) == 4)
    lab.same("its state", sorted(state_by_name(mean)))
    update_bn([lab.integers(4, 2), lab.integers(4, 2)], mean)
    lab.close(
        "statistics of the data", (mean.module[1].running_mean, mean.module[1].running_var), roundings=64
    )
    x = lab.integers(3, 2)
    lab.close("runs", mean.eval()(x), roundings=128)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    anneal = SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
    rates = []
    for _ in range(3):
        optimizer.step()
        anneal.step()
        rates.append(optimizer.param_groups[0]["lr"])
    lab.same("rates on the way", rates)
