"""Bring a target up in this process, and reject a target whose device is not the accelerator."""

from __future__ import annotations

import importlib

import torch

from conformance import torch_testing_internals
from conformance.errors import UsageError
from conformance.framework.calls import one_line
from conformance.target.target import Target


def import_backend(target: Target) -> None:
    """Import the target's module; raise UsageError if the import fails."""
    if target.module is None:
        return
    try:
        importlib.import_module(target.module)
    except Exception as error:
        raise UsageError(
            f"module {target.module!r} of target {target.name!r} cannot be imported "
            f"({type(error).__name__}: {error}); install the backend for this torch, or use a different "
            "--target"
        ) from error


def check_device(target: Target) -> None:
    """Raise UsageError unless the target's device is the accelerator of this process.

    A process has one accelerator. If the accelerator belongs to a different backend, ``torch.accelerator``
    returns the streams, memory and random numbers of that backend. A target on the CPU is not checked. A
    target without the capability ``accelerator`` needs only a device type that torch knows.
    """
    try:
        device_type = torch.device(target.device).type
    except RuntimeError as error:
        message = str(error).splitlines()[0]
        raise UsageError(
            f"device {target.device!r} of target {target.name!r} is unknown to torch: {message}"
        ) from None
    if device_type == "cpu" or not target.capable("accelerator"):
        return
    accelerator = torch_testing_internals.current_accelerator()
    if accelerator is None:
        after = f" after importing {target.module!r}" if target.module is not None else ""
        raise UsageError(
            f"no accelerator is present{after}, so device {target.device!r} cannot be tested; name the "
            "module that registers it (module in the target file, --module for 'targets --new'), "
            "install its runtime, or declare accelerator = false if it works without torch.accelerator"
        )
    if accelerator.type != device_type:
        raise UsageError(
            f"the accelerator of this process is {accelerator.type!r}, not {device_type!r} of target "
            f"{target.name!r}; hide the backend of {accelerator.type!r}, for which "
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0 may be enough, or declare accelerator = false if the target "
            "works without torch.accelerator"
        )


def check_hooks(target: Target) -> None:
    """Raise UsageError for a hook that cannot be imported or is not callable.

    Without this check, each result would report the broken hook as a failure of the device.
    """
    for hook_name, reference in target.hooks.items():
        try:
            function = target.hook(hook_name)
        except Exception as error:
            raise UsageError(
                f"hook {hook_name} = {reference!r} of target {target.name!r} cannot be imported "
                f"({one_line(error)}); name a function of an importable module as module:function"
            ) from None
        if not callable(function):
            raise UsageError(
                f"hook {hook_name} = {reference!r} of target {target.name!r} is a "
                f"{type(function).__name__}, which cannot be called; name a function as module:function"
            )


def bring_up(target: Target) -> None:
    """Import the backend and check the device and the hooks. In mode ``distributed``, do nothing.

    In mode ``distributed`` only the ranks load the backend, because many devices can be used by only one
    process.
    """
    if target.elsewhere:
        return
    bring_up_in_this_process(target)


def bring_up_in_this_process(target: Target) -> None:
    """Import the backend and check the device and the hooks, even in mode ``distributed``."""
    import_backend(target)
    check_device(target)
    check_hooks(target)
