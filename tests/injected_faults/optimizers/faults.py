"""Faults of optimizers on the target, at least one for each property of optimizers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch

from conformance.model.verdicts import Kind
from tests.support.module_and_optimizer_faults import Fault, InjectedFault


@contextlib.contextmanager
def replaced_step(name: str, around: Callable[[Any, Callable[..., Any]], Any]) -> Iterator[None]:
    """Make ``step`` of the optimizer class ``name`` call ``around(optimizer, step)`` with the
    original step.
    """
    cls = getattr(torch.optim, name)
    step = cls.step

    def replacement(self: Any, *args: Any, **kwargs: Any) -> Any:
        return around(self, lambda: step(self, *args, **kwargs))

    with mock.patch.object(cls, "step", replacement):
        yield


def _parameters(optimizer: Any) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _step_too_far(optimizer: Any, step: Callable[..., Any]) -> Any:
    """Run the step, then make each parameter one hundredth larger."""
    loss = step()
    with torch.no_grad():
        for parameter in _parameters(optimizer):
            parameter.mul_(1.01)
    return loss


def _foreach_step_too_far(optimizer: Any, step: Callable[..., Any]) -> Any:
    return _step_too_far(optimizer, step) if optimizer.defaults.get("foreach") else step()


def _step_without_gradient(optimizer: Any, step: Callable[..., Any]) -> Any:
    loss = step()
    with torch.no_grad():
        for parameter in _parameters(optimizer):
            if parameter.grad is None:
                parameter.add_(1.0)
    return loss


def _half_tensor_rate(optimizer: Any, step: Callable[..., Any]) -> Any:
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"] = group["lr"] / 2
    loss = step()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    return loss


def _one_rate_for_all_groups(optimizer: Any, step: Callable[..., Any]) -> Any:
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


def _infinities_ignored() -> contextlib.AbstractContextManager[Any]:
    step = torch.amp.GradScaler.step

    def step_ignoring_infinities(self: Any, optimizer: Any) -> Any:
        for parameter in _parameters(optimizer):
            if parameter.grad is not None:
                torch.nan_to_num_(parameter.grad, 1.0, 1.0, 1.0)
        return step(self, optimizer)

    return mock.patch.object(torch.amp.GradScaler, "step", step_ignoring_infinities)


def _any_options_accepted() -> contextlib.AbstractContextManager[Any]:
    start = torch.optim.SGD.__init__

    def init_ignoring_errors(self: Any, params: Any, *args: Any, **kwargs: Any) -> None:
        with contextlib.suppress(ValueError):
            start(self, params, *args, **kwargs)

    return mock.patch.object(torch.optim.SGD, "__init__", init_ignoring_errors)


def _step_fault(name: str, around: Callable[[Any, Callable[..., Any]], Any]) -> Fault:
    return lambda: replaced_step(name, around)


OPTIMIZERS = (
    InjectedFault("optimizer", "steps", "SGD", _step_fault("SGD", _step_too_far)),
    InjectedFault("optimizer", "implementations", "Adam", _step_fault("Adam", _foreach_step_too_far)),
    InjectedFault("optimizer", "state-dict", "Adam", _nothing_loaded),
    InjectedFault("optimizer", "tensor-lr", "SGD", _step_fault("SGD", _half_tensor_rate)),
    InjectedFault("optimizer", "lr-scheduler", "SGD", _no_schedule),
    InjectedFault("optimizer", "param-groups", "RMSprop", _step_fault("RMSprop", _one_rate_for_all_groups)),
    InjectedFault("optimizer", "missing-gradients", "SGD", _step_fault("SGD", _step_without_gradient)),
    InjectedFault("optimizer", "closure", "LBFGS", _step_fault("LBFGS", _nothing_returned)),
    InjectedFault("optimizer", "sparse-gradients", "SparseAdam", _step_fault("SparseAdam", _step_too_far)),
    InjectedFault("optimizer", "grad-scaler", "SGD", _infinities_ignored),
    InjectedFault("optimizer", "differentiable", "SGD", _step_fault("SGD", _step_too_far)),
    InjectedFault("optimizer", "error-inputs", "SGD", _any_options_accepted, Kind.ERROR_TYPE),
)
