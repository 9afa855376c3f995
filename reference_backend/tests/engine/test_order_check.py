"""Test the check of ``HPU_REFERENCE_STREAM_ORDER=events``, which reports missing waits between streams."""

from __future__ import annotations

import pytest

START = """
import warnings, torch, habana_frameworks.torch as ht
warnings.simplefilter('ignore')
C, hpu = ht._C, ht.hpu
side = hpu.Stream()
x = torch.ones(1000, device='hpu')
hpu.synchronize()
C.take_race_reports()
def reports():
    for text in C.take_race_reports():
        print(text.replace(f'stream {side.stream_id}', 'SIDE').replace(f'stream {side}', 'SIDE'))
"""


@pytest.fixture
def reported(output_of):
    """Return a function that runs code with the check enabled and returns the printed reports."""

    def run_and_return_reports(code, **environment):
        code = START + code + "\nhpu.synchronize()\nreports()\n"
        return output_of(code, HPU_REFERENCE_STREAM_ORDER="events", **environment).splitlines()

    return run_and_return_reports


PRODUCE = """
with hpu.stream(side):
    made = x * 2
"""
CONSUME = "read = made + 1"

WAITS = {
    "wait_stream": "hpu.current_stream().wait_stream(side)",
    "wait_event": "hpu.current_stream().wait_event(side.record_event())",
    "torch.Event": "event = torch.Event('hpu'); event.record(side); event.wait()",
    "event.synchronize": "side.record_event().synchronize()",
    "event.query": "event = side.record_event()\nwhile not event.query(): pass",
    "stream.synchronize": "side.synchronize()",
    "stream.query": "while not side.query(): pass",
    "synchronize": "hpu.synchronize()",
    "read on the stream": "with hpu.stream(side): made.sum().item()",
    "over a third stream": (
        "third = hpu.Stream(); third.wait_stream(side); hpu.current_stream().wait_stream(third)"
    ),
}


@pytest.mark.nightly("each case starts a process; one function records all kinds of waits", every=4)
@pytest.mark.parametrize("wait", WAITS)
def test_a_wait_is_detected(reported, wait):
    assert reported(PRODUCE + WAITS[wait] + "\n" + CONSUME) == []


def test_a_missing_wait_is_named(reported):
    (report,) = reported(PRODUCE + CONSUME)
    assert report == (
        "aten::add.Tensor on the default stream reads memory that aten::mul.Tensor on SIDE writes, and "
        "nothing orders them: the default stream has to wait for SIDE (wait_stream, or wait_event with an "
        "event recorded after aten::mul.Tensor)"
    )


@pytest.mark.nightly("repeats a program to meet a rare order of events")
@pytest.mark.parametrize("queued", [False, True])
def test_report_does_not_depend_on_timing(reported, queued):
    """The report is the same whether or not the first operator has finished."""
    delay = "with hpu.stream(side): C.enqueue_delay(0.1)\n" if queued else ""
    between = "" if queued else "import time; time.sleep(0.2)\n"
    assert len(reported(delay + PRODUCE + between + CONSUME)) == 1


def test_an_event_from_before_the_work_does_not_order_it(reported):
    code = "event = side.record_event()\n" + PRODUCE + "hpu.current_stream().wait_event(event)\n" + CONSUME
    assert len(reported(code)) == 1


def test_a_wait_in_the_wrong_direction_does_not_order_the_work(reported):
    assert len(reported(PRODUCE + "side.wait_stream(hpu.current_stream())\n" + CONSUME)) == 1


def test_a_write_to_memory_that_another_stream_reads(reported):
    (report,) = reported(PRODUCE + "x.fill_(3)")
    assert report.startswith(
        "aten::fill_.Scalar on the default stream writes memory that aten::mul.Tensor on SIDE reads"
    )


def test_readers_need_no_order(reported):
    assert reported(PRODUCE + "read = x + 1") == []


def test_memory_that_is_freed_without_record_stream(reported):
    code = """
y = torch.ones(1000, device='hpu')
side.wait_stream(hpu.current_stream())
with hpu.stream(side):
    made = y * 2
{record}
del y
kept = [torch.ones(1000, device='hpu') for _ in range(4)]
"""
    (report,) = reported(code.format(record=""))
    assert "freed without record_stream(SIDE), and another tensor has its memory" in report
    assert reported(code.format(record="y.record_stream(side)")) == []
    assert reported(code.format(record="hpu.current_stream().wait_stream(side)")) == []


def test_replays_are_checked(reported):
    code = """
graph = hpu.HPUGraph()
with hpu.graph(graph):
    y = x * 2
hpu.synchronize()
C.take_race_reports()
with hpu.stream(side):
    graph.replay(asynchronous=True)
{wait}
read = y + 1
"""
    (report,) = reported(code.format(wait=""))
    assert "a graph of 1 operators on SIDE writes" in report
    assert reported(code.format(wait="hpu.current_stream().wait_stream(side)")) == []


def test_check_warns_once_for_each_pair_of_operators(run_python):
    code = START.replace("warnings.simplefilter('ignore')", "") + (PRODUCE + CONSUME) * 3
    done = run_python(code, HPU_REFERENCE_STREAM_ORDER="events")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("missing wait between streams: aten::add.Tensor") == 1


def test_ordinary_training_has_no_report(reported):
    code = """
model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Dropout(), torch.nn.Linear(30, 5)).to('hpu')
optimizer = torch.optim.Adam(model.parameters())
inputs = torch.randn(8, 20)
for step in range(3):
    optimizer.zero_grad()
    loss = model(inputs.pin_memory().to('hpu', non_blocking=True)).square().mean()
    loss.backward()
    optimizer.step()
    loss.item()
"""
    assert reported(code) == []


def test_nothing_is_checked_by_default(output_of):
    assert output_of(START + PRODUCE + CONSUME + "\nprint(C.take_race_reports())") == "[]"


def test_memory_of_joined_blocks(reported):
    """The check follows memory, not the allocator's block objects, which may be reused for other memory."""
    code = """
first, y, guard = (torch.ones(25600, device='hpu') for _ in range(3))
assert y.data_ptr() - first.data_ptr() == guard.data_ptr() - y.data_ptr() == 102400
side.wait_stream(hpu.current_stream())
with hpu.stream(side):
    made = y * 2
del first, y
{use}
"""
    (report,) = reported(code.format(use="kept = torch.ones(51200, device='hpu')"))
    assert "freed without record_stream(SIDE), and another tensor has its memory" in report
    # After the allocator has joined the two blocks, its first split reuses a block object for other memory.
    elsewhere = "kept = [torch.empty(n * 20000, device='hpu').fill_(1) for n in range(5, 9)]"
    assert reported(code.format(use=elsewhere)) == []


LAZY = """
C.lazy_start(1, 5)
third = hpu.Stream()
def ran():
    C.lazy_flush(False)
    while C.engine_counters()['pending']: pass
def step():
    between = x * 2
    result = between + 1
    return result
for _ in range(3):
    step()
    C.lazy_flush(True)
hpu.synchronize(); C.take_race_reports()
"""


@pytest.mark.parametrize(
    "code",
    [
        # `between` is freed before its graph is launched. Another stream receives the memory of
        # `between` after the launch.
        "kept = step(); ran(); more = x * 7; ran()\n"
        "with hpu.stream(third): others = [x + i for i in range(20)]; ran()\n",
        # `z` is freed before the graph is launched. The memory of `z` belongs to a different stream than
        # the graph.
        "z = x + 3; ran(); side.wait_stream(hpu.current_stream())\n"
        "with hpu.stream(side): kept = z * 2; del z; ran()\n"
        "others = [x + i for i in range(20)]; ran()\n",
    ],
)
def test_memory_that_is_freed_while_lazy_mode_records(reported, code):
    assert reported(LAZY + code) == []


def test_lazy_graphs_are_checked(reported):
    code = "with hpu.stream(side): made = x * 2\nread = made + 1; ran()"
    (report,) = reported(LAZY + code)
    assert "and nothing orders them: the default stream has to wait for SIDE" in report


def test_warning_of_the_check_does_not_prevent_deferral(reported):
    """The engine never defers an operator that warns. The warnings of the check must not prevent deferral."""
    code = """
C.set_queue_all(0)
with hpu.stream(side):
    made = torch.full((1000,), 2.0, device='hpu')
read = made.sub(0.5)
assert len(C.take_race_reports()) == 1
before = C.engine_counters()['learned']
read = made.sub(0.5)
print(C.engine_counters()['learned'] - before)
C.set_queue_all(-1); hpu.synchronize(); C.take_race_reports()
"""
    assert reported(code) == ["0"]
