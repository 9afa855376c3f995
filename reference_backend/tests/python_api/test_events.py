"""Test the event dispatcher: subscriptions, and the events that the device publishes."""

from __future__ import annotations

import logging
import time

import pytest
from habana_frameworks.torch.utils.event_dispatcher import EventDispatcher, EventId

DISPATCHER = EventDispatcher.instance()


def test_dispatcher_is_a_singleton():
    assert EventDispatcher.instance() is DISPATCHER
    assert {event.name for event in EventId} == {
        "GRAPH_COMPILATION",
        "CPU_FALLBACK",
        "CACHE_HIT",
        "CACHE_MISS",
        "MEMORY_DEFRAGMENTATION",
        "MARK_STEP",
        "PROCESS_EXIT",
        "DEVICE_ACQUIRED",
        "CUSTOM_EVENT",
    }


def test_listeners_get_events_until_they_unsubscribe():
    events = []
    first = DISPATCHER.subscribe(EventId.CUSTOM_EVENT, lambda timestamp, params: events.append(("a", params)))
    second = DISPATCHER.subscribe(
        EventId.CUSTOM_EVENT, lambda timestamp, params: events.append(("b", params))
    )
    DISPATCHER.publish(EventId.CUSTOM_EVENT, [("key", 1)])
    DISPATCHER.publish(EventId.MARK_STEP)
    DISPATCHER.unsubscribe(first)
    DISPATCHER.publish(EventId.CUSTOM_EVENT)
    DISPATCHER.unsubscribe(second)
    DISPATCHER.publish(EventId.CUSTOM_EVENT)
    assert events == [("a", [("key", "1")]), ("b", [("key", "1")]), ("b", [])]
    with pytest.raises(KeyError):
        DISPATCHER.unsubscribe(first)


def test_timestamps_are_microseconds_of_the_day():
    timestamps = []
    handle = DISPATCHER.subscribe(
        EventId.CUSTOM_EVENT, lambda timestamp, params: timestamps.append(timestamp)
    )
    before = time.time() * 1e6
    DISPATCHER.publish(EventId.CUSTOM_EVENT)
    DISPATCHER.unsubscribe(handle)
    assert before - 1 <= timestamps[0] <= time.time() * 1e6 + 1


def test_a_failing_listener_is_logged_and_the_others_run(caplog):
    calls = []
    handles = [
        DISPATCHER.subscribe(EventId.CUSTOM_EVENT, lambda timestamp, params: 1 / 0),
        DISPATCHER.subscribe(EventId.CUSTOM_EVENT, lambda timestamp, params: calls.append(1)),
    ]
    with caplog.at_level(logging.ERROR):
        DISPATCHER.publish(EventId.CUSTOM_EVENT)
    for handle in handles:
        DISPATCHER.unsubscribe(handle)
    assert calls == [1]
    assert "a listener of CUSTOM_EVENT failed" in caplog.text


def test_subscribe_accepts_only_event_ids():
    with pytest.raises(TypeError, match="Use a member of EventId"):
        DISPATCHER.subscribe("MARK_STEP", print)


LISTEN = """
import torch, habana_frameworks.torch
from habana_frameworks.torch.utils.event_dispatcher import EventDispatcher, EventId
def listen(event):
    EventDispatcher.instance().subscribe(
        EventId[event], lambda timestamp, params: print(event, timestamp > 1.6e15, dict(params)))
"""


def test_events_of_the_device(output_of):
    code = LISTEN + (
        "for event in ('DEVICE_ACQUIRED', 'CPU_FALLBACK', 'PROCESS_EXIT'): listen(event)\n"
        "x = torch.ones(2, 2, device='hpu')\n"
        "x.tril()\n"
        "y = torch.ones(2, 2, device='hpu')\n"
        "print('end')"
    )
    lines = output_of(code, HPU_REFERENCE_FALLBACK_OPS="tril").splitlines()
    assert [line.split()[0] for line in lines] == ["DEVICE_ACQUIRED", "CPU_FALLBACK", "end", "PROCESS_EXIT"]
    assert all(line.split()[1] == "True" for line in lines if line != "end")
    assert "'op_name': 'aten::tril" in lines[1]


def test_import_of_the_package_stays_lean(output_of):
    code = (
        "import torch, sys; before = set(sys.modules)\n"
        "import habana_frameworks.torch\n"
        "new = set(sys.modules) - before\n"
        "print(sorted(n for n in new if n.startswith(('torch._dynamo', 'torch._inductor', 'torch.fx'))))\n"
        "print('habana_frameworks.torch.hpu.metric_files' in new)"
    )
    assert output_of(code).splitlines() == ["[]", "False"]
