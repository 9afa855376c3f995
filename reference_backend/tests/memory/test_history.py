"""Test the memory history of the device: its contents, and its use by torch's own tools."""

from __future__ import annotations

import gc
import itertools
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.cuda._memory_viz as viewer
from habana_frameworks.torch import _C

memory = torch.hpu.memory


@pytest.fixture
def record_memory_history() -> Iterator[None]:
    """Record all events while the test runs."""
    gc.collect()
    memory._record_memory_history(stacks="python", clear_history=True)
    yield
    memory._record_memory_history(None)
    memory._attach_out_of_memory_observer(None)


def recorded_events() -> list[dict[str, Any]]:
    return memory._snapshot()["device_traces"][0]


def allocate_tensor() -> torch.Tensor:
    return torch.empty(1000, device="hpu")


@pytest.mark.usefixtures("record_memory_history")
def test_each_allocation_is_recorded_with_its_frame() -> None:
    x = allocate_tensor()
    y = x + 1
    del x
    first, second, *freed, _ = recorded_events()
    assert [event["action"] for event in (first, second, *freed)] == [
        "alloc",
        "alloc",
        "free_requested",
        "free_completed",
    ]
    assert first["frames"][0]["name"] == "allocate_tensor"
    assert first["frames"][0]["filename"] == __file__
    assert second["frames"][0]["name"] == "test_each_allocation_is_recorded_with_its_frame"
    assert first["size"] == second["size"] == 4032
    assert {event["addr"] for event in freed} == {first["addr"]} != {second["addr"]}
    assert second["addr"] == y.data_ptr()


@pytest.mark.usefixtures("record_memory_history")
def test_replaying_the_events_gives_the_statistics() -> None:
    start, live = torch.hpu.memory_allocated(), {}
    live_tensors = []
    for size in range(1, 400, 7):
        live_tensors.append(torch.randn(size, device="hpu").exp())
        if size % 3 == 0:
            live_tensors.pop(0)
    for event in recorded_events():
        if event["action"] == "alloc":
            live[event["addr"]] = event["size"]
        elif event["action"] == "free_completed":
            live.pop(event["addr"], None)
    assert start + sum(live.values()) == torch.hpu.memory_allocated()
    assert len(live) == len(live_tensors)


@pytest.mark.usefixtures("record_memory_history")
def test_segments_list_live_blocks_with_their_frames() -> None:
    live_tensors = [allocate_tensor() for _ in range(3)]
    del live_tensors[1]
    (segment,) = memory._snapshot()["segments"]
    assert segment["allocated_size"] == torch.hpu.memory_allocated()
    assert segment["total_size"] == sum(block["size"] for block in segment["blocks"])
    assert segment["blocks"][0]["address"] == segment["address"]
    for block, following in itertools.pairwise(segment["blocks"]):
        assert block["address"] + block["size"] == following["address"]
    ours = [block for block in segment["blocks"] if block["address"] in {x.data_ptr() for x in live_tensors}]
    assert [block["state"] for block in ours] == ["active_allocated"] * 2
    assert {block["frames"][0]["name"] for block in ours} == {"allocate_tensor"}
    assert segment["blocks"][-1]["state"] != "inactive"


def test_memory_that_queued_work_uses_is_pending() -> None:
    x, side = allocate_tensor(), torch.hpu.Stream()
    address = x.data_ptr()
    with torch.hpu.stream(side):
        gate = _C.Gate()
        gate.enqueue()
    x.record_stream(side)
    del x
    states = {b["address"]: b["state"] for s in memory._snapshot()["segments"] for b in s["blocks"]}
    gate.open()
    torch.hpu.synchronize()
    assert states[address] == "active_pending_free"


@pytest.mark.usefixtures("record_memory_history")
def test_only_the_latest_events_are_kept() -> None:
    memory._record_memory_history(max_entries=4, stacks="python", clear_history=True)
    for _ in range(10):
        allocate_tensor()
    snapshot = memory._snapshot()
    assert len([e for e in snapshot["device_traces"][0] if e["action"] == "alloc"]) <= 2
    assert snapshot["allocator_settings"]["dropped_events"] >= 16


@pytest.mark.usefixtures("record_memory_history")
def test_out_of_memory_is_recorded_and_calls_the_observer() -> None:
    shortages: list[tuple[int, int, int]] = []
    memory._attach_out_of_memory_observer(lambda *figures: shortages.append(figures))
    limit = torch.hpu.memory_stats()["Limit"]
    in_use = torch.hpu.memory_allocated()
    try:
        _C.set_memory_limit(in_use + (1 << 16))
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(1 << 20, dtype=torch.uint8, device="hpu")
    finally:
        _C.set_memory_limit(limit)
    assert shortages == [(1 << 20, in_use, in_use + (1 << 16))]
    (shortage,) = [event for event in recorded_events() if event["action"] == "oom"]
    assert shortage["size"] == 1 << 20
    assert shortage["device_free"] == 1 << 16
    assert shortage["frames"]


@pytest.mark.usefixtures("record_memory_history")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_observer_that_fails_does_not_change_the_error() -> None:
    memory._attach_out_of_memory_observer(lambda *figures: 1 / 0)
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 50, dtype=torch.uint8, device="hpu")


def test_an_observer_may_allocate_on_the_host(output_of: Any) -> None:
    code = """
import torch, habana_frameworks.torch as ht
kept, calls = [], []
def observer(*figures):
    calls.append(figures)
    kept.append(torch.zeros(1 << 22))  # 16 MiB
torch.hpu.memory._attach_out_of_memory_observer(observer)
x = torch.ones(1 << 10, device="hpu")
ht._C.set_memory_limit(torch.hpu.memory_allocated() + (1 << 20))
before = torch.hpu.memory_allocated()
try:
    x.expand(1 << 14, 1 << 10) + 1  # the kernel allocates
except torch.OutOfMemoryError:
    print(len(calls), kept[0].sum().item(), torch.hpu.memory_allocated() == before)
"""
    assert output_of(code) == "1 0.0 True"


def test_out_of_memory_is_dumped_if_requested(run_python: Any, tmp_path: Path) -> None:
    code = """
import torch, habana_frameworks.torch
x = torch.ones(1000, device="hpu")
try:
    torch.empty(1 << 50, device="hpu")
except torch.OutOfMemoryError:
    print("raised")
"""
    folder = tmp_path / "dumps"
    done = run_python(code, HPU_REFERENCE_OOM_SNAPSHOT=str(folder))
    assert done.stdout.strip() == "raised", done.stderr
    (path,) = folder.iterdir()
    assert path.name.startswith("out_of_memory_")
    events = pickle.loads(path.read_bytes())["device_traces"][0]
    assert [event["action"] for event in events] == ["alloc", "oom", "snapshot"]
    assert events[0]["frames"][0]["line"] == 3
    unwritable = run_python(code, HPU_REFERENCE_OOM_SNAPSHOT="/proc/nowhere")
    assert unwritable.stdout.strip() == "raised"
    assert unwritable.stderr.count("RuntimeWarning: the memory snapshot could not be written") == 1


@pytest.mark.usefixtures("record_memory_history")
def test_events_contain_the_metadata_of_the_program() -> None:
    memory._set_memory_metadata("epoch 3")
    x = allocate_tensor()
    memory._set_memory_metadata("")
    y = allocate_tensor()
    assert [event["user_metadata"] for event in recorded_events()[:2]] == ["epoch 3", ""]
    assert memory._get_memory_metadata() == ""
    del x, y


def test_state_alone_keeps_live_blocks_and_no_events() -> None:
    memory._record_memory_history("state", stacks="python")
    x = allocate_tensor()
    snapshot = memory._snapshot()
    memory._record_memory_history(None)
    assert snapshot["device_traces"] == [[]]
    (block,) = [b for s in snapshot["segments"] for b in s["blocks"] if b["address"] == x.data_ptr()]
    assert block["frames"][0]["name"] == "allocate_tensor"


def test_nothing_is_recorded_after_the_end() -> None:
    memory._record_memory_history(clear_history=True)
    memory._record_memory_history(None)
    assert not _C.has_memory_history()
    allocate_tensor()
    assert recorded_events() == []


@pytest.mark.parametrize(
    "wrong", [{"enabled": "some"}, {"context": "free"}, {"stacks": "cpp"}, {"max_entries": 0}], ids=str
)
def test_invalid_argument_raises(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        memory._record_memory_history(**wrong)


@pytest.mark.usefixtures("record_memory_history")
def test_torch_reads_a_snapshot(tmp_path: Path) -> None:
    live_tensors = [torch.randn(100, device="hpu") @ torch.randn(100, device="hpu") for _ in range(5)]
    path = tmp_path / "snapshot.pickle"
    memory._dump_snapshot(path)
    snapshot = pickle.loads(path.read_bytes())
    assert "alloc" in viewer.segsum(snapshot)
    assert "TOTAL MEM" in viewer.trace(snapshot)
    assert "MemoryViz" in viewer.trace_plot(snapshot)
    assert "MemoryViz" in viewer.segment_plot(snapshot)
    for view in (viewer.segments, viewer.memory):
        assert "test_torch_reads_a_snapshot" in view(snapshot, format_flamegraph=str)
    page = tmp_path / "page.html"
    command = [sys.executable, "-m", "torch.cuda._memory_viz", "trace_plot", str(path), "-o", str(page)]
    subprocess.run(command, check=True)
    assert page.stat().st_size > 1000
    assert len(live_tensors) == 5


@pytest.mark.usefixtures("record_memory_history")
def test_torch_accelerator_returns_the_snapshot() -> None:
    x = allocate_tensor()
    assert torch.accelerator.memory._snapshot()["device_traces"][0][0]["addr"] == x.data_ptr()


@pytest.mark.usefixtures("record_memory_history")
def test_queued_work_is_recorded(cache_output_metadata: Any) -> None:
    x = allocate_tensor()
    cache_output_metadata(lambda: x + 1)
    _C.set_queue_all(0)
    try:
        results = [x + 1 for _ in range(20)]
    finally:
        _C.set_queue_all(-1)
    torch.hpu.synchronize()
    allocated = {event["addr"] for event in recorded_events() if event["action"] == "alloc"}
    assert {y.data_ptr() for y in results} <= allocated
