"""Run calls on a target and classify the errors that they raise."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable
from typing import Any

import torch

from conformance.framework import refusals
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.target.target import Target

#: Substrings of error messages by which the dispatcher and kernels refuse an operator, a dtype or a layout.
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
    # Messages of torch's device guard and hooks for a method that a backend has not overridden.
    "backend doesn't support",
    "backend doesn`t support",
    "please register privateuse1hooksinterface",
    "is not supported on device type",
    # Torch's internal assertion for a backend whose allocator keeps no statistics.
    "is not a deviceallocator",
)


@dataclasses.dataclass
class CallOutcome:
    """The outcome of a call: its value, or the error that it raised."""

    value: Any = None
    error: Exception | None = None

    @property
    def ok(self) -> bool:
        """True if the call did not raise an error."""
        return self.error is None


def attempt(call: Callable[[], Any]) -> CallOutcome:
    """Run ``call`` and return its outcome. A BaseException that is not an Exception, such as
    KeyboardInterrupt, propagates.
    """
    try:
        return CallOutcome(value=call())
    except Exception as error:
        return CallOutcome(error=_without_locals(error))


def _without_locals(error: Exception) -> Exception:
    """Return an error whose traceback keeps no tensor alive.

    A lazy device computes every live result at its next barrier. If one of these results cannot be
    computed, each later barrier would fail too.
    """
    traceback.clear_frames(error.__traceback__)
    return error


def attempt_on(target: Target, call: Callable[[], Any]) -> CallOutcome:
    """Run ``call``, wait for the target's device, and return the outcome. An error that the wait raises is
    treated like an error of the call.
    """
    value = None
    try:
        value = call()
        if not target.is_cpu:
            target.synchronize()
        return CallOutcome(value=value)
    except Exception as error:
        value = None
        return CallOutcome(error=_without_locals(error))


def is_refusal(error: BaseException) -> bool:
    """Return True if an error reports a missing implementation, and not invalid arguments."""
    if isinstance(error, NotImplementedError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(part in text for part in _REFUSALS)


def is_clean_refusal(target: Target, error: BaseException) -> bool:
    """Return True if an error is a clean refusal: it reports a missing implementation, or it is an
    AttributeError for a name that the device's module does not have.
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
    """Return ``Type: message`` on one line, truncated to ``length`` characters."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:length]}"


def report_error(
    target: Target, recorder: Recorder, error: Exception, *, label: str, sample: int | None = None
) -> None:
    """Record an error that the target raised instead of returning a result.

    A declared refusal is recorded as unsupported, any other refusal as a failure of kind REFUSED, and any
    other error as a failure of kind EXCEPTION.
    """
    disposition = refusals.classify_exception(target, recorder.id, error, recorder.lacking)
    if disposition is refusals.ExceptionDisposition.DECLARED:
        recorder.unsupported(refusals.refusal_reason(target, recorder.id, recorder.lacking) or "")
    elif is_refusal(error):
        recorder.fail(Kind.REFUSED, f"{label} was refused: {one_line(error)}", sample=sample)
    elif isinstance(error, torch.OutOfMemoryError):
        recorder.fail(Kind.EXCEPTION, f"{label} ran out of memory: {one_line(error)}", sample=sample)
    else:
        recorder.fail(Kind.EXCEPTION, f"{label} raised {one_line(error)}", sample=sample)
