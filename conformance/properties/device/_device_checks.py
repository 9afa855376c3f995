"""Helper functions for the checks of a device's API: select parts, delay streams, and record errors."""

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
from conformance.process_control.garbage_collector import disable_garbage_collector
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

SIZE = 1 << 12

Applies = Callable[[Target, Subject], Sequence[str]]


def dtypes_function_for_part(name: str, *, delay: bool = False) -> Applies:
    """Return the ``dtypes_to_check`` function for properties of one part of the device API.

    The CPU has no streams, events or pinned memory, so only properties of the part ``Compile`` apply to it.
    If ``delay`` is true, the property applies only if the target file declares the hook ``delay``, which
    prolongs work on a stream.
    """

    def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
        able = (name == "Compile" or not target.is_cpu) and (not delay or "delay" in target.hooks)
        return [ANY_DTYPE] if subject.name == name and able else []

    return dtypes_to_check


def device_zeros(target: Target, size: int = SIZE) -> torch.Tensor:
    """Return an int64 tensor of zeros on the device, after its memory is written."""
    tensor = torch.zeros(size, dtype=torch.int64, device=target.device)
    target.synchronize()
    return tensor


def run_and_record_error(
    target: Target, recorder: Recorder, label: str, work: Callable[[], Any]
) -> CallOutcome:
    """Run ``work`` on the target and return the outcome. If ``work`` raises an error, record a failure."""
    outcome = attempt_on(target, work)
    if not outcome.ok:
        assert outcome.error is not None
        recorder.compared(1)
        report_error(target, recorder, outcome.error, label=label)
    return outcome


def check_all_equal(recorder: Recorder, tensor: torch.Tensor, value: int, label: str) -> bool:
    """Check that every element of the tensor equals ``value``."""
    return compare_exact(recorder, tensor, torch.full(tensor.shape, value, dtype=tensor.dtype), label=label)


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Collect garbage, and disable the garbage collector inside this context.

    A tensor that the collector frees would change the memory statistics.
    """
    gc.collect()
    with disable_garbage_collector():
        yield


def delay_stream(api: DeviceApi, recorder: Recorder, seconds: float = 0.05) -> None:
    """Delay the current stream, so that a missing wait gives a wrong result.

    If the target has no hook ``delay``, record a note.
    """
    if not api.queue_delay(seconds):
        recorder.note(
            "the target does not define the hook 'delay', so a missing wait is detected only by chance"
        )
