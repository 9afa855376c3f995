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
def change_module_outputs(change: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Apply ``change`` to the output of every module that returns a tensor."""

    def hook(module: Any, arguments: Any, output: Any) -> Any:
        return change(output) if isinstance(output, torch.Tensor) else output

    handle = register_module_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def enlarge_gradients(output: torch.Tensor) -> torch.Tensor:
    """Return the output unchanged, with gradients that are one hundredth too large."""
    if not output.requires_grad:
        return output
    return output + (output - output.detach()) * 0.01


class ReplaceTorchFunctions(TorchFunctionMode):
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


def _call_ignoring_strides(func: Any, input: torch.Tensor, *rest: Any, **kwargs: Any) -> Any:
    if input.numel() and not input.is_contiguous():
        step, strides = 1, []
        for size in reversed(input.shape):
            strides.insert(0, step)
            step *= size
        input = input.as_strided(input.shape, strides, 0)
    return func(input, *rest, **kwargs)


def _call_and_add_one(func: Any, *args: Any, **kwargs: Any) -> Any:
    output = func(*args, **kwargs)
    return output + 1 if isinstance(output, torch.Tensor) and output.is_floating_point() else output


def _call_dropout_with_half_p(
    func: Any, input: torch.Tensor, p: float = 0.5, *rest: Any, **kwargs: Any
) -> Any:
    return func(input, p / 2, *rest, **kwargs) / (1 - p) * (1 - p / 2)


def _patch_torch_load() -> contextlib.AbstractContextManager[Any]:
    load = torch.load

    def load_and_add_one(*args: Any, **kwargs: Any) -> Any:
        state = load(*args, **kwargs)
        return {key: value + 1 for key, value in state.items()}

    return mock.patch.object(torch, "load", load_and_add_one)


def _patch_ones_init_to_twos() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(torch.nn.init, "ones_", lambda tensor: tensor.data.fill_(2))


def _patch_module_eval() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(torch.nn.Module, "eval", lambda self: self)


def _patch_deepcopy_to_share() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(torch.nn.Parameter, "__deepcopy__", lambda self, memo: self)


def _patch_rnn_cell_to_accept_all() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(torch.nn.RNNCell, "forward", lambda self, input, hx=None: input)


MODULES = (
    InjectedFault("module", "forward", "nn.Linear", lambda: change_module_outputs(lambda out: out * 1.01)),
    InjectedFault(
        "module",
        "forward",
        "nn.LayerNorm",
        lambda: change_module_outputs(lambda out: out.double()),
        Kind.DTYPE,
    ),
    InjectedFault("module", "backward", "nn.Linear", lambda: change_module_outputs(enlarge_gradients)),
    InjectedFault("module", "double-backward", "nn.Tanh", lambda: change_module_outputs(enlarge_gradients)),
    InjectedFault(
        "module",
        "memory-format",
        "nn.Conv2d",
        lambda: change_module_outputs(lambda out: out.contiguous()),
        Kind.METADATA,
    ),
    InjectedFault(
        "module",
        "non-contiguous",
        "nn.Linear",
        lambda: ReplaceTorchFunctions(("linear",), _call_ignoring_strides),
    ),
    InjectedFault(
        "module",
        "zero-grad",
        "nn.Linear",
        lambda: mock.patch.object(torch.nn.Module, "zero_grad", lambda self, set_to_none=True: None),
    ),
    InjectedFault("module", "state-dict", "nn.Linear", _patch_torch_load, Kind.STATE),
    InjectedFault(
        "module",
        "device-transfer",
        "nn.Linear",
        lambda: ReplaceTorchFunctions(("to",), _call_and_add_one),
        Kind.STATE,
    ),
    InjectedFault(
        "module",
        "dtype-transfer",
        "nn.Linear",
        lambda: ReplaceTorchFunctions(("to",), _call_and_add_one),
        Kind.STATE,
    ),
    InjectedFault("module", "factory-device", "nn.BatchNorm1d", _patch_ones_init_to_twos),
    InjectedFault("module", "train-eval", "nn.BatchNorm2d", _patch_module_eval, Kind.STATE),
    InjectedFault("module", "train-eval", "nn.Dropout", lambda: change_module_outputs(lambda out: out * 2)),
    InjectedFault("module", "copies", "nn.Linear", _patch_deepcopy_to_share, Kind.ALIASING),
    InjectedFault(
        "module",
        "random",
        "nn.Dropout",
        lambda: ReplaceTorchFunctions(("dropout",), _call_dropout_with_half_p),
    ),
    InjectedFault("module", "error-inputs", "nn.RNNCell", _patch_rnn_cell_to_accept_all, Kind.ERROR_TYPE),
)
