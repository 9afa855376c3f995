"""The pytest-xdist scheduler: one worker runs all cases of a subject, so that the subject's samples are made
only once. A subject that ends or blocks its process costs few processes, and the other subjects continue.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

#: The scheduler samples a subject when it first ends or blocks its process. If an item of the sample
#: finishes, the subject is sampled again after this number of further losses.
_LOSSES_BEFORE_NEXT_SAMPLE = 5
#: The maximum number of workers that run an item. Another worker continues an item if its worker is lost or
#: waits.
_MOST_ATTEMPTS = 3
#: An item is short if it takes less than this part of the time limit.
_SHORT_PART = 0.1
#: A result that is lost at the time limit has run for at least this part of the limit.
_CERTAIN_PART = 0.9
#: Number of items in the sample of a subject, each of a different property.
_SAMPLED_PROPERTIES = 2


@dataclasses.dataclass
class _WorkerItems:
    """The items of a worker."""

    #: The items sent to the worker. It runs the first item once it has a second item or is shutting down.
    sent: collections.deque[int] = dataclasses.field(default_factory=collections.deque)
    #: The items of the worker's group that are not sent yet.
    rest: collections.deque[int] = dataclasses.field(default_factory=collections.deque)
    #: Whether the running item waits for something and uses no processor.
    waiting: bool = False
    #: When the running item began, and whether another worker ran an item at the same time.
    began: float = 0.0
    overlapped: bool = False
    #: Whether another worker continues the running item.
    continued: bool = False


@dataclasses.dataclass
class _GroupSample:
    """A sample of a group: items of other properties that show whether the whole group ends or blocks its
    process.
    """

    #: The item that was lost or waits, so that its group is sampled; and whether it was lost.
    suspect: int
    suspect_was_lost: bool
    #: The sampled items that have neither finished nor been lost.
    unfinished: set[int]
    #: The other items of the group. They are assigned if the suspect or a sampled item finishes.
    withheld: list[int]


class SubjectScheduling:
    """Assigns groups of items to workers; implements xdist's ``Scheduling`` protocol.

    A pytest-xdist worker starts an item only when it knows the next item. The scheduler therefore
    sends at most two items to each worker in advance. It can still assign all further items to other workers.

    At most ``workers`` workers run items at a time. Workers whose item only waits are not counted, so that
    other workers continue while a blocked item waits for its time limit. ``start_worker`` starts an
    additional worker, and at most ``most_additional`` additional workers exist.

    ``report_independent`` is called for a lost worker if no other item can have blocked the device for the
    lost item. This is so if no other worker ran an item at the same time, or if another worker began and
    finished a short item while the lost item hung for ``time_limit`` seconds.

    An item has several dtypes, which run one after the other. If the worker of an item is lost or waits,
    another worker continues the item: ``continue_item`` is called, and the item is assigned again.

    If ``is_isolated`` returns True for the item, the item is not continued. The scheduler then samples the
    rest of its group (:class:`_GroupSample`): items of different properties, and of different variants if
    possible, run in other workers. If all sampled items are lost, the rest of the group is not assigned.

    If a property ended the worker in ``property_losses`` groups, and no item of the property finished in
    between, its remaining items are not assigned. The next round of the run contains all items that were not
    assigned. A property that ends its process in only one dtype stays assigned if groups without this dtype
    finish in between.
    """

    def __init__(
        self,
        workers: int,
        group_of: Callable[[str], str],
        log: Callable[..., None],
        *,
        is_isolated: Callable[[str], bool] = lambda item: True,
        property_of: Callable[[str], str] = lambda item: item,
        property_losses: int = 5,
        variant_of: Callable[[str], str] = lambda item: "",
        continue_item: Callable[[str], None] = lambda item: None,
        report_independent: Callable[[Any], None] = lambda node: None,
        start_worker: Callable[[], None] = lambda: None,
        most_additional: int = 0,
        time_limit: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = workers
        self._group_of = group_of
        self._property_of = property_of
        self._property_losses = property_losses
        #: By property: the groups in which it ended the worker since an item of the property last finished.
        self._lost_groups: dict[str, set[str]] = collections.defaultdict(set)
        self._is_isolated = is_isolated
        self._variant_of = variant_of
        self._continue_item = continue_item
        self._report_independent = report_independent
        self._time_limit = time_limit
        self._clock = clock
        #: The worker, the start and the end of each short item that finished within the last ``time_limit``
        #: seconds.
        self._short_items: collections.deque[tuple[Any, float, float]] = collections.deque()
        self._start_worker = start_worker
        self._most_additional = most_additional
        self._log = log
        self._collection: list[str] | None = None
        self._ready: dict[Any, list[str] | None] = {}
        self._workers: dict[Any, _WorkerItems] = {}
        #: Number of workers that start now, or that pytest-xdist will start, and that have not been added
        #: yet.
        self._starting = workers
        self._groups: collections.deque[list[int]] = collections.deque()
        self._samples: dict[str, _GroupSample] = {}
        #: Number of times that each item was continued.
        self._continuations: dict[int, int] = collections.Counter()
        #: Losses of each sampled group since its last sample.
        self._losses: dict[str, int] = {}

    @property
    def nodes(self) -> list[Any]:
        """The workers that have been added and not removed."""
        return list(self._ready)

    @property
    def collection_is_completed(self) -> bool:
        """True once every expected worker has collected its items."""
        return self._collection is not None or (
            len(self._ready) >= self._limit and all(ids is not None for ids in self._ready.values())
        )

    @property
    def tests_finished(self) -> bool:
        """True once every group is assigned, no sample is unfinished, and each worker has at most one item
        left.
        """
        if self._collection is None or self._groups or self._has_unfinished_samples():
            return False
        return all(
            # Idle workers stay until the last item has finished: one continues it if its worker is lost.
            len(worker.sent) < (1 if self._most_additional else 2) and not worker.rest
            for worker in self._workers.values()
        )

    @property
    def has_pending(self) -> bool:
        """True while any item is not finished."""
        return bool(
            self._groups
            or self._has_unfinished_samples()
            or any(worker.sent or worker.rest for worker in self._workers.values())
        )

    def add_node(self, node: Any) -> None:
        """Add a worker that has not collected its items yet."""
        self._ready[node] = None
        self._starting = max(0, self._starting - 1)

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """Record the items that a worker has collected."""
        self._ready[node] = list(collection)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Record that a worker finished an item, and assign more items."""
        worker = self._workers[node]
        worker.sent.remove(item_index)
        self._record_short_item(node, worker)
        self._begin_next_item(worker)
        if self._collection is not None:
            item = self._collection[item_index]
            self._lost_groups.pop(self._property_of(item), None)
            sample = self._samples.get(self._group_of(item))
            if sample is not None and (item_index == sample.suspect or item_index in sample.unfinished):
                self._release_withheld_group(self._group_of(item))
        self._assign_items(first=node)

    def mark_test_pending(self, item: str) -> None:
        """Raise NotImplementedError, because the runner retries lost cases in its next round."""
        raise NotImplementedError(
            "this scheduler does not rerun an item; the next round of the runner retries lost cases"
        )

    def remove_pending_tests_from_node(self, node: Any, indices: Sequence[int]) -> None:
        """Raise NotImplementedError, because items are never taken from a live worker."""
        raise NotImplementedError("this scheduler never takes items from a live worker")

    def remove_node(self, node: Any) -> str | None:
        """Remove a worker and return the item that it was running. Its other items go to the next free
        workers, except for items of a group that is sampled or lost.
        """
        del self._ready[node]
        worker = self._workers.pop(node, None)
        if worker is None or not worker.sent or self._collection is None:
            return None
        running = worker.sent.popleft()
        lost = self._collection[running]
        self._starting += 1  # pytest-xdist starts a new worker for the lost one.
        if not worker.overlapped or self._device_ran_other_items(node):
            self._report_independent(node)
        remaining = [*worker.sent, *worker.rest]
        if self._is_isolated(lost):
            self._sample_group_of_suspect(running, remaining, lost=True)
        else:
            self._put_items_first(remaining)
            self._hand_over_running_item(worker, running)
        self._withhold_lost_properties()
        if not self._idle_workers():
            self._start_additional()
        self._assign_items()
        return lost

    def schedule(self) -> None:
        """Assign items when all workers have collected their items. xdist calls this again for each
        additional worker.
        """
        if self._collection is None:
            self._collection = next(ids for ids in self._ready.values() if ids is not None)
            groups: dict[str, list[int]] = {}
            for index, nodeid in enumerate(self._collection):
                groups.setdefault(self._group_of(nodeid), []).append(index)
            self._groups.extend(groups.values())
        for node, ids in self._ready.items():
            if ids is None or node in self._workers:
                continue
            if ids != self._collection:
                self._log(f"worker {node.gateway.id} gets no case: its cases differ from the first worker's")
                continue
            self._workers[node] = _WorkerItems()
        self._assign_items()

    def running_items(self) -> dict[Any, int]:
        """Return the index of the item that each worker runs."""
        return {
            node: worker.sent[0]
            for node, worker in self._workers.items()
            if len(worker.sent) > 1 or (worker.sent and node.shutting_down)
        }

    def set_waiting(self, nodes: Collection[Any]) -> None:
        """Record which workers only wait. Other workers then run the rest of the waiting workers' groups, and
        further groups.

        If a waiting item is isolated, a sample of the rest of its group runs first.
        """
        for node, worker in self._workers.items():
            if node in nodes and not worker.waiting and self._collection is not None:
                rest = list(worker.rest)
                worker.rest.clear()
                if self._is_isolated(self._collection[worker.sent[0]]):
                    self._sample_group_of_suspect(worker.sent[0], rest, lost=False)
                else:
                    self._put_items_first(rest)
                    self._hand_over_running_item(worker, worker.sent[0])
            worker.waiting = node in nodes
        self._assign_items()

    def _record_short_item(self, node: Any, worker: _WorkerItems) -> None:
        """Record the item that a worker finished now, if it took a small part of the time limit."""
        now = self._clock()
        if now - worker.began < _SHORT_PART * self._time_limit:
            self._short_items.append((node, worker.began, now))
        while self._short_items and self._short_items[0][2] < now - self._time_limit:
            self._short_items.popleft()

    def _device_ran_other_items(self, node: Any) -> bool:
        """Return whether another worker ran a short item in the first half of the time limit of a lost item.

        If so, no other item blocked the device for the lost item. A short item in the second half is no
        proof, because the item that blocked the device may have ended before it.
        """
        now = self._clock()
        earliest, latest = now - _CERTAIN_PART * self._time_limit, now - self._time_limit / 2
        return any(
            short_item_node is not node and began >= earliest and ended <= latest
            for short_item_node, began, ended in self._short_items
        )

    def _begin_next_item(self, worker: _WorkerItems) -> None:
        """Record that a worker begins its next item, if it has one."""
        worker.waiting = worker.continued = worker.overlapped = False
        worker.began = self._clock()
        running = [candidate for candidate in self._workers.values() if candidate.sent]
        if worker.sent and len(running) > 1:
            for running_worker in running:
                running_worker.overlapped = True

    def _sample_group_of_suspect(self, suspect: int, items: list[int], *, lost: bool) -> None:
        """Start a sample of the group of an item that waits or was lost, if a sample is due.

        ``items`` are the other items of the worker. Items of other groups are queued.
        """
        group = self._group_of_index(suspect)
        if lost:
            self._lost_groups[self._property_of_index(suspect)].add(group)
        rest = [index for index in items if self._group_of_index(index) == group]
        self._put_items_first(index for index in items if self._group_of_index(index) != group)
        if (sample := self._samples.get(group)) is not None:
            if lost:
                sample.suspect_was_lost |= suspect == sample.suspect
                sample.unfinished.discard(suspect)
            self._put_items_first(index for index in rest if index in sample.unfinished)
            sample.withheld += [index for index in rest if index not in sample.unfinished]
            return
        if group in self._losses:
            self._losses[group] += lost
        is_due = self._losses.get(group, _LOSSES_BEFORE_NEXT_SAMPLE) >= _LOSSES_BEFORE_NEXT_SAMPLE
        queued = [index for items in self._groups for index in items if self._group_of_index(index) == group]
        by_property = {
            self._property_of_index(index): index
            for index in reversed([*rest, *queued])
            if self._property_of_index(index) != self._property_of_index(suspect)
        }
        if not is_due or not by_property:
            self._put_items_first(rest)
            return
        sampled = self._most_diverse_items(suspect, list(by_property.values()))
        withheld = [index for index in (*rest, *queued) if index not in sampled]
        self._losses[group] = 0
        self._samples[group] = _GroupSample(suspect, lost, set(sampled), withheld)
        self._groups = collections.deque(
            items for items in self._groups if self._group_of_index(items[0]) != group
        )
        for index in sampled:
            self._put_items_first([index])

    def _hand_over_running_item(self, worker: _WorkerItems, running: int) -> None:
        """Let another worker continue the running item of a worker that was lost or waits."""
        if worker.continued or self._collection is None:
            return
        worker.continued = True
        self._continuations[running] += 1
        if self._continuations[running] < _MOST_ATTEMPTS:
            self._continue_item(self._collection[running])
            self._put_items_first([running])

    def _most_diverse_items(self, suspect: int, items: list[int]) -> list[int]:
        """Return the items for a sample: if possible, their variants differ from the suspect and from each
        other.
        """
        if self._collection is None:
            return []
        chosen: list[int] = []
        variants = {self._variant_of(self._collection[suspect])}
        for _ in range(min(_SAMPLED_PROPERTIES, len(items))):
            left = [item for item in items if item not in chosen]
            new = [item for item in left if self._variant_of(self._collection[item]) not in variants]
            chosen.append((new or left)[0])
            variants.add(self._variant_of(self._collection[chosen[-1]]))
        return chosen

    def _put_items_first(self, items: Iterable[int]) -> None:
        """Put items at the front of the queue, for the next free workers. An entry has items of one group."""
        by_group: dict[str, list[int]] = {}
        for index in items:
            by_group.setdefault(self._group_of_index(index), []).append(index)
        self._groups.extendleft(by_group.values())

    def _release_withheld_group(self, group: str) -> None:
        """Assign the withheld items of a group, because it does not always end or block its process."""
        self._put_items_first(self._samples.pop(group).withheld)

    def _has_unfinished_samples(self) -> bool:
        return any(sample.unfinished or not sample.suspect_was_lost for sample in self._samples.values())

    def _group_of_index(self, index: int) -> str:
        return "" if self._collection is None else self._group_of(self._collection[index])

    def _property_of_index(self, index: int) -> str:
        return "" if self._collection is None else self._property_of(self._collection[index])

    def _withhold_lost_properties(self) -> None:
        lost = {name for name, groups in self._lost_groups.items() if len(groups) >= self._property_losses}
        if not lost:
            return
        sampled = {index for sample in self._samples.values() for index in sample.unfinished}

        def is_assigned(index: int) -> bool:
            return index in sampled or self._property_of_index(index) not in lost

        groups = (list(filter(is_assigned, items)) for items in self._groups)
        self._groups = collections.deque(items for items in groups if items)
        for sample in self._samples.values():
            sample.withheld = list(filter(is_assigned, sample.withheld))
        for worker in self._workers.values():
            worker.rest = collections.deque(filter(is_assigned, worker.rest))

    def _idle_workers(self) -> list[Any]:
        return [
            node
            for node, worker in self._workers.items()
            if not worker.sent and not worker.rest and not node.shutting_down
        ]

    def _start_additional(self) -> None:
        """Start an additional worker, unless the maximum number of workers exists."""
        alive = sum(not node.shutting_down or bool(worker.sent) for node, worker in self._workers.items())
        if alive + self._starting < self._limit + self._most_additional:
            self._starting += 1
            self._start_worker()

    def _assign_items(self, first: Any = None) -> None:
        """Assign items to all workers that can accept items, beginning with ``first``. If items are left and
        too few workers are busy, start a worker. If no items are left, shut down idle workers.
        """
        if self._collection is None:
            return
        for node in sorted(self._workers, key=lambda node: node is not first):
            self._assign_to(node)
        if self._groups:
            if self._busy_worker_count() + self._starting < self._limit and not self._idle_workers():
                self._start_additional()
            return
        if not self._has_unfinished_samples():
            for node in self._idle_workers():
                node.shutdown()

    def _busy_worker_count(self) -> int:
        return sum(bool(worker.sent) and not worker.waiting for worker in self._workers.values())

    def _assign_to(self, node: Any) -> None:
        worker = self._workers[node]
        if node.shutting_down or worker.waiting:
            return
        while len(worker.sent) < 2:
            if not worker.rest:
                busy_others = self._busy_worker_count() - bool(worker.sent)
                if not self._groups or busy_others >= self._limit:
                    break
                worker.rest.extend(self._groups.popleft())
            index = worker.rest.popleft()
            worker.sent.append(index)
            if len(worker.sent) == 1:
                self._begin_next_item(worker)
            try:
                node.send_runtest_some([index])
            except OSError:
                return  # The worker has just ended. remove_node assigns its items again.
        if len(worker.sent) == 1:
            # The worker runs its only item when it shuts down.
            node.shutdown()
