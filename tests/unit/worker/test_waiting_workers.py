"""``worker.waiting_workers`` finds workers that wait. Workers that compute, and workers of a slow device, do
not count as waiting.
"""

from __future__ import annotations

import dataclasses
import types
from typing import Any

from conformance.worker.waiting_workers import WaitingWorkers


@dataclasses.dataclass(eq=False)
class FakeNode:
    """A fake worker; its process id is its only field."""

    pid: int

    @property
    def gateway(self) -> Any:
        return types.SimpleNamespace(_io=types.SimpleNamespace(popen=types.SimpleNamespace(pid=self.pid)))


class FakeScheduler:
    """A fake scheduler with workers that run items. It records which workers wait."""

    def __init__(self) -> None:
        self.running: dict[Any, int] = {}
        self.nodes: list[Any] = []
        self.waiting: set[Any] = set()

    def running_items(self) -> dict[Any, int]:
        return dict(self.running)

    def set_waiting(self, nodes: set[Any]) -> None:
        self.waiting = nodes


class SimulatedMachine:
    """A machine with workers. A test sets the clock and the processor time of each worker."""

    def __init__(self) -> None:
        self.scheduler = FakeScheduler()
        self.used: dict[int, float | None] = {}
        self.now = 0.0
        self.watch = WaitingWorkers(None, self.scheduler, lambda pid: self.used[pid], lambda: self.now)

    def worker(self, pid: int, item: int) -> FakeNode:
        node = FakeNode(pid)
        self.used[pid] = 0.0
        self.scheduler.nodes.append(node)
        self.scheduler.running[node] = item
        return node

    def pass_seconds(self, seconds: int, busy: tuple[FakeNode, ...] = ()) -> None:
        for _ in range(seconds):
            self.watch.report_waiting_workers()
            self.now += 1.0
            for node in busy:
                self.used[node.pid] = (self.used[node.pid] or 0.0) + 0.9
        self.watch.report_waiting_workers()


def test_an_idle_worker_waits_and_a_busy_one_does_not() -> None:
    machine = SimulatedMachine()
    idle, busy = machine.worker(1, 0), machine.worker(2, 1)
    machine.pass_seconds(2, (busy,))
    assert machine.scheduler.waiting == set()
    machine.pass_seconds(2, (busy,))
    assert machine.scheduler.waiting == {idle}
    machine.pass_seconds(1, (busy, idle))
    assert machine.scheduler.waiting == set()


def test_each_item_begins_anew() -> None:
    machine = SimulatedMachine()
    node = machine.worker(1, 0)
    for item in range(5):
        machine.scheduler.running[node] = item
        machine.pass_seconds(2)
        assert machine.scheduler.waiting == set()


def test_a_slow_device_gets_no_additional_work() -> None:
    """If an item was idle for 10 s and then finished, the next item counts as waiting only after 30 idle
    seconds.
    """
    machine = SimulatedMachine()
    node = machine.worker(1, 0)
    machine.pass_seconds(10)
    assert machine.scheduler.waiting == {node}
    machine.scheduler.running[node] = 1
    machine.pass_seconds(29)
    assert machine.scheduler.waiting == set()
    machine.pass_seconds(2)
    assert machine.scheduler.waiting == {node}


def test_the_idle_time_of_a_lost_worker_says_nothing() -> None:
    machine = SimulatedMachine()
    lost = machine.worker(1, 0)
    machine.pass_seconds(100)
    machine.scheduler.nodes.remove(lost)
    del machine.scheduler.running[lost]
    second = machine.worker(2, 1)
    machine.pass_seconds(4)
    assert machine.scheduler.waiting == {second}


def test_a_worker_without_known_processor_time_does_not_wait() -> None:
    machine = SimulatedMachine()
    machine.used[machine.worker(1, 0).pid] = None
    machine.pass_seconds(10)
    assert machine.scheduler.waiting == set()
