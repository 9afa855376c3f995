"""``worker.xdist_scheduler`` assigns all cases of a subject to the same worker."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from conformance.worker.xdist_scheduler import SubjectScheduling


@dataclasses.dataclass(eq=False)
class Node:
    """A fake worker of pytest-xdist that records the tests that it receives."""

    sent: list[int] = dataclasses.field(default_factory=list)
    shutting_down: bool = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduler_and_workers(
    subjects: int, workers: int, *, isolates: bool = False
) -> tuple[SubjectScheduling, list[Node], list[str]]:
    ids = [f"m::{name}/op{index}" for index in range(subjects) for name in "abc"]
    scheduler = SubjectScheduling(
        workers, lambda nodeid: nodeid.partition("/")[2], lambda *ignored: None, lambda item: isolates
    )
    nodes = [Node() for _ in range(workers)]
    for node in nodes:
        scheduler.add_node(node)
    assert not scheduler.collection_is_completed
    for node in nodes:
        scheduler.add_node_collection(node, ids)
    assert scheduler.collection_is_completed
    scheduler.schedule()
    return scheduler, nodes, ids


def test_a_worker_gets_whole_subjects() -> None:
    scheduler, (first, second), _ = scheduler_and_workers(4, 2)
    assert (first.sent, second.sent) == ([0, 1, 2], [3, 4, 5])
    for index in (0, 1):
        scheduler.mark_test_complete(first, index)
    assert first.sent == [0, 1, 2, 6, 7, 8]
    assert not scheduler.tests_finished


def test_unstarted_tests_of_a_dead_worker_go_to_another() -> None:
    scheduler, (first, second), ids = scheduler_and_workers(2, 2)
    scheduler.mark_test_complete(first, 0)
    assert scheduler.remove_node(first) == ids[1]
    assert not scheduler.tests_finished
    new_node = Node()
    scheduler.add_node(new_node)
    scheduler.add_node_collection(new_node, ids)
    scheduler.schedule()
    assert new_node.sent + second.sent[3:] == [2]
    for node, indices in ((second, (3, 4, 5)), (new_node, (2,))):
        for index in indices:
            if index in scheduler._pending.get(node, ()):
                scheduler.mark_test_complete(node, index)
    assert scheduler.tests_finished


def test_the_rest_of_an_isolated_group_waits_for_the_next_round() -> None:
    scheduler, (first, second), ids = scheduler_and_workers(3, 2, isolates=True)
    group = scheduler._group_of(ids[0])
    assert scheduler.remove_node(first) == ids[0]
    new_node = Node()
    scheduler.add_node(new_node)
    scheduler.add_node_collection(new_node, ids)
    scheduler.schedule()
    assigned = [ids[index] for index in new_node.sent + second.sent]
    assert assigned and all(scheduler._group_of(item) != group for item in assigned)


def test_a_property_that_ends_workers_of_several_groups_in_a_row_waits_for_the_next_round() -> None:
    scheduler, nodes, ids = scheduler_and_workers(9, 1, isolates=True)
    scheduler._property_of, scheduler._property_losses = lambda item: item.partition("/")[0], 3
    done = lose_property(scheduler, nodes[0], ids, "m::b", lose=lambda item: True)
    assert [item for item in done if item.startswith("m::b/")] == []
    assert [item for item in done if item.startswith("m::a/")] == [f"m::a/op{index}" for index in range(9)]
    assert [item for item in done if item.startswith("m::c/")] == [f"m::c/op{index}" for index in range(3, 9)]


def test_a_property_that_finishes_in_between_is_assigned_to_the_end() -> None:
    scheduler, nodes, ids = scheduler_and_workers(9, 1, isolates=True)
    scheduler._property_of, scheduler._property_losses = lambda item: item.partition("/")[0], 3
    done = lose_property(scheduler, nodes[0], ids, "m::b", lose=lambda item: int(item[-1]) % 3 != 2)
    assert [item for item in done if item.startswith("m::b/")] == [f"m::b/op{index}" for index in (2, 5, 8)]


def lose_property(
    scheduler: SubjectScheduling, node: Node, ids: list[str], name: str, lose: Callable[[str], bool]
) -> list[str]:
    """Finish all items in the order of their assignment, but lose the worker at each item of a property for
    which ``lose`` is true. Return the finished items.
    """
    done: list[str] = []
    while scheduler._pending.get(node):
        item = ids[scheduler._pending[node][0]]
        if not item.startswith(name) or not lose(item):
            scheduler.mark_test_complete(node, scheduler._pending[node][0])
            done.append(item)
            continue
        assert scheduler.remove_node(node) == item
        node = Node()
        scheduler.add_node(node)
        scheduler.add_node_collection(node, ids)
        scheduler.schedule()
    return done
