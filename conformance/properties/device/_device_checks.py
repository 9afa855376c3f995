"""The shared parts of the properties of a device's API."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from conformance.device.api import DeviceApi
from conformance.framework.calls import CallOutcome, attempt_on, report_error
from conformance.framework.compare import compare_exact
from conformance.framework.recorder import Recorder
from conformance.model.vocabulary import ANY_DTYPE
from conformance.process_control.garbage_collector import collector_off
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

SIZE = 1 << 12

Applies = Callable[[Target, Subject], Sequence[str]]


def about(name: str, *, delay: bool = False) -> Applies:
    """Return the ``applies`` of a property of one part of the API.

    The host itself has no streams, events or pinned memory to speak of. With ``delay`` there is a result only
    if the target's file names a hook by which work can be made to last.
    """

    def applies(target: Target, subject: Subject) -> Sequence[str]:
        able = (name == "Compile" or not target.is_cpu) and (not delay or "delay" in target.hooks)
        return [ANY_DTYPE] if subject.name == name and able else []

    return applies


def zeros(target: Target, size: int = SIZE) -> torch.Tensor:
    """Return zeros of int64 on the device, which are there when this returns."""
    tensor = torch.zeros(size, dtype=torch.int64, device=target.device)
    target.synchronize()
    return tensor


def do(target: Target, recorder: Recorder, what: str, work: Callable[[], Any]) -> CallOutcome:
    """Return the outcome of some work; an error is recorded."""
    outcome = attempt_on(target, work)
    if not outcome.ok:
        assert outcome.error is not None
        recorder.compared(1)
        report_error(target, recorder, outcome.error, what=what)
    return outcome


def holds(recorder: Recorder, tensor: torch.Tensor, value: int, what: str) -> bool:
    """Compare every element with one number."""
    return compare_exact(recorder, tensor, torch.full(tensor.shape, value, dtype=tensor.dtype), what=what)


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Free the garbage of earlier work now, and let none be freed in the context: statistics would change."""
    gc.collect()
    with collector_off():
        yield


def slow(api: DeviceApi, recorder: Recorder, seconds: float = 0.05) -> None:
    """Delay the stream, so that work which does not wait is wrong; without a way to delay that is left to
    chance.
    """
    if not api.delay(seconds):
        recorder.note("the target has no hook delay: work that does not wait is found by chance only")
