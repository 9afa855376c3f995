"""Run a compiled training step of two ranks under all profilers. Torch's tools must read all files."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from habana_frameworks.torch.distributed.hccl import flight_recorder
from helpers import perfetto
from torch.profiler import ProfilerActivity, profile, tensorboard_trace_handler


def train_under_profilers(rank: int, size: int) -> None:
    folder = Path(os.environ["FOLDER"])
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True).to("hpu")
    model = torch.nn.parallel.DistributedDataParallel(torch.compile(layer, backend="hpu_backend"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(4, 16, 32, device="hpu")

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        torch.hpu.synchronize()

    step(), step()
    torch.hpu.memory._record_memory_history(max_entries=100_000)
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.HPU],
        record_shapes=True,
        profile_memory=True,
        with_stack=True,
        on_trace_ready=tensorboard_trace_handler(str(folder / "tensorboard"), worker_name=f"rank{rank}"),
    ) as recorded:
        step()
    assert "Self HPU time total" in recorded.key_averages().table(sort_by="self_device_time_total")
    torch.hpu.memory._dump_snapshot(folder / f"memory{rank}.pickle")
    flight_recorder.dump(str(folder / "flight" / "trace_"))
    dist.barrier()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("observed")


@pytest.fixture
def observed(on_ranks: Any, folder: Path) -> Path:
    """Return the folder with the files that the profilers wrote about one training step.

    The first test that requests this fixture runs the step.
    """
    if not (folder / "flight").exists():
        on_ranks(train_under_profilers, FOLDER=str(folder), kill_after=180)
    return folder


@pytest.mark.nightly("profiles a training step on two ranks")
def test_the_trace_has_recipes_kernels_collectives_and_streams(observed: Path) -> None:
    for rank in range(2):
        (path,) = (observed / "tensorboard").glob(f"rank{rank}.*.json")
        events = json.loads(path.read_text())["traceEvents"]
        rows = [event for event in events if event.get("cat") == "hpu_op"]
        kinds = Counter(row["args"]["kind"] for row in rows)
        assert kinds["recipe"] == 2  # one recipe for the forward pass and one for the backward pass
        assert kinds["collective"] == 1
        assert any(row["name"].startswith("cpp_fused_") for row in rows)
        assert len({row["tid"] for row in rows}) >= 2
        assert {event["ph"] for event in events} <= set("XMisftbneC")
        assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")


@pytest.mark.nightly("profiles a training step on two ranks")
def test_torch_memory_viewer_reads_the_snapshots(observed: Path) -> None:
    import torch.cuda._memory_viz as viewer

    snapshot = pickle.loads((observed / "memory1.pickle").read_bytes())
    assert "total_allocated" in viewer.segsum(snapshot)
    assert "TOTAL MEM" in viewer.trace(snapshot)
    assert viewer.trace_plot(snapshot)
    assert viewer.memory(snapshot, format_flamegraph=str)


@pytest.mark.nightly("profiles a training step on two ranks")
def test_torch_flight_recorder_tool_reads_the_records(observed: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", str(observed / "flight")]
    done = subprocess.run([*command, "--prefix", "trace_"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.nightly("profiles a training step on two ranks")
def test_tensorboard_plugin_reads_the_traces(observed: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch_tb_profiler", reason="torch-tb-profiler is not installed.")
    program = tmp_path / "load.py"
    program.write_text(
        "import sys\n"
        "from torch_tb_profiler.io.cache import Cache\n"
        "from torch_tb_profiler.profiler.loader import RunLoader\n"
        "if __name__ == '__main__':\n"
        "    run = RunLoader('observed', sys.argv[1], Cache()).load()\n"
        "    for profile in run.profiles.values():\n"
        "        print(profile.worker, len(profile.views))\n"
    )
    command = [sys.executable, str(program), str(observed / "tensorboard")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sorted(line.split()[0] for line in done.stdout.splitlines()) == ["rank0", "rank1"]


@pytest.mark.skipif(
    perfetto.name_of_missing_program() is not None, reason=f"{perfetto.name_of_missing_program()} is missing"
)
@pytest.mark.nightly("profiles a training step on two ranks")
def test_perfetto_reads_the_traces(observed: Path, tmp_path: Path) -> None:
    for path in sorted((observed / "tensorboard").iterdir()):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        unpacked_file = tmp_path / path.name.removesuffix(".gz")
        unpacked_file.write_bytes(data)
        events = [event for event in json.loads(data)["traceEvents"] if event["ph"] == "X"]
        slice_counts = perfetto.count_slices(unpacked_file)
        # Torch rounds the ends of Python frames on any device, so some frames seem to overlap by a
        # nanosecond.
        rounded = "error: slice_drop_overlapping_complete_event"
        assert not [name for name in slice_counts if name.startswith("error") and name != rounded], (
            slice_counts
        )
        assert slice_counts["hpu_op"] == sum(event.get("cat") == "hpu_op" for event in events) > 0
