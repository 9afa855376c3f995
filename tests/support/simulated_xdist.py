"""A simulated session of pytest-xdist without processes. It starts fake workers, and finishes or loses their
items.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from conformance.worker.xdist_scheduler import SubjectScheduling


@dataclasses.dataclass(eq=False)
class SimulatedWorker:
    """A fake worker of pytest-xdist. It records the items that it receives."""

    sent: list[int] = dataclasses.field(default_factory=list)
    shutting_down: bool = False

    def send_runtest_some(self, indices: list[int]) -> None:
        """Record the indices of the items that the scheduler sends to the worker."""
        assert not self.shutting_down
        self.sent += indices

    def shutdown(self) -> None:
        """Record that the worker must exit after its last item."""
        self.shutting_down = True


class SimulatedSession:
    """A session that passes the events of fake workers to a scheduler. The name of an item is
    ``PROPERTY/GROUP``.
    """

    def __init__(
        self,
        items: Sequence[str],
        workers: int,
        *,
        isolated: bool = True,
        variants: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        self.items = list(items)
        #: The scheduler's clock, in seconds.
        self.now = 0.0
        self.scheduler = SubjectScheduling(
            workers,
            lambda item: item.partition("/")[2],
            lambda *ignored: None,
            is_isolated=lambda item: isolated,
            property_of=lambda item: item.partition("/")[0],
            variant_of=lambda item: "" if variants is None else variants[item],
            continue_item=lambda item: self.continued.append(item),
            report_independent=lambda node: self.independent.append(node),
            start_worker=self.start_worker,
            time_limit=100.0,
            clock=lambda: self.now,
            **options,
        )
        self.continued: list[str] = []
        self.independent: list[SimulatedWorker] = []
        self.nodes: list[SimulatedWorker] = []
        self.starting: collections.deque[SimulatedWorker] = collections.deque()
        self.finished: list[str] = []
        for _ in range(workers):
            self.nodes.append(SimulatedWorker())
            self.scheduler.add_node(self.nodes[-1])
        assert not self.scheduler.collection_is_completed
        for node in self.nodes:
            self.scheduler.add_node_collection(node, self.items)
        assert self.scheduler.collection_is_completed
        self.scheduler.schedule()

    def start_worker(self) -> None:
        """Begin to start a worker. ``let_workers_start`` finishes the start."""
        self.starting.append(SimulatedWorker())

    def let_workers_start(self) -> None:
        """Finish the start of all workers that have begun to start."""
        while self.starting:
            node = self.starting.popleft()
            self.nodes.append(node)
            self.scheduler.add_node(node)
            self.scheduler.add_node_collection(node, self.items)
            self.scheduler.schedule()

    def items_by_worker(self) -> dict[SimulatedWorker, str]:
        """Return the item that each worker runs."""
        return {node: self.items[index] for node, index in self.scheduler.running_items().items()}

    def finish_item(self, node: SimulatedWorker) -> str:
        """Finish the item that a worker runs, and return the item."""
        index = self.scheduler.running_items()[node]
        self.finished.append(self.items[index])
        self.scheduler.mark_test_complete(node, index)
        return self.items[index]

    def lose_worker(self, node: SimulatedWorker) -> str | None:
        """Remove a worker as if its process had crashed, and begin to start another worker. Return the item
        that the lost worker ran.
        """
        self.nodes.remove(node)
        item = self.scheduler.remove_node(node)
        self.start_worker()
        return item

    def run(self, is_lost: Callable[[str], bool] = lambda item: False) -> None:
        """Finish or lose the running items, one after the other, until no worker runs any more.

        ``is_lost`` is called once for each item that runs.
        """
        for _ in range(10 * len(self.items)):
            self.let_workers_start()
            running = self.items_by_worker()
            if not running:
                break
            for node, item in running.items():
                if is_lost(item):
                    assert self.lose_worker(node) == item
                else:
                    self.finish_item(node)
        assert not self.items_by_worker() and self.scheduler.tests_finished
