"""Test `torch.profiler` on the device: its rows show the work of the device and link to host calls."""

from __future__ import annotations

import itertools
import json
import threading
import time
from pathlib import Path
from typing import Any

import habana_frameworks.torch as ht
import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, schedule

BOTH = [ProfilerActivity.CPU, ProfilerActivity.HPU]


def device_rows(recorded: profile, name: str = "") -> list[Any]:
    """Return the device events whose name starts with `name`."""
    return [
        event
        for event in recorded.events()
        if event.device_type == DeviceType.HPU and event.name.startswith(name)
    ]


def record_profile(program: Any, **options: Any) -> profile:
    with profile(activities=BOTH, **options) as recorded:
        program()
        torch.hpu.synchronize()
    return recorded


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(32, 32, device="hpu")


def test_each_operator_has_one_row_that_is_linked_to_it(x: torch.Tensor) -> None:
    recorded = record_profile(lambda: torch.softmax(x @ x, 1).topk(3))
    hosts = {event.id: event.name for event in recorded.events() if event.device_type == DeviceType.CPU}
    assert [(row.name, hosts[row.linked_correlation_id]) for row in device_rows(recorded)] == [
        ("aten::mm", "aten::mm"),
        ("aten::_softmax", "aten::_softmax"),
        ("aten::topk", "aten::topk"),
    ]


def test_a_row_lies_within_its_operator_when_nothing_is_queued(x: torch.Tensor) -> None:
    recorded = record_profile(lambda: [x @ x for _ in range(50)])
    hosts = {event.id: event.time_range for event in recorded.events() if event.device_type == DeviceType.CPU}
    for row in device_rows(recorded):
        host = hosts[row.linked_correlation_id]
        # Host times and device times come from two clocks, which are read some microseconds apart.
        assert host.start - 5 <= row.time_range.start <= row.time_range.end <= host.end + 5
    assert len(device_rows(recorded)) == 50


def test_operator_times_are_the_sums_of_their_rows(x: torch.Tensor) -> None:
    recorded = record_profile(lambda: [x @ x for _ in range(5)])
    mm = next(
        row for row in recorded.key_averages() if row.key == "aten::mm" and row.device_type == DeviceType.CPU
    )
    total = sum(row.time_range.elapsed_us() for row in device_rows(recorded))
    assert mm.self_device_time_total == pytest.approx(total)
    assert mm.count == 5
    table = recorded.key_averages().table(sort_by="self_device_time_total")
    assert "Self HPU time total" in table
    assert "100.00%" in table


def test_queued_work_is_linked_to_its_issuer_and_lies_on_its_stream(
    x: torch.Tensor, cache_output_metadata: Any
) -> None:
    side = torch.hpu.Stream()

    def program() -> None:
        with torch.hpu.stream(side):
            ht._C.enqueue_delay(0.01)
            torch.sin(x)
            event = torch.hpu.Event()
            event.record()
        event.wait()
        torch.cos(x)

    program()
    torch.hpu.synchronize()
    recorded = record_profile(program)
    hosts = {event.id: event.name for event in recorded.events() if event.device_type == DeviceType.CPU}
    sine, cosine = device_rows(recorded, "aten::sin")[0], device_rows(recorded, "aten::cos")[0]
    assert hosts[sine.linked_correlation_id] == "aten::sin"
    assert sine.device_resource_id != 0
    assert cosine.device_resource_id == 0
    waits = [row for row in device_rows(recorded) if row.name == "a wait for an event"]
    assert [row.device_resource_id for row in waits] == [0]
    assert waits[0].time_range.end <= cosine.time_range.start
    assert waits[0].time_range.elapsed_us() > 1000
    assert sine.device_resource_id in [row.device_resource_id for row in device_rows(recorded, "an event")]


def test_rows_of_one_stream_do_not_overlap(x: torch.Tensor) -> None:
    streams = [torch.hpu.default_stream(), torch.hpu.Stream(), torch.hpu.Stream()]

    def program() -> None:
        for stream in streams * 20:
            with torch.hpu.stream(stream):
                ht._C.enqueue_delay(0.0001)
                torch.exp(x)

    program()
    recorded = record_profile(program)
    for stream in {row.device_resource_id for row in device_rows(recorded)}:
        spans = sorted(
            (row.time_range.start, row.time_range.end)
            for row in device_rows(recorded)
            if row.device_resource_id == stream
        )
        for (_, end), (start, _) in itertools.pairwise(spans):
            assert start >= end - 0.001


def test_copy_rows_name_direction_and_bytes(tmp_path: Path) -> None:
    host = torch.ones(1000)

    def program() -> None:
        device = host.to("hpu")
        device.clone().cpu()

    recorded = record_profile(program)
    assert [row.name for row in device_rows(recorded)] == [
        "aten::copy_ (host to device)",
        "aten::copy_ (device to device)",
        "aten::copy_ (device to host)",
    ]
    recorded.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["args"]["bytes"] for event in events if event.get("cat") == "hpu_op"} == {4000}


def test_a_trace_of_chrome_names_device_and_streams(x: torch.Tensor, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    record_profile(lambda: x + x).export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    (row,) = [event for event in events if event.get("cat") == "hpu_op"]
    assert row["name"] == "aten::add.Tensor"
    assert row["args"]["kind"] == "kernel"
    assert row["args"]["bytes"] == 3 * x.nbytes
    names = {
        event["name"]: event["args"] for event in events if event["ph"] == "M" and event["pid"] == row["pid"]
    }
    assert names["process_name"] == {"name": "hpu"}
    assert names["thread_name"] == {"name": "default stream"}


def test_memory_is_charged_to_operators_and_adds_up_to_the_statistics() -> None:
    before = torch.hpu.memory_allocated()
    live_tensors = []

    def program() -> None:
        x = torch.ones(1000, device="hpu")
        live_tensors.append(x + 1)
        live_tensors.append(torch.empty(10, device="hpu"))

    recorded = record_profile(program, profile_memory=True)
    events = recorded.events()
    add = next(event for event in events if event.name == "aten::add")
    assert add.self_device_memory_usage == 4032  # 4000 bytes, rounded up to a multiple of 64
    total = sum(event.self_device_memory_usage for event in events)
    assert total == torch.hpu.memory_allocated() - before == 4032 + 64


def test_a_schedule_records_only_its_active_steps(x: torch.Tensor) -> None:
    row_counts = []
    with profile(
        activities=BOTH,
        schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda recorded: row_counts.append(len(device_rows(recorded, "aten::mm"))),
    ) as recorded:
        for _ in range(6):
            x @ x
            recorded.step()
    assert row_counts == [2]


def test_nothing_is_recorded_before_or_after(x: torch.Tensor) -> None:
    x @ x
    recorded = record_profile(lambda: torch.tanh(x))
    assert not ht._C.is_tracing()
    x @ x
    assert [row.name for row in device_rows(recorded)] == ["aten::tanh"]
    with profile(activities=[ProfilerActivity.CPU]) as host:
        x @ x
        assert not ht._C.is_tracing()
    assert device_rows(host) == []


def test_an_exception_ends_the_profile(x: torch.Tensor) -> None:
    with pytest.raises(ZeroDivisionError), profile(activities=BOTH):
        x @ x
        raise ZeroDivisionError
    assert not ht._C.is_tracing()
    assert [row.name for row in device_rows(record_profile(lambda: x + 1))] == ["aten::add.Tensor"]


def test_the_legacy_profiler_accepts_the_device(x: torch.Tensor) -> None:
    with torch.autograd.profiler.profile(use_device="hpu") as recorded:
        x @ x
    assert [event.name for event in recorded.function_events if event.device_type == DeviceType.HPU] == [
        "aten::mm"
    ]


def test_other_threads_have_rows_too(x: torch.Tensor) -> None:
    def program() -> None:
        threads = [threading.Thread(target=lambda: [torch.erf(x) for _ in range(100)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(device_rows(record_profile(program), "aten::erf")) == 400


def test_a_backward_pass_has_rows(x: torch.Tensor) -> None:
    w = torch.randn(32, 32, device="hpu", requires_grad=True)
    recorded = record_profile(lambda: (x @ w).sum().backward())
    assert len(device_rows(recorded, "aten::mm")) == 2


def test_a_replay_is_a_recipe_with_its_operators(x: torch.Tensor) -> None:
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        y = torch.sin(x) @ x
    recorded = record_profile(graph.replay)
    recipe, *kernels = sorted(
        device_rows(recorded), key=lambda row: (row.time_range.start, -row.time_range.end)
    )
    assert recipe.name == "a graph of 2 operators"
    assert [row.name for row in kernels] == ["aten::sin", "aten::mm"]
    assert all(
        recipe.time_range.start <= row.time_range.start <= row.time_range.end <= recipe.time_range.end
        for row in kernels
    )
    assert y.shape == (32, 32)


def test_a_compiled_function_is_a_recipe_with_its_kernels(x: torch.Tensor) -> None:
    compiled = torch.compile(lambda x: torch.sin(x @ x) + 1, backend="hpu_backend")
    compiled(x), compiled(x)
    recorded = record_profile(lambda: compiled(x))
    names = [row.name for row in sorted(device_rows(recorded), key=lambda row: row.time_range.start)]
    assert names[0].startswith(("a compiled function of ", "compiled code"))
    assert any(name.startswith("cpp_fused_") for name in names[1:]), names
    assert any("mm" in name for name in names[1:]), names


def test_keywords_of_the_bridge_are_accepted(x: torch.Tensor) -> None:
    from habana_frameworks.torch.activity_profiler import DebugActivity

    with profile(activities=BOTH, debug_activities=[DebugActivity.BRIDGE_FUNCTION_CALLS]) as recorded:
        x @ x
    assert len(device_rows(recorded)) == 1
    with pytest.raises(TypeError, match="DebugActivity"):
        profile(debug_activities=["BRIDGE_FUNCTION_CALLS"])


def test_disabled_profile_warns_and_raises(run_python: Any) -> None:
    code = """
import torch, habana_frameworks.torch
from torch.profiler import profile, ProfilerActivity
with profile() as found:
    torch.ones(3, device="hpu") + 1
print([event.name for event in found.events() if event.device_type == torch.autograd.DeviceType.HPU])
try:
    profile(activities=[ProfilerActivity.HPU]).start()
except RuntimeError as error:
    print(error)
"""
    done = run_python(code, HABANA_PROFILE="0")
    output_lines = done.stdout.splitlines()
    assert output_lines[0] == "[]"
    assert "HABANA_PROFILE=0" in output_lines[1]
    assert "HABANA_PROFILE=0 disables the profile of the hpu device" in done.stderr


def test_lazy_graphs_are_recipes(output_of: Any) -> None:
    code = """
import torch, habana_frameworks.torch as ht
from torch.profiler import profile, ProfilerActivity as A
ht._C.lazy_start(1, 0)
x = torch.randn(8, 8, device="hpu")
def step():
    y = torch.sin(x) @ x
    ht.core.mark_step()
    torch.hpu.synchronize()
for _ in range(4):
    step()
with profile(activities=[A.CPU, A.HPU]) as found:
    step()
rows = [event for event in found.events() if event.device_type == torch.autograd.DeviceType.HPU]
for row in sorted(rows, key=lambda row: (row.time_range.start, -row.time_range.end)):
    print(row.name)
"""
    assert output_of(code).splitlines() == ["a graph of 2 operators", "aten::sin", "aten::mm"]


def test_a_forked_child_records_nothing_and_its_parent_continues(output_of: Any) -> None:
    code = """
import os, torch, habana_frameworks.torch as ht
from torch.profiler import profile, ProfilerActivity as A
x = torch.ones(3, device="hpu")
with profile(activities=[A.CPU, A.HPU]) as found:
    x + 1
    child = os.fork()
    if child == 0:
        os._exit(int(ht._C.is_tracing()))
    print(os.waitpid(child, 0)[1])
    x + 1
print(len([event for event in found.events() if event.device_type == torch.autograd.DeviceType.HPU]))
"""
    assert output_of(code).split() == ["0", "2"]


def test_the_number_of_rows_is_bounded_and_the_rest_counted(output_of: Any) -> None:
    code = """
import torch, habana_frameworks.torch as ht
ht._C.set_trace_limit(100)
x = torch.ones(3, device="hpu")
recording = ht._C.TraceRecording()
for _ in range(130):
    x + 1
rows, dropped = recording.end()
print(len(rows), dropped, recording.end())
x + 1
again = ht._C.TraceRecording()
x + 1
print(len(again.end()[0]))
"""
    assert output_of(code).splitlines() == ["100 30 ([], 0)", "1"]


def test_recordings_may_overlap(x: torch.Tensor) -> None:
    first = ht._C.TraceRecording()
    x + 1
    second = ht._C.TraceRecording()
    x * 2
    names = [row[1] for row in first.end()[0]]
    assert ht._C.is_tracing()
    x - 3
    assert names == ["aten::add.Tensor", "aten::mul.Tensor"]
    assert [row[1] for row in second.end()[0]] == ["aten::mul.Tensor", "aten::sub.Tensor"]
    assert not ht._C.is_tracing()


def test_a_profile_that_ends_within_a_range_does_not_affect_the_next(x: torch.Tensor) -> None:
    first = profile(activities=BOTH)
    with torch.profiler.record_function("range"):
        first.start()
        with torch.profiler.record_function("inner"):
            first.stop()
    recording = ht._C.TraceRecording()
    x + 1
    assert [row[5] for row in recording.end()[0]] == [0]


def test_a_long_recording_takes_no_rows_from_a_profile_inside(output_of: Any) -> None:
    code = """
import torch, habana_frameworks.torch as ht
from torch.profiler import profile, ProfilerActivity as A
ht._C.set_trace_limit(5)
x = torch.ones(3, device="hpu")
whole = ht._C.TraceRecording()
for _ in range(10):
    x + 1
for count in (3, 8):
    with profile(activities=[A.CPU, A.HPU]) as found:
        for _ in range(count):
            x * 2
    rows = [event for event in found.events() if event.device_type == torch.autograd.DeviceType.HPU]
    print([row.name for row in rows].count("aten::mul.Tensor"), "dropped rows" in [row.name for row in rows])
"""
    assert output_of(code).splitlines() == ["3 False", "5 True"]


def test_a_wait_from_before_the_profile_lasts_from_its_begin() -> None:
    gate = ht._C.Gate()
    gate.enqueue()
    recording = ht._C.TraceRecording()
    time.sleep(0.05)
    gate.open()
    torch.hpu.synchronize()
    (row,) = [row for row in recording.end()[0] if row[0] == "wait"]
    assert 40e6 < row[4] - row[3] < 10e9


def test_a_recording_does_not_change_host_profiles(x: torch.Tensor) -> None:
    compiled = torch.compile(lambda x: torch.mm(x, x) + 2, backend="hpu_backend")
    compiled(x), compiled(x)
    recording = ht._C.TraceRecording()
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        compiled(x)
    recording.end()
    assert any(event.name in ("aten::mm", "aten::addmm") for event in recorded.events())
