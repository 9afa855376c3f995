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
def wrap_optimizer_step(name: str, changed_step: Callable[[Any, Callable[..., Any]], Any]) -> Iterator[None]:
    """Make ``step`` of the optimizer class ``name`` call ``changed_step(optimizer, step)`` with the
    original step.
    """
    cls = getattr(torch.optim, name)
    step = cls.step

    def replacement(self: Any, *args: Any, **kwargs: Any) -> Any:
        return changed_step(self, lambda: step(self, *args, **kwargs))

    with mock.patch.object(cls, "step", replacement):
        yield


def _parameters(optimizer: Any) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _step_and_enlarge_parameters(optimizer: Any, step: Callable[..., Any]) -> Any:
    """Run the step, then make each parameter one hundredth larger."""
    loss = step()
    with torch.no_grad():
        for parameter in _parameters(optimizer):
            parameter.mul_(1.01)
    return loss


def _enlarge_parameters_if_foreach(optimizer: Any, step: Callable[..., Any]) -> Any:
    return _step_and_enlarge_parameters(optimizer, step) if optimizer.defaults.get("foreach") else step()


def _step_parameters_without_gradient(optimizer: Any, step: Callable[..., Any]) -> Any:
    loss = step()
    with torch.no_grad():
        for parameter in _parameters(optimizer):
            if parameter.grad is None:
                parameter.add_(1.0)
    return loss


def _step_with_half_tensor_lr(optimizer: Any, step: Callable[..., Any]) -> Any:
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"] = group["lr"] / 2
    loss = step()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    return loss


def _step_with_lr_of_first_group(optimizer: Any, step: Callable[..., Any]) -> Any:
    for group in optimizer.param_groups:
        group["lr"] = optimizer.param_groups[0]["lr"]
    return step()


def _step_and_return_zero(optimizer: Any, step: Callable[..., Any]) -> Any:
    step()
    return torch.zeros(())


def _patch_lr_scheduler_step() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(torch.optim.lr_scheduler.LRScheduler, "step", lambda self, *args: None)


def _patch_load_state_dict() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(torch.optim.Optimizer, "load_state_dict", lambda self, state: None)


def _patch_grad_scaler_step() -> contextlib.AbstractContextManager[Any]:
    step = torch.amp.GradScaler.step

    def step_ignoring_infinities(self: Any, optimizer: Any) -> Any:
        for parameter in _parameters(optimizer):
            if parameter.grad is not None:
                torch.nan_to_num_(parameter.grad, 1.0, 1.0, 1.0)
        return step(self, optimizer)

    return mock.patch.object(torch.amp.GradScaler, "step", step_ignoring_infinities)


def _patch_sgd_init() -> contextlib.AbstractContextManager[Any]:
    start = torch.optim.SGD.__init__

    def init_ignoring_errors(self: Any, params: Any, *args: Any, **kwargs: Any) -> None:
        with contextlib.suppress(ValueError):
            start(self, params, *args, **kwargs)

    return mock.patch.object(torch.optim.SGD, "__init__", init_ignoring_errors)


def _fault_of_step(name: str, changed_step: Callable[[Any, Callable[..., Any]], Any]) -> Fault:
    return lambda: wrap_optimizer_step(name, changed_step)


OPTIMIZERS = (
    InjectedFault("optimizer", "steps", "SGD", _fault_of_step("SGD", _step_and_enlarge_parameters)),
    InjectedFault(
        "optimizer", "implementations", "Adam", _fault_of_step("Adam", _enlarge_parameters_if_foreach)
    ),
    InjectedFault("optimizer", "state-dict", "Adam", _patch_load_state_dict),
    InjectedFault("optimizer", "tensor-lr", "SGD", _fault_of_step("SGD", _step_with_half_tensor_lr)),
    InjectedFault("optimizer", "lr-scheduler", "SGD", _patch_lr_scheduler_step),
    InjectedFault(
        "optimizer", "param-groups", "RMSprop", _fault_of_step("RMSprop", _step_with_lr_of_first_group)
    ),
    InjectedFault(
        "optimizer", "missing-gradients", "SGD", _fault_of_step("SGD", _step_parameters_without_gradient)
    ),
    InjectedFault("optimizer", "closure", "LBFGS", _fault_of_step("LBFGS", _step_and_return_zero)),
    InjectedFault(
        "optimizer",
        "sparse-gradients",
        "SparseAdam",
        _fault_of_step("SparseAdam", _step_and_enlarge_parameters),
    ),
    InjectedFault("optimizer", "grad-scaler", "SGD", _patch_grad_scaler_step),
    InjectedFault("optimizer", "differentiable", "SGD", _fault_of_step("SGD", _step_and_enlarge_parameters)),
    InjectedFault("optimizer", "error-inputs", "SGD", _patch_sgd_init, Kind.ERROR_TYPE),
)
