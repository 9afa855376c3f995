"""Faults of modules on the target, at least one for each property of modules."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode

from conformance.model.verdicts import Kind
from tests.support.module_and_optimizer_faults import InjectedFault


@contextlib.contextmanager
def changed_outputs(change: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Apply ``change`` to the output of every module that returns a tensor."""

    def hook(module: Any, arguments: Any, output: Any) -> Any:
        return change(output) if isinstance(output, torch.Tensor) else output

    handle = register_module_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def with_larger_gradients(output: torch.Tensor) -> torch.Tensor:
    """Return the output unchanged, with gradients that are one hundredth too large."""
    if not output.requires_grad:
        return output
    return output + (output - output.detach()) * 0.01


class ChangedFunctions(TorchFunctionMode):
    """Function mode that calls ``change(func, *args, **kwargs)`` instead of each torch function or method
    whose name is in ``names``.
    """

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


def _result_plus_one(func: Any, *args: Any, **kwargs: Any) -> Any:
    output = func(*args, **kwargs)
    return output + 1 if isinstance(output, torch.Tensor) and output.is_floating_point() else output


def _dropped_half_as_often(func: Any, input: torch.Tensor, p: float = 0.5, *rest: Any, **kwargs: Any) -> Any:
    return func(input, p / 2, *rest, **kwargs) / (1 - p) * (1 - p / 2)


def _wrong_load() -> contextlib.AbstractContextManager[Any]:
    load = torch.load

    def wrong_load(*args: Any, **kwargs: Any) -> Any:
        state = load(*args, **kwargs)
        return {key: value + 1 for key, value in state.items()}

    return mock.patch.object(torch, "load", wrong_load)


def _ones_are_twos() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(torch.nn.init, "ones_", lambda tensor: tensor.data.fill_(2))


def _statistics_move_in_eval() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(torch.nn.Module, "eval", lambda self: self)


def _copies_share() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(torch.nn.Parameter, "__deepcopy__", lambda self, memo: self)


def _cells_accept_anything() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(torch.nn.RNNCell, "forward", lambda self, input, hx=None: input)


MODULES = (
    InjectedFault("module", "forward", "nn.Linear", lambda: changed_outputs(lambda out: out * 1.01)),
    InjectedFault(
        "module", "forward", "nn.LayerNorm", lambda: changed_outputs(lambda out: out.double()), Kind.DTYPE
    ),
    InjectedFault("module", "backward", "nn.Linear", lambda: changed_outputs(with_larger_gradients)),
    InjectedFault("module", "double-backward", "nn.Tanh", lambda: changed_outputs(with_larger_gradients)),
    InjectedFault(
        "module",
        "memory-format",
        "nn.Conv2d",
        lambda: changed_outputs(lambda out: out.contiguous()),
        Kind.METADATA,
    ),
    InjectedFault(
        "module", "non-contiguous", "nn.Linear", lambda: ChangedFunctions(("linear",), _strides_ignored)
    ),
    InjectedFault(
        "module",
        "zero-grad",
        "nn.Linear",
        lambda: mock.patch.object(torch.nn.Module, "zero_grad", lambda self, set_to_none=True: None),
    ),
    InjectedFault("module", "state-dict", "nn.Linear", _wrong_load, Kind.STATE),
    InjectedFault(
        "module",
        "device-transfer",
        "nn.Linear",
        lambda: ChangedFunctions(("to",), _result_plus_one),
        Kind.STATE,
    ),
    InjectedFault(
        "module",
        "dtype-transfer",
        "nn.Linear",
        lambda: ChangedFunctions(("to",), _result_plus_one),
        Kind.STATE,
    ),
    InjectedFault("module", "factory-device", "nn.BatchNorm1d", _ones_are_twos),
    InjectedFault("module", "train-eval", "nn.BatchNorm2d", _statistics_move_in_eval, Kind.STATE),
    InjectedFault("module", "train-eval", "nn.Dropout", lambda: changed_outputs(lambda out: out * 2)),
    InjectedFault("module", "copies", "nn.Linear", _copies_share, Kind.ALIASING),
    InjectedFault(
        "module", "random", "nn.Dropout", lambda: ChangedFunctions(("dropout",), _dropped_half_as_often)
    ),
    InjectedFault("module", "error-inputs", "nn.RNNCell", _cells_accept_anything, Kind.ERROR_TYPE),
)
