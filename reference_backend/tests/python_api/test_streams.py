"""Test `hpu.Stream`, `hpu.Event` and the stream context managers."""

from __future__ import annotations

import threading

import habana_frameworks.torch as ht
import pytest
import torch

hpu = ht.hpu


@pytest.fixture(autouse=True)
def _restore_default_stream():
    yield
    hpu.set_stream(hpu.default_stream())
    hpu.synchronize()


def test_streams_are_torch_streams():
    stream = hpu.Stream()
    assert isinstance(stream, torch.Stream)
    assert (stream.device, stream.device_index) == (torch.device("hpu:0"), 0)
    assert stream.stream_id == stream.id() == stream.hpu_stream != 0
    assert stream != hpu.Stream()
    assert len({stream, hpu.Stream(stream_id=stream.stream_id)}) == 1
    assert hpu.get_stream_info(stream) == (torch.device("hpu:0"), stream.stream_id)


def test_priorities():
    assert hpu.Stream.priority_range() == (0, -1)
    assert hpu.Stream(priority=-1).priority == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda stream: hpu.Stream(stream_id=stream.id(), device_index=0, device_type=stream.device_type),
        lambda stream: hpu.Stream(stream_ptr=stream.id()),
        lambda stream: hpu.Stream("hpu:0", stream_id=stream.id()),
    ],
)
def test_existing_streams_can_be_opened_by_id(make):
    stream = hpu.Stream()
    assert make(stream) == stream


def test_default_stream():
    assert hpu.default_stream().id() == 0
    assert hpu.default_stream("hpu:0") == hpu.current_stream() == hpu.Stream(is_default_stream=True)


def test_stream_of_another_device_type_raises():
    with pytest.raises(ValueError, match="Expected a hpu device"):
        hpu.Stream("cpu")


def test_context_nests_and_restores_after_an_exception():
    outer, inner = hpu.Stream(), hpu.Stream()
    with hpu.stream(outer):
        with hpu.StreamContext(inner):
            assert hpu.current_stream() == inner
        assert hpu.current_stream() == outer
        with pytest.raises(ZeroDivisionError), hpu.StreamContext(inner):
            hpu.current_stream().id() / 0
        assert hpu.current_stream() == outer == torch.accelerator.current_stream()
        assert isinstance(hpu.current_stream(), hpu.Stream)
    assert hpu.current_stream() == hpu.default_stream()


def test_none_keeps_the_current_stream():
    with hpu.stream(None):
        assert hpu.current_stream() == hpu.default_stream()
    hpu.set_stream(None)
    assert hpu.current_stream() == hpu.default_stream()


def test_current_stream_belongs_to_the_thread():
    hpu.set_stream(hpu.Stream())
    stream_ids = []
    thread = threading.Thread(target=lambda: stream_ids.append(hpu.current_stream().id()))
    thread.start()
    thread.join()
    assert stream_ids == [0]


def test_leaving_the_default_stream_waits_for_it(monkeypatch):
    waited = []
    monkeypatch.setattr(
        hpu.Stream,
        "wait_stream",
        lambda self, waited_stream: waited.append((self.id(), waited_stream.id())),
        raising=True,
    )
    first, second = hpu.Stream(), hpu.Stream()
    hpu.set_stream(first)
    hpu.set_stream(second)
    hpu.set_stream(hpu.default_stream())
    assert waited == [(first.id(), 0)]


def test_results_of_a_side_stream():
    stream = hpu.Stream()
    source = torch.arange(1000.0, device="hpu")
    with hpu.stream(stream):
        result = source * 2
        hpu.record_stream(source, stream)
    event = stream.record_event()
    assert isinstance(event, hpu.Event)
    hpu.current_stream().wait_event(event)
    hpu.current_stream().wait_stream(stream)
    stream.synchronize()
    assert stream.query()
    assert event.query()
    assert result.sum().item() == 999000


def test_record_event_returns_its_argument():
    event = hpu.Event()
    assert hpu.Stream().record_event(event) is event
    assert event.event_id


def test_unrecorded_event_is_complete():
    event = hpu.Event()
    assert isinstance(event, torch.Event)
    assert event.query()
    event.synchronize()
    event.wait(hpu.current_stream())


def test_elapsed_time():
    start, end = hpu.Event(enable_timing=True), hpu.Event(enable_timing=True)
    start.record()
    torch.ones(1000, device="hpu").sum().item()
    end.record()
    end.synchronize()
    assert 0 < start.elapsed_time(end) < 60_000
    assert end.elapsed_time(start) == -start.elapsed_time(end)
    generic = torch.Event("hpu", enable_timing=True)
    generic.record()
    generic.synchronize()
    assert start.elapsed_time(generic) > 0


@pytest.mark.parametrize("timed", [True, False])
def test_elapsed_time_needs_recorded_events(timed):
    recorded, unrecorded = hpu.Event(enable_timing=timed), hpu.Event(enable_timing=timed)
    recorded.record()
    for first, second in ((recorded, unrecorded), (unrecorded, recorded), (unrecorded, unrecorded)):
        with pytest.raises(
            RuntimeError, match=r"^Both events must be recorded before calculating elapsed time\.$"
        ):
            first.elapsed_time(second)


def test_elapsed_time_needs_timing():
    events = hpu.Event(), hpu.Event(enable_timing=True)
    for event in events:
        event.record()
        event.synchronize()
    with pytest.raises(ValueError, match="enable_timing=True"):
        events[0].elapsed_time(events[1])


def test_elapsed_time_needs_one_device():
    event = hpu.Event(enable_timing=True)
    event.record()
    with pytest.raises(RuntimeError, match="Use two events of one device"):
        event.elapsed_time(torch.Event("cpu", enable_timing=True))


def test_generic_streams_and_events():
    stream = torch.Stream("hpu")
    event = torch.Event("hpu")
    with hpu.stream(stream):
        assert hpu.current_stream() == stream
    event.record(stream)
    hpu.Stream().wait_event(event)
    stream.wait_event(hpu.Stream().record_event())
    stream.wait_stream(hpu.Stream())
    event.synchronize()
    assert event.query()
