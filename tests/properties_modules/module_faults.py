"""Wrong behaviours on the target, one or more for each property of modules and optimizers."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode

from conformance.model.verdicts import Kind

Fault = Callable[[], contextlib.AbstractContextManager[Any]]


@dataclasses.dataclass(frozen=True)
class Planted:
    """A fault that must turn a property of a subject red with a kind of failure."""

    kind: str
    property: str
    subject: str
    fault: Fault
    shows: Kind = Kind.VALUE
    dtype: str = "float32"


@contextlib.contextmanager
def outputs(change: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Every module's tensor output is changed."""

    def hook(module: Any, arguments: Any, output: Any) -> Any:
        return change(output) if isinstance(output, torch.Tensor) else output

    handle = register_module_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def gradients_scaled(output: torch.Tensor) -> torch.Tensor:
    """The same values, with gradients that are one part in a hundred too large."""
    if not output.requires_grad:
        return output
    return output + (output - output.detach()) * 0.01


class Functions(TorchFunctionMode):
    """Calls of torch's functions and methods of some names are changed."""

    def __init__(self, names: tuple[str, ...], change: Callable[..., Any]) -> None:
        super().__init__()
        self.names = names
        self.change = change

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in self.names:
            return self.change(func, *args, **kwargs)
        return func(*args, **kwargs)


def _strides_ignored(func: Any, input: torch.Tensor, *rest: Any, **kwargs: Any) -> Any:
    if input.numel() and not input.is_contiguous():
        step, strides = 1, []
        for size in reversed(input.shape):
            strides.insert(0, step)
            step *= size
        input = input.as_strided(input.shape, strides, 0)
    return func(input, *rest, **kwargs)


def _plus_one(func: Any, *args: Any, **kwargs: Any) -> Any:
    found = func(*args, **kwargs)
    return found + 1 if isinstance(found, torch.Tensor) and found.is_floating_point() else found


def _half_as_often(func: Any, input: torch.Tensor, p: float = 0.5, *rest: Any, **kwargs: Any) -> Any:
    return func(input, p / 2, *rest, **kwargs) / (1 - p) * (1 - p / 2)


def _loaded_wrong() -> contextlib.AbstractContextManager[Any]:
    load = torch.load

    def wrong(*args: Any, **kwargs: Any) -> Any:
        found = load(*args, **kwargs)
        return {key: value + 1 for key, value in found.items()}

    return mock.patch.object(torch, "load", wrong)


def _ones_are_twos() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(torch.nn.init, "ones_", lambda tensor: tensor.data.fill_(2))


def _statistics_move_in_eval() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(torch.nn.Module, "eval", lambda self: self)


def _copies_share() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(torch.nn.Parameter, "__deepcopy__", lambda self, memo: self)


def _cells_take_anything() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(torch.nn.RNNCell, "forward", lambda self, input, hx=None: input)


@contextlib.contextmanager
def stepping(name: str, around: Callable[[Any, Callable[..., Any]], Any]) -> Iterator[None]:
    """``step`` of an optimizer class goes through ``around(optimizer, step)``."""
    cls = getattr(torch.optim, name)
    step = cls.step

    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        return around(self, lambda: step(self, *args, **kwargs))

    with mock.patch.object(cls, "step", wrapped):
        yield


def _parameters(optimizer: Any) -> list[torch.Tensor]:
    return [one for group in optimizer.param_groups for one in group["params"]]


def _push(optimizer: Any, step: Callable[..., Any]) -> Any:
    """A hundredth too far."""
    found = step()
    with torch.no_grad():
        for parameter in _parameters(optimizer):
            parameter.mul_(1.01)
    return found


def _push_foreach(optimizer: Any, step: Callable[..., Any]) -> Any:
    return _push(optimizer, step) if optimizer.defaults.get("foreach") else step()


def _push_without_gradient(optimizer: Any, step: Callable[..., Any]) -> Any:
    found = step()
    with torch.no_grad():
        for parameter in _parameters(optimizer):
            if parameter.grad is None:
                parameter.add_(1.0)
    return found


def _half_tensor_rate(optimizer: Any, step: Callable[..., Any]) -> Any:
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"] = group["lr"] / 2
    found = step()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    return found


def _one_rate(optimizer: Any, step: Callable[..., Any]) -> Any:
    for group in optimizer.param_groups:
        group["lr"] = optimizer.param_groups[0]["lr"]
    return step()


def _nothing_returned(optimizer: Any, step: Callable[..., Any]) -> Any:
    step()
    return torch.zeros(())


def _no_schedule() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(torch.optim.lr_scheduler.LRScheduler, "step", lambda self, *args: None)


def _nothing_loaded() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(torch.optim.Optimizer, "load_state_dict", lambda self, state: None)


def _infinities_unseen() -> contextlib.AbstractContextManager[Any]:
    step = torch.amp.GradScaler.step

    def wrong(self: Any, optimizer: Any) -> Any:
        for parameter in _parameters(optimizer):
            if parameter.grad is not None:
                torch.nan_to_num_(parameter.grad, 1.0, 1.0, 1.0)
        return step(self, optimizer)

    return mock.patch.object(torch.amp.GradScaler, "step", wrong)


def _any_options() -> contextlib.AbstractContextManager[Any]:
    start = torch.optim.SGD.__init__

    def lenient(self: Any, params: Any, *args: Any, **kwargs: Any) -> None:
        with contextlib.suppress(ValueError):
            start(self, params, *args, **kwargs)

    return mock.patch.object(torch.optim.SGD, "__init__", lenient)


def _step(name: str, around: Callable[[Any, Callable[..., Any]], Any]) -> Fault:
    return lambda: stepping(name, around)


MODULES = (
    Planted("module", "forward", "nn.Linear", lambda: outputs(lambda out: out * 1.01)),
    Planted("module", "forward", "nn.LayerNorm", lambda: outputs(lambda out: out.double()), Kind.DTYPE),
    Planted("module", "backward", "nn.Linear", lambda: outputs(gradients_scaled)),
    Planted("module", "double-backward", "nn.Tanh", lambda: outputs(gradients_scaled)),
    Planted(
        "module", "memory-format", "nn.Conv2d", lambda: outputs(lambda out: out.contiguous()), Kind.METADATA
    ),
    Planted("module", "non-contiguous", "nn.Linear", lambda: Functions(("linear",), _strides_ignored)),
    Planted(
        "module",
        "zero-grad",
        "nn.Linear",
        lambda: mock.patch.object(torch.nn.Module, "zero_grad", lambda self, set_to_none=True: None),
    ),
    Planted("module", "state-dict", "nn.Linear", _loaded_wrong, Kind.STATE),
    Planted("module", "device-transfer", "nn.Linear", lambda: Functions(("to",), _plus_one), Kind.STATE),
    Planted("module", "dtype-transfer", "nn.Linear", lambda: Functions(("to",), _plus_one), Kind.STATE),
    Planted("module", "factory-device", "nn.BatchNorm1d", _ones_are_twos),
    Planted("module", "train-eval", "nn.BatchNorm2d", _statistics_move_in_eval, Kind.STATE),
    Planted("module", "train-eval", "nn.Dropout", lambda: outputs(lambda out: out * 2)),
    Planted("module", "copies", "nn.Linear", _copies_share, Kind.ALIASING),
    Planted("module", "random", "nn.Dropout", lambda: Functions(("dropout",), _half_as_often)),
    Planted("module", "error-inputs", "nn.RNNCell", _cells_take_anything, Kind.ERROR_TYPE),
)

OPTIMIZERS = (
    Planted("optimizer", "steps", "SGD", _step("SGD", _push)),
    Planted("optimizer", "implementations", "Adam", _step("Adam", _push_foreach)),
    Planted("optimizer", "state-dict", "Adam", _nothing_loaded),
    Planted("optimizer", "tensor-lr", "SGD", _step("SGD", _half_tensor_rate)),
    Planted("optimizer", "lr-scheduler", "SGD", _no_schedule),
    Planted("optimizer", "param-groups", "RMSprop", _step("RMSprop", _one_rate)),
    Planted("optimizer", "missing-gradients", "SGD", _step("SGD", _push_without_gradient)),
    Planted("optimizer", "closure", "LBFGS", _step("LBFGS", _nothing_returned)),
    Planted("optimizer", "sparse-gradients", "SparseAdam", _step("SparseAdam", _push)),
    Planted("optimizer", "grad-scaler", "SGD", _infinities_unseen),
    Planted("optimizer", "differentiable", "SGD", _step("SGD", _push)),
    Planted("optimizer", "error-inputs", "SGD", _any_options, Kind.ERROR_TYPE),
)

PLANTED = (*MODULES, *OPTIMIZERS)


def names(kind: str) -> set[str]:
    """The properties of a kind of subject for which a fault is planted."""
    return {planted.property for planted in copy.copy(PLANTED) if planted.kind == kind}
