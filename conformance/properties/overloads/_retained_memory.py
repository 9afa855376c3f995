"""Detect calls that do not release device memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from conformance.device import memory
from conformance.framework.calls import attempt
from conformance.framework.compare import fact
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.shared.execution import run_operator
from conformance.samples.operators import Sample
from conformance.target.target import Target

#: The number of rounds of calls. The check fails only if every round retains memory, because a device may
#: allocate a table in the first round.
_ROUNDS = 3
#: The number of calls in a round.
_CALLS = 25


class RetainedMemory:
    """Counts the device memory that rounds of calls leave allocated, if the target has memory statistics.

    Memory that is retained less often than once in a round is not detected.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._allocated = memory.allocated_bytes_counter(target)
        self._counts: list[int] = []

    def record_allocated_bytes(self) -> None:
        """Wait for the device and record the allocated bytes after a round of calls.

        Errors of pending work are raised. After an error of the memory statistics, all counts are dropped.
        """
        if self._allocated is None:
            return
        self._target.synchronize()
        counted = attempt(self._allocated)
        if counted.ok:
            self._counts.append(counted.value)
        else:  # other properties check the device's statistics
            self._allocated = None
            self._counts.clear()

    def check(self, recorder: Recorder, calls: str, sample: int) -> None:
        """Check that at least one round of calls retained no memory. Messages call a round ``calls``."""
        if not self._counts:
            return
        retained = min(after - before for before, after in itertools.pairwise(self._counts))
        text = f"{calls} leave at least {retained} bytes of device memory allocated, in every round."
        fact(recorder, retained <= 0, Kind.STATE, text, sample=sample)


def check_no_memory_retained(
    target: Target, recorder: Recorder, op: Callable[..., Any], sample: Sample
) -> None:
    """Check that calls leave no device memory allocated, if the target has memory statistics."""
    retained_memory = RetainedMemory(target)

    def call_repeatedly(_: Any) -> None:
        for _ in range(_CALLS):
            sample.call(op)

    retained_memory.record_allocated_bytes()
    for _ in range(_ROUNDS):
        run_operator(target, call_repeatedly, Sample(sample.index, None))
        retained_memory.record_allocated_bytes()
    retained_memory.check(recorder, f"{_CALLS} calls", sample.index)
