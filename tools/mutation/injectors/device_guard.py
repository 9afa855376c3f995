"""Faults of streams and events: what torch asks of a device through its guard, interposed in C++."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from tools.mutation.injectors.injector import NO_DTYPE, Counts, Observed, Planter
from tools.mutation.interposer import Interposer
from tools.mutation.mutant import Fault

KINDS: Mapping[str, str] = {
    "on-an-idle-stream": "an event is recorded on a stream that has nothing to do",
    "wait-dropped": "a stream, or the host, does not wait",
    "host-waits": "the host waits instead of a stream",
    "ready-too-early": "work in progress counts as done",
    "query-waits": "a question whether work is done waits for it",
    "never-ready": "work that is done counts as in progress, the first time",
    "time-zero": "no time passes between two events",
    "time-negative": "time runs backwards between two events",
    "time-in-microseconds": "the time between two events is in microseconds",
    "default-returned": "the current stream is always the default one",
    "stream-not-set": "the current stream stays what it is",
    "one-stream": "every new stream is the default one",
}

_WAITS = ("wait-dropped",)
_READY = ("ready-too-early", "query-waits", "never-ready")
#: Only guards in C++ read the stream that exchangeStream returns, so that no program can see another one.
#: By function of torch's DeviceGuardImplInterface that programs reach, the kinds it can have.
PLACES: Mapping[str, tuple[str, ...]] = {
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


class Streams(Planter):
    """Plants faults of the guard of a device; the interposer's names of places are those of its functions."""

    def __init__(self, device: str, extension: Interposer) -> None:
        self.faults = [Fault(f"guard::{name}", kind) for name, kinds in PLACES.items() for kind in kinds]
        self._numbers = {(fault.place, fault.kind): number for number, fault in enumerate(self.faults)}
        self._indices = {place: index for index, place in enumerate(self.places)}
        self._interposer = extension
        extension.install_guard(torch.device(device).type, [(f.place, f.kind) for f in self.faults])

    def observe(self, on: bool) -> None:
        """Begin or end looking for conditions."""
        self._interposer.observe_guard(on)

    def take_observed(self) -> Observed:
        """Return what calls met."""
        met = self._interposer.take_met_of_guard()
        places = {self._indices[self.faults[number].place] for number in met}
        return Observed([(number, NO_DTYPE) for number in met], [(place, 0, NO_DTYPE) for place in places])

    def arm(self, fault: Fault) -> None:
        """Plant a fault in the guard."""
        self._interposer.activate_guard(self._numbers[fault.place, fault.kind])

    def disarm(self) -> Counts:
        """Remove the planted fault."""
        count = self._interposer.deactivate_guard()
        return Counts(count, count)
