"""Calling something on a target, and telling its errors apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from conformance.checking import refusal
from conformance.checking.recorder import Recorder
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
    # What the device guard and the hooks of torch say for what a backend has not overridden.
    "backend doesn't support",
    "backend doesn`t support",
    "please register privateuse1hooksinterface",
    "is not supported on device type",
)


@dataclasses.dataclass
class Outcome:
    """What a call gave: a value, or the error it raised."""

    value: Any = None
    error: Exception | None = None

    @property
    def ok(self) -> bool:
        return self.error is None


def attempt(call: Callable[[], Any]) -> Outcome:
    """The outcome of ``call``; errors other than Exceptions (interrupts, timeouts) pass through."""
    try:
        return Outcome(value=call())
    except Exception as error:
        return Outcome(error=error)


def attempt_on(target: Target, call: Callable[[], Any]) -> Outcome:
    """The outcome of ``call`` on a target, errors that only the execution can find included."""
    try:
        value = call()
        if not target.is_cpu:
            target.synchronize()
        return Outcome(value=value)
    except Exception as error:
        return Outcome(error=error)


def is_refusal(error: BaseException) -> bool:
    """Whether an error says that there is no implementation, rather than that the arguments are wrong."""
    if isinstance(error, NotImplementedError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(part in text for part in _REFUSALS)


def is_answer(target: Target, error: BaseException) -> bool:
    """Whether an error is what a device says to what it lacks, wherever it came up: a refusal, or a name that
    the device's module has not got.
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
    """``Type: message`` on one line, cut to ``length``."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:length]}"


def report_error(
    target: Target, recorder: Recorder, error: Exception, *, what: str, sample: int | None = None
) -> None:
    """Record an error of the target where a result was due: unsupported, REFUSED or EXCEPTION."""
    if refusal.classify(target, recorder.id, error, recorder.lacking) == "declared":
        recorder.unsupported(refusal.why(target, recorder.id, recorder.lacking) or "")
    elif is_refusal(error):
        recorder.fail(Kind.REFUSED, f"{what} was refused: {one_line(error)}", sample=sample)
    elif isinstance(error, torch.OutOfMemoryError):
        recorder.fail(Kind.EXCEPTION, f"{what} ran out of memory: {one_line(error)}", sample=sample)
    else:
        recorder.fail(Kind.EXCEPTION, f"{what} raised {one_line(error)}", sample=sample)
