"""Wrong behaviours of optimizers on the target, one or more for each of their properties."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch

from conformance.model.verdicts import Kind
from tests.support.module_and_optimizer_faults import Fault, Planted


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
