"""Test the flight recorder: it records each rank's collectives, and torch's tool reads its dumps."""

from __future__ import annotations

import gc
import os
import pickle
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from habana_frameworks.torch.distributed.hccl import flight_recorder


def run_collectives(rank: int) -> None:
    x = torch.ones(4, 3, device="hpu")
    dist.all_reduce(x)
    gathered = torch.empty(8, 3, device="hpu")
    dist.all_gather_into_tensor(gathered, x)
    if rank == 0:
        dist.send(x, 1)
    else:
        dist.recv(x, 0)
    dist.barrier()
    torch.hpu.synchronize()


def check_flight_recorder_entries(rank: int, size: int) -> None:
    run_collectives(rank)
    record = flight_recorder.flight_record()
    entries = record["entries"]
    message = "hccl:send 0->1" if rank == 0 else "hccl:recv 1<-0"
    assert [entry["profiling_name"] for entry in entries] == [
        "hccl:all_reduce",
        "hccl:_all_gather_base",
        message,
        "hccl:all_reduce_barrier",
    ]
    assert {entry["state"] for entry in entries} == {"completed"}
    assert entries[0]["input_sizes"] == entries[0]["output_sizes"] == [[4, 3]]
    assert entries[1]["input_sizes"] == [[4, 3]]
    assert entries[1]["output_sizes"] == [[8, 3]]
    assert entries[0]["input_dtypes"] == ["Float"]
    assert [entry["collective_seq_id"] for entry in entries] == [1, 2, 2, 3]
    assert [entry["is_p2p"] for entry in entries] == [False, False, True, False]
    assert "run_collectives" in [frame["name"] for frame in entries[0]["frames"]]
    for entry in entries:
        assert (
            entry["time_created_ns"]
            <= entry["time_discovered_started_ns"]
            <= entry["time_discovered_completed_ns"]
        )
    (group,) = record["pg_config"].values()
    assert group["ranks"] == "[0, 1]"
    assert record["pg_status"][group["name"]]["last_completed_collective"] == "3"
    assert entries[0]["process_group"][0] == group["name"]


def test_each_rank_records_its_collectives(on_ranks: Any) -> None:
    on_ranks(check_flight_recorder_entries)


def dump_flight_recorder(rank: int, size: int) -> None:
    run_collectives(rank)
    folder = os.environ["FOLDER"]
    assert flight_recorder.dump(f"{folder}/trace_") == Path(f"{folder}/trace_{rank}")


@pytest.mark.nightly("starts ranks; torch defines the format")
def test_torch_reads_the_dumps(on_ranks: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from torch.distributed.flight_recorder import fr_trace

    on_ranks(dump_flight_recorder, FOLDER=str(tmp_path))
    out = tmp_path / "out" / "db.pickle"
    out.parent.mkdir()
    try:
        fr_trace.main([str(tmp_path), "--prefix", "trace_", "-o", str(out)])
    finally:
        gc.enable()  # fr_trace has disabled garbage collection
    _, database = pickle.loads(out.read_bytes())
    assert [(collective.pass_check, collective.missing_ranks) for collective in database.collectives] == [
        (True, None)
    ] * 4


def let_rank_1_miss_a_collective(rank: int, size: int) -> None:
    group = dist.new_group(timeout=timedelta(seconds=2))
    x = torch.ones(4, device="hpu")
    dist.all_reduce(x, group=group)
    torch.hpu.synchronize()
    if rank == 0:
        with pytest.raises(dist.DistBackendError):
            dist.all_reduce(x, group=group)
            torch.hpu.synchronize()
    else:
        time.sleep(4)
    end = time.monotonic() + 10
    while rank == 0 and not Path(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + "0").exists():
        assert time.monotonic() < end, "the flight recorder wrote no dump within 10 s"
        time.sleep(0.1)


@pytest.mark.nightly("waits until ranks time out", every=2)
@pytest.mark.parametrize("meets", ["0", "1"])
def test_a_collective_that_one_rank_misses_is_dumped(on_ranks: Any, tmp_path: Path, meets: str) -> None:
    variables = {"TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "trace_"), "PT_HPU_USE_PT_STORE_SYNC": meets}
    on_ranks(let_rank_1_miss_a_collective, TORCH_FR_DUMP_ON_TIMEOUT="1", **variables)
    entries = pickle.loads((tmp_path / "trace_0").read_bytes())["entries"]
    assert [entry["state"] for entry in entries] == ["completed", "started"]
    assert not (tmp_path / "trace_1").exists()


def test_the_record_is_bounded_and_can_be_switched_off(output_of: Any) -> None:
    code = """
import torch, habana_frameworks.torch, torch.distributed as dist
from habana_frameworks.torch.distributed.hccl import flight_recorder
dist.init_process_group("hccl", rank=0, world_size=1, store=dist.HashStore())
x = torch.ones(3, device="hpu")
for _ in range(10):
    dist.all_reduce(x)
torch.hpu.synchronize()
print([entry["collective_seq_id"] for entry in flight_recorder.flight_record()["entries"]])
"""
    assert output_of(code, TORCH_FR_BUFFER_SIZE="3") == "[8, 9, 10]"
    assert output_of(code, TORCH_FR_BUFFER_SIZE="0") == "[]"


def test_a_dump_needs_a_group(output_of: Any) -> None:
    code = """
import torch, habana_frameworks.torch
from habana_frameworks.torch.distributed.hccl import flight_recorder
try:
    flight_recorder.dump()
except RuntimeError as error:
    print(error)
"""
    assert "no process group exists" in output_of(code)


@pytest.mark.nightly("starts ranks with the slow checks of torch")
def test_collectives_under_detailed_checks(on_ranks: Any) -> None:
    on_ranks(check_mismatch_is_detected, TORCH_DISTRIBUTED_DEBUG="DETAIL")


def check_mismatch_is_detected(rank: int, size: int) -> None:
    run_collectives(rank)
    if rank == 0:
        with pytest.raises(RuntimeError, match="mismatch"):
            dist.all_reduce(torch.ones(3, device="hpu"))
    else:
        with pytest.raises(RuntimeError, match="mismatch"):
            dist.all_reduce(torch.ones(4, device="hpu"))
