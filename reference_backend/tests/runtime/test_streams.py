"""Test streams and events: the order of work, and which stream may reuse freed memory."""

from __future__ import annotations

import threading
import time

import habana_frameworks.torch as ht
import pytest
import torch

C, hpu = ht._C, ht.hpu
SIZE = 5000


def _close_gate_on(stream, enqueue_gate):
    with hpu.stream(stream):
        return enqueue_gate()


@pytest.fixture
def tensor_of_ones(cache_output_metadata):
    """Return a tensor. The engine has cached the output metadata of the operators of these tests."""
    tensor = torch.ones(SIZE, device="hpu")
    second_tensor = torch.ones(SIZE, device="hpu")
    cache_output_metadata(
        lambda: (
            tensor + 1,
            tensor * 2,
            second_tensor.mul_(3),
            second_tensor.add_(1),
            second_tensor.copy_(tensor),
            second_tensor.zero_(),
        )
    )
    cache_output_metadata(
        lambda: (tensor.fill_(1), tensor.mul_(second_tensor), tensor.fill_(1), second_tensor.add_(tensor))
    )
    return tensor


def test_launches_return_while_the_stream_is_blocked(tensor_of_ones, enqueue_gate):
    stream = hpu.Stream()
    before = C.engine_counters()
    closed_gate = _close_gate_on(stream, enqueue_gate)
    with hpu.stream(stream):
        results = [tensor_of_ones * 2 + 1 for _ in range(50)]
        event = stream.record_event()
    assert not event.query()
    assert not stream.query()
    assert C.engine_counters()["pending"] == 102
    assert C.engine_counters()["learned"] == before["learned"]
    closed_gate.open()
    stream.synchronize()
    assert event.query() and stream.query()
    assert all(result.eq(3).all() for result in results)


def test_order_within_a_stream(tensor_of_ones, enqueue_gate):
    stream = hpu.Stream()
    value = torch.zeros(SIZE, device="hpu")
    closed_gate = _close_gate_on(stream, enqueue_gate)
    with hpu.stream(stream):
        for _ in range(10):
            value.add_(1)
            value.mul_(3)
    closed_gate.open()
    stream.synchronize()
    expected = 0
    for _ in range(10):
        expected = (expected + 1) * 3
    assert value.eq(expected).all()


@pytest.mark.parametrize("wait", ["event", "stream", "event.wait"])
def test_waiting_for_another_stream(tensor_of_ones, enqueue_gate, wait):
    first, second = hpu.Stream(), hpu.Stream()
    value = torch.ones(SIZE, device="hpu")
    closed_gate = _close_gate_on(first, enqueue_gate)
    with hpu.stream(first):
        value.mul_(3)
        event = first.record_event()
    if wait == "stream":
        second.wait_stream(first)
    elif wait == "event":
        second.wait_event(event)
    else:
        event.wait(second)
    with hpu.stream(second):
        value.add_(1)
        result = value * 2
        done = second.record_event()
    assert not done.query()
    closed_gate.open()
    done.synchronize()
    assert result.eq(8).all()


def test_streams_do_not_wait_for_each_other(tensor_of_ones, enqueue_gate):
    first, second = hpu.Stream(), hpu.Stream()
    closed_gate = _close_gate_on(first, enqueue_gate)
    with hpu.stream(first):
        independent = tensor_of_ones + 1
    with hpu.stream(second):
        done = second.record_event()
        assert (tensor_of_ones * 2).eq(2).all()
        second.synchronize()
    assert done.query() and second.query() and not first.query()
    closed_gate.open()
    first.synchronize()
    assert independent.eq(2).all()


def test_a_chain_over_all_queues(tensor_of_ones, enqueue_gate):
    streams = [hpu.Stream() for _ in range(32)]
    value = torch.zeros(SIZE, device="hpu")
    closed_gate = _close_gate_on(streams[0], enqueue_gate)
    for before, stream in zip([None, *streams], streams, strict=False):
        if before is not None:
            stream.wait_stream(before)
        with hpu.stream(stream):
            value.add_(1)
            value.add_(1)
    assert not streams[-1].query()
    closed_gate.open()
    streams[-1].synchronize()
    assert value.eq(64).all()


def test_wait_applies_to_the_latest_recording_before_it(tensor_of_ones, enqueue_gate):
    first, second = hpu.Stream(), hpu.Stream()
    event = hpu.Event()
    first_gate = _close_gate_on(first, enqueue_gate)
    event.record(first)
    second.wait_event(event)
    with hpu.stream(second):
        result = tensor_of_ones + 1
    two = _close_gate_on(first, enqueue_gate)
    event.record(first)
    first_gate.open()
    second.synchronize()  # would hang if `second` waited for the second recording of the event
    assert result.eq(2).all()
    assert not event.query()
    two.open()
    event.synchronize()
    assert event.query()


def test_recording_again_on_another_stream_does_not_release_waiters(tensor_of_ones, enqueue_gate):
    first, second, third = hpu.Stream(), hpu.Stream(), hpu.Stream()
    event = hpu.Event()
    closed_gate = _close_gate_on(first, enqueue_gate)
    event.record(first)
    second.wait_event(event)
    done = second.record_event()
    event.record(third)  # the third stream is idle
    assert event.query()
    for _ in range(50000):  # long enough for `second` to finish if it did not wait
        assert not done.query()
    closed_gate.open()
    done.synchronize()
    assert done.query()


def test_recording_again_on_a_slow_stream(enqueue_gate):
    first, second = hpu.Stream(), hpu.Stream()
    event = hpu.Event()
    event.record(first)
    assert event.query()
    closed_gate = _close_gate_on(second, enqueue_gate)
    event.record(second)
    assert not event.query()
    closed_gate.open()
    event.synchronize()
    assert event.query()


def test_unrecorded_events_do_not_block(tensor_of_ones):
    event = hpu.Event()
    stream = hpu.Stream()
    stream.wait_event(event)
    assert event.query() and stream.query()
    event.synchronize()


def test_elapsed_time(enqueue_gate):
    stream = hpu.Stream()
    start, end = hpu.Event(enable_timing=True), hpu.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match="recorded"):
        start.elapsed_time(end)
    start.record(stream)
    closed_gate = _close_gate_on(stream, enqueue_gate)
    began = time.perf_counter()
    end.record(stream)
    with pytest.raises(RuntimeError, match="completed"):
        start.elapsed_time(end)
    passed = time.perf_counter() - began
    closed_gate.open()
    end.synchronize()
    assert start.elapsed_time(end) >= passed * 1000
    assert end.elapsed_time(start) == -start.elapsed_time(end)


def test_an_event_polled_while_the_host_helps(cache_output_metadata, enqueue_gate):
    """A waiting host runs some of the queued work. The other work must run without a waiting host."""
    value = torch.rand(300, 300, device="hpu")
    cache_output_metadata(lambda: value @ value)
    stream = hpu.Stream()
    for _ in range(30):
        closed_gate = _close_gate_on(stream, enqueue_gate)
        with hpu.stream(stream):
            first = (value @ value, stream.record_event())[1]
            last = (value @ value, stream.record_event())[1]
        closed_gate.open()
        first.synchronize()
        deadline = time.monotonic() + 20
        while not last.query():
            assert time.monotonic() < deadline, C.engine_counters()


def test_a_waiting_host_runs_queued_work(tensor_of_ones, enqueue_gate):
    stream = hpu.Stream()
    before = C.engine_counters()["taken_over"]
    for _ in range(500):
        with hpu.stream(stream):
            closed_gate = enqueue_gate()
            result = tensor_of_ones + 1
            closed_gate.open()
            stream.synchronize()
        if C.engine_counters()["taken_over"] > before:
            break
    assert C.engine_counters()["taken_over"] > before
    assert result.eq(2).all()


def test_many_streams(tensor_of_ones, enqueue_gate):
    streams = [hpu.Stream() for _ in range(80)]
    assert len({stream.id() for stream in streams}) == 80
    values = [torch.zeros(SIZE, device="hpu") for _ in streams]
    gates = [_close_gate_on(stream, enqueue_gate) for stream in streams]
    for stream, value in zip(streams, values, strict=True):
        with hpu.stream(stream):
            value.add_(1)
            value.mul_(3)
    for closed_gate in reversed(gates):
        closed_gate.open()
    for stream in streams:
        stream.synchronize()
    hpu.synchronize()
    assert all(value.eq(3).all() for value in values)
    assert C.engine_counters()["workers"] <= 34  # one worker thread per queue, and one for computations


WORKERS = """
import os, torch, habana_frameworks.torch as ht
C, hpu = ht._C, ht.hpu
def threads():
    return len(os.listdir('/proc/self/task')) - at_first, C.engine_counters()['workers']
x = torch.ones(100, device='hpu')
at_first = len(os.listdir('/proc/self/task'))
made = [threads()]
streams = [hpu.Stream() for _ in range(40)]
for stream in streams:
    with hpu.stream(stream):
        (x + 1).sum().item()
    stream.record_event().synchronize()
made.append(threads())
gate = C.Gate()
for stream in streams[:3]:
    with hpu.stream(stream):
        gate.enqueue()
        gate.enqueue()
    made.append(threads())
gate.open()
hpu.synchronize()
print(*made)
"""


def test_streams_that_compute_share_one_team_of_threads(output_of):
    """20 streams with deferred work use one thread each, and share one OpenMP team."""
    first = "import os, torch, habana_frameworks.torch as ht\n"
    count = """
torch.set_num_threads(4)
x = torch.ones(1 << 20, device='hpu')
def threads(streams):
    for stream in streams:
        with torch.hpu.stream(stream):
            ht._C.enqueue_delay(0.01)
            y = x + 1
            y = x * 2
    while ht._C.engine_counters()['pending']:
        pass
    return len(os.listdir('/proc/self/task'))
streams = [torch.hpu.Stream() for _ in range(20)]
threads(streams[:1])
once = threads(streams[:1])
print(threads(streams) - once)
"""
    assert int(output_of(first + count)) < 30  # 19 more threads for streams, and one OpenMP team


def test_threads_are_created_on_demand(output_of):
    assert output_of(WORKERS) == "(0, 0) (0, 0) (1, 1) (2, 2) (3, 3)"


def test_each_thread_has_its_own_current_stream(tensor_of_ones, enqueue_gate):
    streams = [hpu.Stream() for _ in range(4)]
    closed_gate = _close_gate_on(streams[0], enqueue_gate)
    results, barrier = {}, threading.Barrier(4)

    def use_own_stream(index):
        hpu.set_stream(streams[index])
        barrier.wait()
        assert hpu.current_stream() == streams[index]
        results[index] = (tensor_of_ones + 1, streams[index].record_event())
        if index:
            streams[index].synchronize()

    threads = [threading.Thread(target=use_own_stream, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert hpu.current_stream() == hpu.default_stream()
    assert [results[index][1].query() for index in range(4)] == [False, True, True, True]
    closed_gate.open()
    hpu.synchronize()
    assert all(result.eq(2).all() for result, _ in results.values())


def test_backward_runs_on_the_stream_of_forward(cache_output_metadata, enqueue_gate):
    weight = torch.ones(20, 20, device="hpu", requires_grad=True)
    data = torch.ones(20, 20, device="hpu")

    def step():
        weight.grad = None
        (data @ weight).relu().sum().backward()

    stream = hpu.Stream()
    with hpu.stream(stream):
        cache_output_metadata(step)
        stream.synchronize()
    with hpu.stream(stream):
        closed_gate = enqueue_gate()
        step()
        done = stream.record_event()
    assert not done.query()
    closed_gate.open()
    done.synchronize()
    assert weight.grad.eq(20).all()


# Memory.


def test_memory_freed_behind_a_gate_is_reused_only_on_its_stream(tensor_of_ones, enqueue_gate):
    stream = hpu.Stream()
    closed_gate = _close_gate_on(stream, enqueue_gate)
    with hpu.stream(stream):
        temporary = tensor_of_ones + 1
        address = temporary.data_ptr()
        result = temporary * 2
        del temporary
    later = [torch.empty(SIZE, device="hpu") for _ in range(20)]
    assert address not in {tensor.data_ptr() for tensor in later}
    for tensor in later:
        tensor.fill_(-1)
    with hpu.stream(stream):
        later_result = tensor_of_ones + 1
        assert later_result.data_ptr() == address  # later work of the stream may reuse the memory immediately
    closed_gate.open()
    stream.synchronize()
    assert result.eq(4).all() and later_result.eq(2).all()
    assert all(tensor.eq(-1).all() for tensor in later)


def test_inputs_freed_behind_a_gate(tensor_of_ones, enqueue_gate):
    stream = hpu.Stream()
    with hpu.stream(stream):
        inputs = [torch.full((SIZE,), float(i), device="hpu") for i in range(8)]
        closed_gate = enqueue_gate()
        results = [tensor + 1 for tensor in inputs]
        inputs.clear()
    other_tensors = [torch.full((SIZE,), -5.0, device="hpu") for _ in range(16)]
    closed_gate.open()
    stream.synchronize()
    assert [result.unique().tolist() for result in results] == [[i + 1.0] for i in range(8)]
    assert all(tensor.eq(-5).all() for tensor in other_tensors)


@pytest.mark.parametrize("way", ["tensor", "module"])
def test_record_stream(tensor_of_ones, enqueue_gate, way):
    stream = hpu.Stream()
    tensor = torch.full((SIZE,), 3.0, device="hpu")
    address = tensor.data_ptr()
    closed_gate = _close_gate_on(stream, enqueue_gate)
    with hpu.stream(stream):
        result = tensor * 2
    if way == "tensor":
        tensor.record_stream(stream)
    else:
        hpu.record_stream(tensor, stream)
    del tensor
    other_tensors = [torch.full((SIZE,), -1.0, device="hpu") for _ in range(20)]
    assert address not in {tensor.data_ptr() for tensor in other_tensors}
    closed_gate.open()
    stream.synchronize()
    assert result.eq(6).all()
    del other_tensors
    hpu.synchronize()
    later_tensors = [torch.empty(SIZE, device="hpu") for _ in range(400)]
    assert address in {tensor.data_ptr() for tensor in later_tensors}


def test_memory_is_returned(tensor_of_ones, enqueue_gate):
    stream = hpu.Stream()
    torch.accelerator.synchronize()
    before = torch.hpu.memory_allocated()
    closed_gate = _close_gate_on(stream, enqueue_gate)
    with hpu.stream(stream):
        for _ in range(100):
            tensor_of_ones + 1
    closed_gate.open()
    stream.synchronize()
    assert torch.hpu.memory_allocated() == before


# Copies.


def test_copies_from_pinned_memory_run_in_order(tensor_of_ones, enqueue_gate):
    stream = hpu.Stream()
    source = torch.full((SIZE,), 4.0, pin_memory=True)
    target = torch.ones(SIZE, device="hpu")
    closed_gate = _close_gate_on(stream, enqueue_gate)
    with hpu.stream(stream):
        before = target + 1
        target.copy_(source, non_blocking=True)
        after = target * 2
    source.fill_(5.0)  # the queued copy reads `source` later
    assert not stream.query()
    closed_gate.open()
    stream.synchronize()
    assert before.eq(2).all() and target.eq(5).all() and after.eq(10).all()


def test_copies_to_pinned_memory_run_in_order(tensor_of_ones, enqueue_gate):
    stream = hpu.Stream()
    target = torch.zeros(SIZE, pin_memory=True)
    closed_gate = _close_gate_on(stream, enqueue_gate)
    with hpu.stream(stream):
        target.copy_(tensor_of_ones + 1, non_blocking=True)
        done = stream.record_event()
    assert not done.query()
    assert target.eq(0).all()
    closed_gate.open()
    done.synchronize()
    assert target.eq(2).all()


def test_pinned_memory_may_be_freed_before_its_copy(tensor_of_ones, enqueue_gate):
    stream = hpu.Stream()
    target = torch.ones(SIZE, device="hpu")
    closed_gate = _close_gate_on(stream, enqueue_gate)
    with hpu.stream(stream):
        for number in range(5):
            target.copy_(torch.full((SIZE,), float(number), pin_memory=True), non_blocking=True)
            target.mul_(3)
    reused = [torch.full((SIZE,), -9.0, pin_memory=True) for _ in range(5)]
    closed_gate.open()
    stream.synchronize()
    assert target.eq(12).all()
    assert all(tensor.eq(-9).all() for tensor in reused)


@pytest.mark.parametrize("convert", [torch.float64, torch.int32])
def test_queued_copies_convert(tensor_of_ones, enqueue_gate, convert):
    stream = hpu.Stream()
    source = torch.arange(SIZE).to(convert).pin_memory()
    target = torch.ones(SIZE, device="hpu")
    closed_gate = _close_gate_on(stream, enqueue_gate)
    with hpu.stream(stream):
        target.copy_(source, non_blocking=True)
    closed_gate.open()
    stream.synchronize()
    assert torch.equal(target.cpu(), torch.arange(SIZE).float())


def test_blocking_copies_wait(tensor_of_ones):
    stream = hpu.Stream()
    value = torch.ones(SIZE, device="hpu")
    C.set_queue_all(200, 1)
    with hpu.stream(stream):
        for turn in range(20):
            value.mul_(3)
            value.copy_(torch.full((SIZE,), float(turn)))
            assert (value + 1).cpu().eq(turn + 1).all()


# Without queues.

SYNCHRONOUS = """
import torch, habana_frameworks.torch as ht
C, hpu = ht._C, ht.hpu
SETUP
x = torch.rand(600, 600, device='hpu')
host = torch.rand(600, 600, pin_memory=True)
x @ x
y = x @ x
x.copy_(host, non_blocking=True)
host.copy_(y, non_blocking=True)
event = hpu.Event()
event.record()
stream = hpu.Stream()
stream.wait_event(event)
queued = C.engine_counters()['queued']
assert not SYNC or event.query()
hpu.synchronize()
print(queued, torch.equal(host, y.cpu()))
"""


@pytest.mark.parametrize(
    ("setup", "environment", "synchronous"),
    [
        ("", {"PT_HPU_EAGER_PIPELINE_ENABLE": "0"}, True),
        ("", {"PT_HPU_SYNC_LAUNCH": "1"}, True),
        ("", {"PT_ENABLE_HABANA_STREAMASYNC": "0"}, True),
        ("hpu.set_sync_debug_mode('error')", {}, True),
        ("", {}, False),
    ],
)
def test_synchronous_modes(output_of, setup, environment, synchronous):
    code = SYNCHRONOUS.replace("SETUP", setup).replace("SYNC", str(synchronous))
    queued, equal = output_of(code, **environment).split()
    assert equal == "True"
    assert (int(queued) == 0) == synchronous


def test_sync_debug_mode_makes_the_host_wait(tensor_of_ones, enqueue_gate):
    """In sync debug mode, ``wait_event`` makes the host wait for the event instead of the stream."""
    first, second = hpu.Stream(), hpu.Stream()
    with hpu.stream(first):
        C.enqueue_delay(0.01)
        event = first.record_event()
    C.set_sync_debug_mode(True)
    try:
        second.wait_event(event)
        assert event.query()
    finally:
        C.set_sync_debug_mode(False)


def test_a_call_releases_the_gil_while_it_waits(enqueue_gate):
    # torch resizes storages without releasing the GIL. The thread that opens the gate needs the GIL.
    storage = torch.ones(SIZE, device="hpu").untyped_storage()
    closed_gate = enqueue_gate()
    opener = threading.Timer(0.1, closed_gate.open)
    opener.start()
    storage.resize_(2 * storage.nbytes())
    opener.join()
    assert storage.nbytes() == 8 * SIZE


EVENTS = """
import sys, threading, time
event = torch.Event("hpu")
event.record()
ends, counts = time.monotonic() + 3, [0, 0]
def waits():
    while time.monotonic() < ends:
        event.synchronize()
        counts[0] += 1
def records():
    while time.monotonic() < ends:
        event.record()
        counts[1] += 1
sys.setswitchinterval(1e-5)
threads = [threading.Thread(target=run, daemon=True) for run in (waits, waits, records)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(20)
print(any(thread.is_alive() for thread in threads), min(counts) > 0, flush=True)
os._exit(0)
"""


def test_an_event_that_is_recorded_again_wakes_its_waiters(python):
    done = python("import os\n" + EVENTS, timeout=60)
    assert done.stdout == "False True\n", done.stderr


HOOKS = """
import faulthandler, threading
faulthandler.dump_traceback_later(40, exit=True)
C, hpu = ht._C, ht.hpu
x = torch.ones(64, device="hpu")
def work():
    return x * 2
C.set_queue_all(0); work(); C.set_queue_all(-1); hpu.synchronize()
def reads():
    while not stop:
        C.engine_counters()
stop = False
beside = threading.Thread(target=reads)
beside.start()
with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor):
    for _ in range(300):
        C.enqueue_delay(0.0005)
        y = work()
        y.cpu()
stop = True
beside.join()
print("ended")
"""


def test_a_thread_with_hooks_waits_while_another_reads_engine_counters(python):
    done = python("import sys; sys.setswitchinterval(1e-4); import habana_frameworks.torch as ht\n" + HOOKS)
    assert done.stdout == "ended\n", done.stderr
