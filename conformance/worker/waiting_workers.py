"""Find the pytest-xdist workers whose running item only waits, for example for a device that hangs."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from conformance.process_control.processor_time import processor_seconds

_INTERVAL = 1.0
#: A worker is idle if it used the processor for less than this part of an interval.
_IDLE_PART = 0.05
#: An item is treated as waiting if its worker was idle for ``_SECONDS`` and for ``_FACTOR`` times the longest
#: idle time of a worker before it finished an item. A device that is only slow must not get more work at a
#: time.
_SECONDS, _FACTOR = 3.0, 3.0


class Scheduler(Protocol):
    """The part of a scheduler that this module uses."""

    @property
    def nodes(self) -> list[Any]:
        """The workers that have been added and not removed."""

    def running_items(self) -> dict[Any, int]:
        """Return the index of the item that each worker runs."""

    def set_waiting(self, nodes: set[Any]) -> None:
        """Record which workers only wait."""


class WaitingWorkers:
    """Reports the waiting workers to a scheduler once per second.

    A timer thread puts an event into the queue of pytest-xdist's session. The main thread, which calls the
    scheduler for all other events too, handles this event.
    """

    def __init__(
        self,
        distributor: Any,
        scheduler: Scheduler,
        processor_seconds_of: Callable[[int], float | None] = processor_seconds,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._distributor = distributor
        self._scheduler = scheduler
        self._processor_seconds_of = processor_seconds_of
        self._clock = clock
        self._idle: dict[Any, _IdleTime] = {}
        #: The longest time for which a worker was idle before it finished its item.
        self._longest = 0.0

    def start(self) -> None:
        """Start the timer."""
        # pytest-xdist calls the method "worker_" + NAME of its session for an event of this name.
        self._distributor.worker_conformance_look = self.report_waiting_workers
        threading.Thread(
            target=self._request_reports, name="conformance-waiting-workers", daemon=True
        ).start()

    def _request_reports(self) -> None:
        while True:
            time.sleep(_INTERVAL)
            self._distributor.queue.put(("conformance_look", {}))

    def report_waiting_workers(self) -> None:
        """Report the workers that wait now."""
        running = self._scheduler.running_items()
        now = self._clock()
        for node, idle in list(self._idle.items()):
            if running.get(node) != idle.item:
                if node in self._scheduler.nodes:  # its item finished
                    self._longest = max(self._longest, idle.longest)
                del self._idle[node]
        for node, item in running.items():
            seconds = self._processor_seconds_of(process_id(node))
            if seconds is not None:
                self._idle.setdefault(node, _IdleTime(item, now, now, seconds)).update(now, seconds)
        limit = max(_SECONDS, _FACTOR * self._longest)
        self._scheduler.set_waiting({node for node, idle in self._idle.items() if idle.seconds >= limit})


@dataclasses.dataclass
class _IdleTime:
    """The idle time of the worker that runs an item."""

    item: int
    since: float
    measured: float
    used: float
    #: The longest time for which the worker was idle.
    longest: float = 0.0

    @property
    def seconds(self) -> float:
        """The seconds for which the worker has been idle until now."""
        return self.measured - self.since

    def update(self, now: float, used: float) -> None:
        """Record the processor seconds that the worker has used until now."""
        if used - self.used > _IDLE_PART * (now - self.measured):
            self.since = now
        self.measured, self.used = now, used
        self.longest = max(self.longest, self.seconds)


def process_id(node: Any) -> int:
    """Return the process id of a pytest-xdist worker."""
    # execnet has no public access to the process of a gateway.
    return int(node.gateway._io.popen.pid)
