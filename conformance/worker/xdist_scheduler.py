"""The pytest-xdist scheduler: one worker gets all cases of a subject, so that the subject's samples are made
only once.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any


class SubjectScheduling:
    """Assigns groups of items to workers; implements xdist's ``Scheduling`` protocol.

    A pytest-xdist worker starts an item only when it knows the next item, so every worker has at least two
    pending items. An item whose worker crashed is not assigned again. If ``is_isolated`` returns True for the
    item, neither is the rest of its group: an operator that ends its process would otherwise end one process
    after another. The same holds for a property: if it ended the worker for ``property_losses`` groups, and
    no item of the property finished in between, none of its items is assigned any more. The next round of the
    run contains these items. An item has several dtypes: a property that ends its process in one dtype only,
    with groups without this dtype in between, is assigned to the end.
    """

    def __init__(
        self,
        workers: int,
        group_of: Callable[[str], str],
        log: Callable[..., None],
        is_isolated: Callable[[str], bool] = lambda item: True,
        property_of: Callable[[str], str] = lambda item: item,
        property_losses: int = 5,
    ) -> None:
        self._workers = workers
        self._group_of = group_of
        self._property_of = property_of
        self._property_losses = property_losses
        #: The groups for which a property ended the worker since one of its items last finished.
        self._lost_groups: dict[str, set[str]] = collections.defaultdict(set)
        self._is_isolated = is_isolated
        self._log = log
        self._collection: list[str] | None = None
        self._ready: dict[Any, list[str] | None] = {}
        self._pending: dict[Any, collections.deque[int]] = {}
        self._groups: collections.deque[list[int]] = collections.deque()

    @property
    def nodes(self) -> list[Any]:
        """The workers that have been added and not removed."""
        return list(self._ready)

    @property
    def collection_is_completed(self) -> bool:
        """True once every expected worker has collected its items."""
        return self._collection is not None or (
            len(self._ready) >= self._workers and all(ids is not None for ids in self._ready.values())
        )

    @property
    def tests_finished(self) -> bool:
        """True once every group is assigned and each worker has at most one item left."""
        if self._collection is None or self._groups:
            return False
        return all(len(pending) < 2 for pending in self._pending.values())

    @property
    def has_pending(self) -> bool:
        """True while any item is not finished."""
        return bool(self._groups) or any(self._pending.values())

    def add_node(self, node: Any) -> None:
        """Add a worker that has not collected its items yet."""
        self._ready[node] = None

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """Record the items that a worker has collected."""
        self._ready[node] = list(collection)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Record that a worker finished an item, and assign more items to it."""
        self._pending[node].remove(item_index)
        if self._collection is not None:
            self._lost_groups.pop(self._property_of(self._collection[item_index]), None)
        self._assign_groups(node)

    def mark_test_pending(self, item: str) -> None:
        """Raise NotImplementedError, because the runner retries lost cases in its next round."""
        raise NotImplementedError(
            "this scheduler does not rerun an item; the next round of the runner retries lost cases"
        )

    def remove_pending_tests_from_node(self, node: Any, indices: Sequence[int]) -> None:
        """Raise NotImplementedError, because items are never taken from a live worker."""
        raise NotImplementedError("this scheduler never takes items from a live worker")

    def remove_node(self, node: Any) -> str | None:
        """Remove a worker and return the item that it was running. Its other items, without those of an
        isolated group, are assigned first to the next free worker.
        """
        del self._ready[node]
        pending = self._pending.pop(node, None)
        if not pending or self._collection is None:
            return None
        running = pending.popleft()
        lost = self._collection[running]
        if self._is_isolated(lost):
            group = self._group_of(lost)
            pending = collections.deque(
                index for index in pending if self._group_of(self._collection[index]) != group
            )
            self._lost_groups[self._property_of(lost)].add(group)
        if pending:
            self._groups.appendleft(list(pending))
        self._withhold_lost_properties()
        for remaining in self._pending:
            self._assign_groups(remaining)
        return self._collection[running]

    def schedule(self) -> None:
        """Assign items when all workers have collected their items. xdist calls this again for a replacement
        worker.
        """
        if self._collection is None:
            self._collection = next(ids for ids in self._ready.values() if ids is not None)
            groups: dict[str, list[int]] = {}
            for index, nodeid in enumerate(self._collection):
                groups.setdefault(self._group_of(nodeid), []).append(index)
            self._groups.extend(groups.values())
        for node, ids in self._ready.items():
            if ids is None or node in self._pending:
                continue
            if ids != self._collection:
                self._log(f"worker {node.gateway.id} gets no case: its cases differ from the first worker's")
                continue
            self._pending[node] = collections.deque()
            self._assign_groups(node)

    def _withhold_lost_properties(self) -> None:
        lost = {name for name, groups in self._lost_groups.items() if len(groups) >= self._property_losses}
        if not lost or self._collection is None:
            return
        properties = [self._property_of(nodeid) for nodeid in self._collection]
        remaining_groups = (
            [index for index in group if properties[index] not in lost] for group in self._groups
        )
        self._groups = collections.deque(group for group in remaining_groups if group)

    def _assign_groups(self, node: Any) -> None:
        pending = self._pending[node]
        while len(pending) < 2 and self._groups and not node.shutting_down:
            group = self._groups.popleft()
            pending.extend(group)
            node.send_runtest_some(group)
        if not self._groups and not node.shutting_down and len(pending) < 2:
            node.shutdown()
