"""Bringing a target up in this process, and refusing one if another backend is the accelerator."""

from __future__ import annotations

import importlib

import torch

from conformance import torch_testing_internals
from conformance.errors import UsageError
from conformance.framework.calls import one_line
from conformance.target.target import Target


def import_backend(target: Target) -> None:
    """Import the target's module; UsageError if it cannot be imported."""
    if target.module is None:
        return
    try:
        importlib.import_module(target.module)
    except Exception as error:
        raise UsageError(
            f"module {target.module!r} of target {target.name!r} cannot be imported "
            f"({type(error).__name__}: {error}); install the backend for this torch, or take another --target"
        ) from error


def check_device(target: Target) -> None:
    """Raise UsageError unless the target's device is the accelerator of this process.

    torch knows one accelerator per process. If that is another backend, ``torch.accelerator`` would return
    the other one's streams, memory and random numbers. The CPU is not an accelerator and needs none.
    """
    try:
        device_type = torch.device(target.device).type
    except RuntimeError as error:
        message = str(error).splitlines()[0]
        raise UsageError(
            f"device {target.device!r} of target {target.name!r} is unknown to torch: {message}"
        ) from None
    if device_type == "cpu":
        return
    accelerator = torch_testing_internals.current_accelerator()
    if accelerator is None:
        after = f" after importing {target.module!r}" if target.module is not None else ""
        raise UsageError(
            f"no accelerator is present{after}, so device {target.device!r} cannot be tested; name the "
            "module that registers it (module in the target file, --module for 'targets --new'), or "
            "install its runtime"
        )
    if accelerator.type != device_type:
        raise UsageError(
            f"the accelerator of this process is {accelerator.type!r}, not {device_type!r} of target "
            f"{target.name!r}; hide the backend of {accelerator.type!r}, for which "
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0 may be enough"
        )


def check_hooks(target: Target) -> None:
    """Raise UsageError for a hook that leads nowhere: each result would show it as a fault of the device."""
    for word, text in target.hooks.items():
        try:
            function = target.hook(word)
        except Exception as error:
            raise UsageError(
                f"hook {word} = {text!r} of target {target.name!r} leads nowhere ({one_line(error)}); name a "
                "function of an importable module as module:function"
            ) from None
        if not callable(function):
            raise UsageError(
                f"hook {word} = {text!r} of target {target.name!r} is a {type(function).__name__}, which "
                "cannot be called; name a function as module:function"
            )


def bring_up(target: Target) -> None:
    """Import the backend and check that its device and its hooks are those that will be tested.

    A process that leaves the device to its ranks leaves the backend to them too: many devices serve one
    process only.
    """
    if target.elsewhere:
        return
    use(target)


def use(target: Target) -> None:
    """Bring the target up in this process, even if :func:`bring_up` leaves that to ranks."""
    import_backend(target)
    check_device(target)
    check_hooks(target)
