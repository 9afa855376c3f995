"""Test errors of deferred work: the next synchronisation raises them once, with the operator's name."""

from __future__ import annotations

import threading

import habana_frameworks.torch as ht
import pytest
import torch

C, hpu = ht._C, ht.hpu


@pytest.fixture
def source(cache_output_metadata):
    """Return a tensor, a valid index and an invalid index.

    The engine has cached the output metadata of ``index_select``, so it can defer the calls.
    """
    tensor = torch.arange(4.0, device="hpu")
    valid_index = torch.tensor([0, 3], device="hpu")
    bad = torch.tensor([0, 9], device="hpu")
    cache_output_metadata(lambda: (tensor.index_select(0, valid_index) + 1, tensor + 1, valid_index + 1))
    return tensor, valid_index, bad


@pytest.fixture
def stream():
    side_stream = hpu.Stream()
    with hpu.stream(side_stream):
        yield side_stream


def _queue_failing_call(source, enqueue_gate):
    tensor, _, bad = source
    closed_gate = enqueue_gate()
    result = tensor.index_select(0, bad)  # the engine defers the call, so the error occurs later
    closed_gate.open()
    return result


SURFACES = {
    "hpu.synchronize": lambda result, event, stream: hpu.synchronize(),
    "stream.synchronize": lambda result, event, stream: stream.synchronize(),
    "event.synchronize": lambda result, event, stream: event.synchronize(),
    "cpu": lambda result, event, stream: result.cpu(),
    "item": lambda result, event, stream: result[0].item(),
    "tolist": lambda result, event, stream: result.tolist(),
    "accelerator": lambda result, event, stream: torch.accelerator.synchronize(),
}


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("surface", SURFACES)
def test_each_synchronisation_raises_the_error_once(source, enqueue_gate, stream, surface, settled):
    result = _queue_failing_call(source, enqueue_gate)
    event = hpu.Event()
    event.record(stream)
    while settled and not event.query():  # wait until the queue is empty
        pass
    with pytest.raises(IndexError, match=r"index out of range(.|\n)*aten::index_select"):
        SURFACES[surface](result, event, stream)
    hpu.synchronize()
    stream.synchronize()
    event.synchronize()
    tensor, valid_index, _ = source
    assert tensor.index_select(0, valid_index).tolist() == [0.0, 3.0]


def test_the_first_of_several_errors_is_reported(source, enqueue_gate, stream):
    tensor, _, bad = source
    closed_gate = enqueue_gate()
    tensor.index_select(0, bad)
    tensor.index_select(0, bad)
    fine = tensor + 1
    closed_gate.open()
    with pytest.raises(IndexError):
        hpu.synchronize()
    hpu.synchronize()
    assert fine.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_later_work_of_the_stream_still_runs(source, enqueue_gate, stream):
    tensor, valid_index, bad = source
    closed_gate = enqueue_gate()
    tensor.index_select(0, bad)
    after = tensor.index_select(0, valid_index)
    event = stream.record_event()
    assert not event.query()
    closed_gate.open()
    with pytest.raises(IndexError):
        event.synchronize()
    assert event.query()
    assert after.tolist() == [0.0, 3.0]


def test_an_error_belongs_to_its_stream(source, enqueue_gate, stream):
    tensor, valid_index, bad = source
    second_stream = hpu.Stream()
    closed_gate = enqueue_gate()
    tensor.index_select(0, bad)
    with hpu.stream(second_stream):
        assert tensor.index_select(0, valid_index).tolist() == [0.0, 3.0]
        second_stream.synchronize()
    closed_gate.open()
    with pytest.raises(IndexError, match=rf"queued on stream {(stream.id() - 1) % 32 + 1}"):
        stream.synchronize()


def test_query_does_not_throw_and_does_not_lose_the_error(source, enqueue_gate, stream):
    _queue_failing_call(source, enqueue_gate)
    event = stream.record_event()
    while not event.query():
        pass
    assert stream.query()
    with pytest.raises(IndexError):
        stream.synchronize()


def test_inline_errors_are_raised_by_the_call():
    with pytest.raises(IndexError):
        torch.arange(4.0, device="hpu").index_select(0, torch.tensor([9], device="hpu"))
    hpu.synchronize()


LINES = """
import torch, habana_frameworks.torch as ht
C = ht._C
x, good = torch.arange(4.0, device='hpu'), torch.tensor([0, 3], device='hpu')
bad = torch.tensor([0, 9], device='hpu')
C.set_queue_all(0)
x.index_select(0, good)
x.index_select(0, bad)  # line 8
try:
    ht.hpu.synchronize()
except IndexError as error:
    print(error)
print('usable', (x + 1).tolist())
"""


@pytest.mark.parametrize("record", ["0", "1"])
def test_error_names_the_source_line(run_python, tmp_path, record):
    script = tmp_path / "program.py"
    script.write_text(LINES)
    done = run_python(f"import runpy; runpy.run_path({str(script)!r})", HPU_REFERENCE_RECORD_LINES=record)
    assert done.returncode == 0, done.stderr
    assert "aten::index_select" in done.stdout
    assert (f"{script}:8" in done.stdout) == (record == "1")
    assert "usable [1.0, 2.0, 3.0, 4.0]" in done.stdout


def test_synchronous_mode_raises_at_the_call(run_python):
    done = run_python(LINES, PT_HPU_EAGER_PIPELINE_ENABLE="0")
    assert done.returncode == 1
    assert "line 8" in done.stderr
    assert "IndexError" in done.stderr


LAZY = """
import torch, habana_frameworks.torch as ht
ht._C.lazy_start(1)
x, good = torch.arange(4.0, device='hpu'), torch.tensor([0, 3], device='hpu')
bad = torch.tensor([0, 9], device='hpu')
for _ in range(3):
    (x + 1).index_select(0, good).tolist()
for turn in range(3):
    y = (x + 1).index_select(0, bad)
    ht._C.lazy_flush(False)
    try:
        ht.hpu.synchronize()
        print('no error')
    except IndexError as error:
        print(turn, 'aten::index_select' in str(error))
    ht.hpu.synchronize()
print((x + 1).index_select(0, good).tolist())
"""


def test_lazy_graphs_name_the_operator(output_of):
    assert output_of(LAZY).splitlines() == ["0 True", "1 True", "2 True", "[1.0, 4.0]"]


def test_errors_of_replays(source, enqueue_gate, stream):
    tensor, valid_index, bad = source
    static = valid_index.clone()
    graph = C.Graph()
    graph.begin()
    result = (tensor + 1).index_select(0, static)
    graph.end()
    static.copy_(bad)
    closed_gate = enqueue_gate()
    graph.replay(asynchronous=True)
    closed_gate.open()
    with pytest.raises(IndexError, match="aten::index_select"):
        stream.synchronize()
    static.copy_(valid_index)
    graph.replay(asynchronous=True)
    assert result.tolist() == [1.0, 4.0]


def test_calls_that_validate_a_number_are_cached_per_number(enqueue_gate, cache_output_metadata):
    x = torch.ones(3, 4, device="hpu")
    valid_calls = [
        lambda: x.renorm(2, 0, 1.0),
        lambda: torch.linalg.vector_norm(x[:, :0], 2.0),
        lambda: x.add(0.5),
    ]
    cache_output_metadata(lambda: [call() for call in valid_calls])
    closed_gate = enqueue_gate()
    x.add(0.75)  # deferred, because an addition accepts any number
    closed_gate.open()
    for bad in (lambda: x.renorm(2, 0, -1.0), lambda: torch.linalg.vector_norm(x[:, :0], float("inf"))):
        with pytest.raises(RuntimeError):
            bad()
    with pytest.raises(RuntimeError, match="overflow"):
        torch.ones(3, dtype=torch.uint8, device="hpu").fill_(1000.0)


def test_a_call_that_warns_warns_each_time(enqueue_gate, cache_output_metadata):
    x = torch.ones(1, device="hpu")

    def call():
        with pytest.warns(UserWarning, match="degrees of freedom"):
            return x.var()

    cache_output_metadata(call)
    closed_gate = enqueue_gate()
    opener = threading.Timer(0.1, closed_gate.open)  # `call` blocks until this timer opens the gate
    opener.start()
    assert torch.isnan(call()).item()
    opener.join()
