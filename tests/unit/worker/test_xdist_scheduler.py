"""``worker.xdist_scheduler`` assigns all cases of a subject to one worker, continues while workers wait, and
samples a subject that ends or blocks its process.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.support.simulated_xdist import SimulatedSession, SimulatedWorker


def session_of(subjects: int, workers: int, *, properties: str = "abc", **options: Any) -> SimulatedSession:
    """Return a session with one item for each pair of subject and property."""
    items = [f"{name}/op{index}" for index in range(subjects) for name in properties]
    return SimulatedSession(items, workers, **options)


def test_a_worker_gets_whole_subjects() -> None:
    session = session_of(3, 2)
    first, second = session.nodes
    for _ in range(2):
        session.finish_item(first)
    session.finish_item(second)
    assert (first.sent, second.sent) == ([0, 1, 2, 6], [3, 4, 5])
    session.run()
    assert sorted(session.finished) == sorted(session.items)


def test_only_two_items_are_sent_to_a_worker() -> None:
    session = session_of(1, 1)
    assert session.nodes[0].sent == [0, 1] and not session.nodes[0].shutting_down
    session.finish_item(session.nodes[0])
    session.finish_item(session.nodes[0])
    assert session.nodes[0].sent == [0, 1, 2] and session.nodes[0].shutting_down


def test_unstarted_items_of_a_dead_worker_go_to_another() -> None:
    session = session_of(2, 2)
    first = session.nodes[0]
    session.finish_item(first)
    session.finish_item(first)
    assert session.lose_worker(first) == session.items[2]
    session.run()
    assert sorted(session.finished) == sorted(set(session.items) - {session.items[2]})


def test_another_worker_continues_an_item_that_is_not_isolated() -> None:
    session = session_of(2, 2, isolated=False)
    assert session.lose_worker(session.nodes[0]) == session.items[0]
    assert session.continued == [session.items[0]] and session.scheduler._samples == {}
    session.run()
    assert sorted(session.finished) == sorted(session.items)


def test_an_item_is_continued_while_its_worker_waits_but_not_forever() -> None:
    session = session_of(1, 1, properties="a", isolated=False, most_additional=8)
    for _ in range(6):
        session.scheduler.set_waiting(set(session.items_by_worker()))
        session.let_workers_start()
    assert session.continued == ["a/op0", "a/op0"] and len(session.items_by_worker()) == 3
    assert session.items_by_worker().keys() == {node for node in session.nodes if node.sent}
    while session.items_by_worker():
        session.lose_worker(next(iter(session.items_by_worker())))
        session.let_workers_start()
    assert len(session.continued) == 2 and session.scheduler.tests_finished


def test_a_subject_that_always_ends_its_process_costs_three_workers() -> None:
    session = session_of(4, 2)
    session.run(lambda item: item.endswith("op1"))
    assert sorted(session.finished) == sorted(item for item in session.items if not item.endswith("op1"))


def test_the_rest_of_a_subject_runs_if_a_sampled_item_finishes() -> None:
    session = session_of(4, 2)
    session.run(lambda item: item == "a/op1")
    assert sorted(session.finished) == sorted(set(session.items) - {"a/op1"})


def test_items_are_held_until_the_sample_is_finished() -> None:
    session = session_of(1, 1, properties="abcde", most_additional=2)
    session.lose_worker(session.nodes[0])
    session.let_workers_start()
    assert set(session.items_by_worker().values()) <= {"e/op0", "d/op0"}
    session.run(lambda item: item == "d/op0")
    assert sorted(session.finished) == ["b/op0", "c/op0", "e/op0"]


def test_other_subjects_run_while_a_worker_waits() -> None:
    session = session_of(3, 1, most_additional=2)
    blocked = session.nodes[0]
    session.scheduler.set_waiting({blocked})
    session.let_workers_start()
    assert len(session.nodes) == 2
    for _ in range(100):
        for node in [node for node in session.items_by_worker() if node is not blocked]:
            session.finish_item(node)
            session.scheduler.set_waiting({blocked})
            session.let_workers_start()
    # The sample finished, so the only items left are the waiting item and the next item of its worker.
    assert sorted(session.finished) == sorted(set(session.items) - {"a/op0", "b/op0"})
    assert not session.scheduler.tests_finished
    assert session.lose_worker(blocked) == "a/op0"
    session.run()
    assert sorted(session.finished) == sorted(set(session.items) - {"a/op0"})


def test_a_slow_item_that_finishes_counts_and_its_subject_goes_on() -> None:
    session = session_of(1, 1, properties="abcde", most_additional=2)
    slow = session.nodes[0]
    session.scheduler.set_waiting({slow})
    session.let_workers_start()
    while running := [node for node in session.items_by_worker() if node is not slow]:
        session.lose_worker(running[0])  # both sampled items are lost
        session.scheduler.set_waiting({slow})
        session.let_workers_start()
    assert not session.scheduler.tests_finished  # the slow item may still finish
    session.finish_item(slow)
    session.run()
    assert sorted(session.finished) == ["a/op0", "b/op0", "c/op0"]


@pytest.mark.parametrize(
    ("began", "ended", "independent"),
    [
        (20.0, 25.0, True),
        (5.0, 8.0, False),  # the item may have ended before the lost result began
        (20.0, 60.0, False),  # the item took long, so it may have been blocked, too
        (70.0, 75.0, False),  # an item that blocked the device may have ended before
    ],
)
def test_a_lost_item_is_independent_if_the_device_ran_a_short_item_of_another_worker_meanwhile(
    began: float, ended: float, independent: bool
) -> None:
    session = session_of(4, 2, most_additional=2)
    first, second = session.nodes
    session.now = began
    session.finish_item(second)
    session.now = ended
    session.finish_item(second)
    session.now = 100.0
    session.lose_worker(first)
    assert session.independent == [first] * independent


def test_a_lost_item_is_independent_if_it_ran_alone() -> None:
    session = session_of(2, 1)
    node = session.nodes[0]
    session.lose_worker(node)
    assert session.independent == [node]


def test_a_worker_that_ends_while_it_receives_an_item_loses_no_other_item() -> None:
    session = session_of(3, 2)
    node = session.nodes[0]

    def closed(indices: list[int]) -> None:
        raise OSError("cannot send (already closed?)")

    node.send_runtest_some = closed  # type: ignore[method-assign]
    session.finish_item(node)
    assert session.lose_worker(node) == session.items[1]
    session.run()
    assert sorted(session.finished) == sorted(set(session.items) - {session.items[1]})


def test_not_more_workers_than_allowed_run_or_wait() -> None:
    session = session_of(20, 2, most_additional=3)
    for _ in range(30):
        session.scheduler.set_waiting(set(session.items_by_worker()))
        session.let_workers_start()
    assert len(session.nodes) == 2 + 3
    busy = [node for node in session.nodes if not session.scheduler._workers[node].waiting]
    assert busy == []
    session.run()
    assert sorted(session.finished) == sorted(session.items)


def test_workers_that_no_longer_wait_do_not_stay_too_many() -> None:
    session = session_of(12, 2, most_additional=3)
    session.scheduler.set_waiting(set(session.nodes))
    session.let_workers_start()
    assert len(session.items_by_worker()) == 4
    session.scheduler.set_waiting(set())
    most = 0
    while session.items_by_worker():
        session.finish_item(next(iter(session.items_by_worker())))
        session.let_workers_start()
        if len(session.finished) > 20:
            most = max(most, len(session.items_by_worker()))
    assert most == 2 and sorted(session.finished) == sorted(session.items)


def test_a_spare_worker_is_kept_after_the_first_loss() -> None:
    session = session_of(6, 2, most_additional=2)
    session.lose_worker(session.nodes[0])
    session.let_workers_start()
    assert len(session.nodes) == 3 and len(session.items_by_worker()) == 2
    spare = next(node for node in session.nodes if node not in session.items_by_worker())
    session.lose_worker(next(iter(session.items_by_worker())))
    assert spare in session.items_by_worker()  # immediately, before the new worker has started
    session.run()
    assert len(session.finished) == len(session.items) - 2


def test_a_property_that_ends_workers_of_several_subjects_in_a_row_waits_for_the_next_round() -> None:
    session = session_of(9, 1, property_losses=3)
    session.run(lambda item: item.startswith("b"))
    assert [item for item in session.finished if item.startswith("b/")] == []
    expected = sorted(item for item in session.items if not item.startswith("b/"))
    assert sorted(session.finished) == expected


def test_a_property_that_finishes_in_between_is_assigned_to_the_end() -> None:
    session = session_of(9, 1, property_losses=3)
    session.run(lambda item: item.startswith("b") and int(item[-1]) % 3 != 2)
    done = [item for item in session.finished if item.startswith("b/")]
    assert done == [f"b/op{index}" for index in (2, 5, 8)]


@pytest.mark.parametrize("seed", range(40))
def test_each_item_runs_once_whatever_is_lost_or_waits(seed: int) -> None:
    """Each item runs at most once. Items that never run belong to a subject of which at least two items were
    lost.
    """
    chance = random.Random(seed)
    session = session_of(
        8, 2, properties="abcdef", most_additional=chance.choice([0, 4]), property_losses=1000
    )
    lost: list[str] = []
    always = {f"op{number}" for number in range(8) if chance.random() < 0.3}
    waiting: set[SimulatedWorker] = set()
    for _ in range(2000):
        if chance.random() < 0.5:
            session.let_workers_start()
        running = session.items_by_worker()
        if not running and not session.starting:
            break
        if running:
            node = chance.choice(list(running))
            if chance.random() < 0.2:
                waiting.add(node)
            elif running[node].partition("/")[2] in always or chance.random() < 0.1:
                lost.append(running[node])
                session.lose_worker(node)
            else:
                session.finish_item(node)
        waiting &= set(session.items_by_worker())
        if session.scheduler._most_additional:
            session.scheduler.set_waiting(waiting)
    assert session.scheduler.tests_finished
    ran = lost + session.finished
    assert len(ran) == len(set(ran))
    for group in {item.partition("/")[2] for item in set(session.items) - set(ran)}:
        assert len([item for item in lost if item.endswith(group)]) >= 2
