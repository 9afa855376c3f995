"""Test which work a capture records: its own stream, and the streams that wait for an event of the capture.

Other streams and threads keep running.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import habana_frameworks.torch as ht
import pytest
import torch

C, hpu = ht._C, ht.hpu


def _run_in_thread(function):
    """Run the function on another thread while the caller waits, and return its result."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result(timeout=60)


@pytest.fixture
def x():
    return torch.ones(8, device="hpu")


@pytest.mark.parametrize("own_stream", [True, False])
def test_another_thread_works_and_reads_during_a_capture(x, own_stream):
    counter = torch.zeros(8, device="hpu")

    def add_and_read():
        with hpu.stream(hpu.Stream() if own_stream else hpu.default_stream()):
            assert not hpu.is_current_stream_capturing()
            counter.add_(1)
            return counter.cpu().tolist()

    graph = hpu.HPUGraph()
    with hpu.graph(graph):
        y = x * 2
        read = _run_in_thread(add_and_read)
        z = y + 1
    assert read == [1.0] * 8
    for _ in range(2):
        graph.replay()
    assert counter.tolist() == [1.0] * 8 and z.tolist() == [3.0] * 8


def test_another_stream_of_the_same_thread_is_not_recorded(x):
    counter, side = torch.zeros(8, device="hpu"), hpu.Stream()
    graph = hpu.HPUGraph()
    with hpu.graph(graph):
        y = x * 2
        with hpu.stream(side):
            counter.add_(1)
            assert not hpu.is_current_stream_capturing()
            assert counter.tolist() == [1.0] * 8
        y += 1
    graph.replay()
    assert counter.tolist() == [1.0] * 8 and y.tolist() == [3.0] * 8


@pytest.mark.parametrize("way", ["wait_stream", "wait_event", "torch.Event"])
def test_a_stream_that_waits_for_the_capture_joins_it(x, way):
    counter, side = torch.zeros(8, device="hpu"), hpu.Stream()
    graph = hpu.HPUGraph()
    with hpu.graph(graph):
        y = x * 2
        stream = hpu.current_stream()
        if way == "wait_stream":
            side.wait_stream(stream)
        elif way == "wait_event":
            side.wait_event(stream.record_event())
        else:
            event = torch.Event("hpu")
            event.record(stream)
            event.wait(side)
        with hpu.stream(side):
            assert hpu.is_current_stream_capturing()
            counter.add_(y)
            with pytest.raises(RuntimeError, match="during hpu graph capturing"):
                counter.cpu()
        stream.wait_stream(side)
    assert counter.tolist() == [2.0] * 8
    graph.replay()
    assert counter.tolist() == [4.0] * 8
    with hpu.stream(side):  # the capture has ended, so `side` is not part of it
        counter.add_(1)
    graph.replay()
    assert counter.tolist() == [7.0] * 8


def test_an_event_from_before_the_capture_does_not_join_a_stream(x):
    side, counter = hpu.Stream(), torch.zeros(8, device="hpu")
    graph = hpu.HPUGraph()
    stream = hpu.Stream()
    early = stream.record_event()
    with hpu.graph(graph, stream=stream):
        y = x * 2
        side.wait_event(early)
        with hpu.stream(side):
            counter.add_(1)
    graph.replay()
    assert counter.tolist() == [1.0] * 8 and y.tolist() == [2.0] * 8


def test_a_thread_on_the_capturing_stream_is_recorded(x):
    counter, stream = torch.zeros(8, device="hpu"), hpu.Stream()

    def add_to_counter():
        with hpu.stream(stream):
            counter.add_(1)

    graph = hpu.HPUGraph()
    with hpu.graph(graph, stream=stream):
        y = x * 2
        _run_in_thread(add_to_counter)
    graph.replay()
    assert counter.tolist() == [2.0] * 8 and y.tolist() == [2.0] * 8


def test_a_backward_in_a_capture_is_recorded(x):
    weight = torch.ones(8, device="hpu", requires_grad=True)
    (weight * 2).sum().backward()
    weight.grad = None
    graph = hpu.HPUGraph()
    with hpu.graph(graph):
        loss = (weight * x).sum()
        (gradient,) = torch.autograd.grad(loss, weight)
    x.fill_(5)
    graph.replay()
    assert gradient.tolist() == [5.0] * 8


def test_two_threads_capture_at_once_with_one_input(x):
    barrier = threading.Barrier(2)
    results = {}

    def capture_and_replay(number):
        with hpu.stream(hpu.Stream()):
            graph, mine = hpu.HPUGraph(), torch.full((8,), float(number), device="hpu")
            graph.capture_begin()
            y = x + mine
            barrier.wait(60)
            for _ in range(20):
                y = y * 2 - x
            barrier.wait(60)
            y = y + x
            graph.capture_end()
            mine.fill_(3.0)
            graph.replay()
            results[number] = y.tolist()

    threads = [threading.Thread(target=capture_and_replay, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    expected = 4.0
    for _ in range(20):
        expected = expected * 2 - 1
    assert results == {1: [expected + 1] * 8, 2: [expected + 1] * 8}


def test_a_replay_runs_during_a_capture_of_another_thread(x):
    first = hpu.HPUGraph()
    with hpu.graph(first):
        y = x + 1

    def replay_and_read():
        with hpu.stream(hpu.Stream()):
            first.replay()
            return y.tolist()

    second = hpu.HPUGraph()
    with hpu.graph(second):
        z = x * 3
        assert _run_in_thread(replay_and_read) == [2.0] * 8
    second.replay()
    assert z.tolist() == [3.0] * 8


def test_memory_of_another_thread_is_an_input_of_the_graph(x):
    """Memory that another thread allocates during a capture is a graph input, not part of the workspace."""
    tensors = {}

    def allocate_bias():
        tensors["bias"] = torch.full((8,), 10.0, device="hpu")

    graph = hpu.HPUGraph()
    with hpu.graph(graph):
        _run_in_thread(allocate_bias)
        y = x + tensors["bias"]
    graph.replay()
    assert y.tolist() == [11.0] * 8
    tensors["bias"].fill_(20)
    graph.replay()
    assert y.tolist() == [21.0] * 8


@pytest.mark.parametrize("threads", [1, 2])
def test_first_compiled_calls_during_work_of_another_thread(x, threads):
    """``torch.compile`` captures only the work of its own thread. Other threads may use the same stream."""
    counter, stop, done = torch.zeros(4, device="hpu"), threading.Event(), [0]

    def add_and_read_repeatedly():
        while not stop.is_set():
            counter.add_(1)
            done[0] += 1
            counter.cpu()

    busy_thread = threading.Thread(target=add_and_read_repeatedly)
    busy_thread.start()
    barrier = threading.Barrier(threads)

    def compile_and_call(number):
        def function(value):
            for _ in range(100):
                value = torch.relu(value) * 1.001 + number
            return value

        expected = function(torch.ones(8))
        run = torch.compile(function, backend="hpu_backend", options={"executable": "interpreted"})
        with torch.no_grad():
            barrier.wait(60)
            results = [run(x) for _ in range(3)]
            assert all(torch.allclose(result.cpu(), expected) for result in results)
            return run

    try:
        with ThreadPoolExecutor(threads) as pool:
            runs = list(pool.map(compile_and_call, range(1, threads + 1)))
    finally:
        stop.set()
        busy_thread.join(60)
    assert counter[0].item() == done[0]
    with torch.no_grad():
        for run in runs:
            for _ in range(5):
                run(x)
    assert counter[0].item() == done[0]


#: Script with two threads that compete for the recorder's lock and the GIL. Each thread must make progress.
PROGRESS = """
import faulthandler, os, threading, time, torch, habana_frameworks.torch as ht
C, hpu = ht._C, ht.hpu
faulthandler.dump_traceback_later(100, exit=True)
stop, counts = False, [0, 0]
def first():
    x = torch.ones(8, device='hpu')
    while not stop:
        {first}
        counts[0] += 1
def second():
    a = torch.ones(8, device='hpu')
    storage, size, event = a.untyped_storage(), a.untyped_storage().nbytes(), torch.Event('hpu')
    while not stop:
        {second}
        counts[1] += 1
threads = [threading.Thread(target=f, daemon=True) for f in (first, second)]
for thread in threads:
    thread.start()
end = time.monotonic() + 60
while time.monotonic() < end and min(counts) < 40:
    time.sleep(0.05)
stop = True
for thread in threads:
    thread.join(30)
print(min(counts) >= 40, [thread.is_alive() for thread in threads], flush=True)
os._exit(0)
"""
CAPTURE = """graph = C.Graph(); graph.begin()
        for _ in range(20): y = x + 1
        graph.end()"""
SECOND = {
    "fill": "storage.fill_(0)",
    "resize": "storage.resize_(0); storage.resize_(size)",
    "event": "event.record()",
}


@pytest.mark.nightly("each case waits several seconds for a possible deadlock", every=3)
@pytest.mark.parametrize("second", SECOND)
@pytest.mark.parametrize("first", ["capture", "lazy"])
def test_recorder_lock_and_gil_do_not_deadlock(output_of, first, second):
    code = PROGRESS.replace("{first}", CAPTURE if first == "capture" else "y = x + 1")
    code = code.replace("{second}", SECOND[second])
    if first == "lazy":
        code = code.replace("faulthandler.dump", "C.lazy_start(1, 5)\nfaulthandler.dump")
    assert output_of(code, timeout=150) == "True [False, False]"


def test_a_stream_of_one_capture_cannot_join_another(x):
    first, second = hpu.Stream(), hpu.Stream()
    graphs = hpu.HPUGraph(), hpu.HPUGraph()
    for stream, graph in zip((first, second), graphs, strict=True):
        with hpu.stream(stream):
            graph.capture_begin()
    with pytest.raises(RuntimeError, match="cannot wait for an event of another capture"):
        second.wait_stream(first)
    for stream, graph, factor in zip((first, second), graphs, (2, 3), strict=True):
        with hpu.stream(stream):
            y = x * factor
            graph.capture_end()
            graph.replay()
            assert y.tolist() == [float(factor)] * 8


def test_memory_from_before_a_stream_joined_is_input(x, cache_output_metadata):
    """``bias`` is computed on a side stream before this stream joins the capture.

    In the second iteration, a delay on the side stream precedes the computation of ``bias``.
    """
    side = hpu.Stream()
    cache_output_metadata(lambda: x + 5)
    for queued in (False, True):
        graph = hpu.HPUGraph()
        with hpu.graph(graph):
            first = x * 2
            with hpu.stream(side):
                if queued:
                    C.enqueue_delay(0.02)
                bias = x + 5
            stream = hpu.current_stream()
            side.wait_stream(stream)
            with hpu.stream(side):
                y = bias + first
            stream.wait_stream(side)
        del bias
        graph.replay()
        graph.replay()
        assert y.tolist() == [8.0] * 8


LAZY_BESIDE = """
import queue, threading, torch, habana_frameworks.torch as ht
C, hpu = ht._C, ht.hpu
C.lazy_start(1, 5)
x = torch.ones(2000, device='hpu')
def scaled(i):
    return x * float(i)
for i in range(3):
    scaled(i).cpu()
side, handed, answers = hpu.Stream(), queue.Queue(), []
def prefetch():
    with hpu.stream(side):
        for i in range(1, 8):
            C.enqueue_delay(0.02)
            handed.put(scaled(i))
            answers.append(ready.get(timeout=60))
ready = queue.Queue()
thread = threading.Thread(target=prefetch)
thread.start()
right = []
for i in range(1, 8):
    value = handed.get(timeout=60)
    {use}
    ready.put(i)
    right.append(bool((result.cpu() == expected).all()))
thread.join()
print(all(right))
"""
USES = {
    # Each call has a new result size, so the engine has not cached its output metadata.
    "new": "result = value.repeat(i + 1); expected = float(i)",
    "captured": (
        "graph = hpu.HPUGraph(); graph.capture_begin(); result = value + 1; graph.capture_end(); "
        "expected = i + 1.0"
    ),
}


@pytest.mark.parametrize("use", USES)
def test_work_that_another_thread_recorded_runs_before_its_use(output_of, use):
    assert output_of(LAZY_BESIDE.replace("{use}", USES[use]), timeout=150) == "True"


#: Script in which one thread captures a graph again and again, and the other thread inspects the graph. The
#: passes remove some calls of the graph.
ASK = """
import faulthandler, sys, threading, time, torch, habana_frameworks.torch as ht
faulthandler.enable()
sys.setswitchinterval(1e-5)
C, hpu = ht._C, ht.hpu
x = torch.ones(8, device='hpu')
graph, stop, asked = C.Graph(), False, 0
def make():
    with hpu.stream(hpu.Stream()):
        while not stop:
            graph.begin(False, True)
            y = x
            for _ in range(30):
                torch.sin(y)
                y = torch.relu(y) + x
            graph.end()
            graph.prepare()
            graph.reset()
thread = threading.Thread(target=make)
thread.start()
start = time.monotonic()
sizes, operators = set(), set()
while time.monotonic() < start + 4 or (asked < 20 and time.monotonic() < start + 60):
    sizes.add(graph.num_ops)
    described = graph.describe()
    sizes.add(len(described['calls']))
    operators.update(call['op'] for call in described['calls'])
    assert graph.kind == 'interpreted' and graph.fused_runs == 0 and graph.capturing in (True, False)
    sizes.add(len(graph.ops))
    if asked % 16 == 0:
        assert graph.memory_bytes >= 0 and graph.dump('text')
    asked += 1
stop = True
thread.join(60)
print(sizes <= {0, 60, 90}, operators <= {'aten::relu', 'aten::add.Tensor', 'aten::sin'}, asked >= 20)
"""


def test_a_graph_can_be_inspected_while_another_thread_captures_it(output_of):
    assert output_of(ASK, timeout=120) == "True True True"
