"""Calls on a target, and the kinds of errors that they raise."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from conformance.framework import refusals
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.target.target import Target

#: Parts of the messages by which the dispatcher and the kernels refuse an operator, a dtype or a layout.
_REFUSALS = (
    "could not run '",
    "not implemented for",
    "not implemented on",
    "is not implemented",
    "not yet implemented",
    "not supported on",
    "not supported for",
    "is not currently supported on the",
    "unsupported dtype",
    "does not support",
    "no kernel found",
    "not compiled with",
    # The words of torch's device guard and hooks for what a backend has not overridden.
    "backend doesn't support",
    "backend doesn`t support",
    "please register privateuse1hooksinterface",
    "is not supported on device type",
    # Torch's answer, an internal assertion, if a backend's allocator keeps no statistics.
    "is not a deviceallocator",
)


@dataclasses.dataclass
class CallOutcome:
    """The outcome of a call: a value, or the error it raised."""

    value: Any = None
    error: Exception | None = None

    @property
    def ok(self) -> bool:
        """True if the call raised nothing."""
        return self.error is None


def attempt(call: Callable[[], Any]) -> CallOutcome:
    """Return the outcome of ``call``; errors other than Exceptions (interrupts, timeouts) pass through."""
    try:
        return CallOutcome(value=call())
    except Exception as error:
        return CallOutcome(error=error)


def attempt_on(target: Target, call: Callable[[], Any]) -> CallOutcome:
    """Return the outcome of ``call`` on a target, including errors that only the execution can find."""
    try:
        value = call()
        if not target.is_cpu:
            target.synchronize()
        return CallOutcome(value=value)
    except Exception as error:
        return CallOutcome(error=error)


def is_refusal(error: BaseException) -> bool:
    """Return whether an error says that there is no implementation, not that the arguments are wrong."""
    if isinstance(error, NotImplementedError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(part in text for part in _REFUSALS)


def is_clean_refusal(target: Target, error: BaseException) -> bool:
    """Return whether an error is a device's answer to a request for something that it lacks.

    That is a refusal, or an AttributeError for a name that the device's module does not have.
    """
    if is_refusal(error):
        return True
    if target.is_cpu or not isinstance(error, AttributeError):
        return False
    try:
        return error.obj is torch.get_device_module(target.device)
    except Exception:
        return False


def one_line(error: BaseException, length: int = 300) -> str:
    """Return ``Type: message`` on one line, the message cut to ``length`` characters."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:length]}"


def report_error(
    target: Target, recorder: Recorder, error: Exception, *, label: str, sample: int | None = None
) -> None:
    """Record an error of the target instead of a result that was due: unsupported, REFUSED or EXCEPTION."""
    if refusals.classify(target, recorder.id, error, recorder.lacking) == "declared":
        recorder.unsupported(refusals.why(target, recorder.id, recorder.lacking) or "")
    elif is_refusal(error):
        recorder.fail(Kind.REFUSED, f"{label} was refused: {one_line(error)}", sample=sample)
    elif isinstance(error, torch.OutOfMemoryError):
        recorder.fail(Kind.EXCEPTION, f"{label} ran out of memory: {one_line(error)}", sample=sample)
    else:
        recorder.fail(Kind.EXCEPTION, f"{label} raised {one_line(error)}", sample=sample)
