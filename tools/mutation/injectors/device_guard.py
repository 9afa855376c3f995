"""Inject mutants of streams and events: the device guard of torch, interposed in C++."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from tools.mutation.injectors.injector import NO_DTYPE, Counts, Injector, Observed
from tools.mutation.interposer import Interposer
from tools.mutation.mutant import Mutant

MUTATION_OPERATORS: Mapping[str, str] = {
    "on-an-idle-stream": "an event is recorded on an idle stream",
    "wait-dropped": "a stream, or the host, does not wait",
    "host-waits": "the host waits instead of a stream",
    "ready-too-early": "work in progress is reported as done",
    "query-waits": "a query waits for the work instead of returning at once",
    "never-ready": "the first query reports finished work as unfinished",
    "time-zero": "no time passes between two events",
    "time-negative": "time runs backwards between two events",
    "time-in-microseconds": "the time between two events is in microseconds",
    "default-returned": "the current stream is always the default one",
    "stream-not-set": "a change of the current stream is ignored",
    "one-stream": "every new stream is the default one",
}

_WAITS = ("wait-dropped",)
_READY = ("ready-too-early", "query-waits", "never-ready")
#: The mutation operators of each function of torch's DeviceGuardImplInterface that programs reach. Only C++
#: guards read the stream that exchangeStream returns, so no program can observe a wrong stream.
POINTS: Mapping[str, tuple[str, ...]] = {
    "record": ("on-an-idle-stream",),
    "block": ("wait-dropped", "host-waits"),
    "queryEvent": _READY,
    "queryStream": _READY,
    "synchronizeEvent": _WAITS,
    "synchronizeStream": _WAITS,
    "synchronizeDevice": _WAITS,
    "elapsedTime": ("time-zero", "time-negative", "time-in-microseconds"),
    "getStream": ("default-returned",),
    "exchangeStream": ("stream-not-set",),
    "getNewStream": ("one-stream",),
}


class DeviceGuardInjector(Injector):
    """Injects mutants into the guard of a device. A point is ``guard::`` followed by the guard's function."""

    def __init__(self, device: str, extension: Interposer) -> None:
        self.mutants = [
            Mutant(f"guard::{name}", operator)
            for name, operator_names in POINTS.items()
            for operator in operator_names
        ]
        self._numbers = {
            (mutant.point, mutant.operator): number for number, mutant in enumerate(self.mutants)
        }
        self._indices = {point: index for index, point in enumerate(self.mutation_points)}
        self._interposer = extension
        extension.install_guard(torch.device(device).type, [(f.point, f.operator) for f in self.mutants])

    def observe(self, on: bool) -> None:
        """Start or stop recording triggered mutants."""
        self._interposer.observe_guard(on)

    def take_observed(self) -> Observed:
        """Return the mutants that were triggered since this method was last called."""
        triggered = self._interposer.take_triggered_guard_mutants()
        point_indices = {self._indices[self.mutants[number].point] for number in triggered}
        return Observed(
            [(number, NO_DTYPE) for number in triggered],
            [(point_index, 0, NO_DTYPE) for point_index in point_indices],
        )

    def enable(self, mutant: Mutant) -> None:
        """Enable a mutant of the guard."""
        self._interposer.activate_guard(self._numbers[mutant.point, mutant.operator])

    def disable(self) -> Counts:
        """Disable the mutant and return its counts."""
        count = self._interposer.deactivate_guard()
        return Counts(count, count)
