"""Test the logs of several ranks: each rank writes its collectives to its own file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


def all_reduce_once(rank: int, size: int) -> None:
    x = torch.ones(1024, device="hpu")
    dist.all_reduce(x)
    torch.hpu.synchronize()


def test_each_rank_logs_its_collectives_into_its_own_folder(on_ranks: Any, tmp_path: Path) -> None:
    on_ranks(all_reduce_once, HABANA_LOGS=str(tmp_path), LOG_LEVEL_PT_DISTRIBUTED="1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]
    for rank in range(2):
        lines = (tmp_path / str(rank) / "pytorch_log.txt").read_text().splitlines()
        assert all("[PT_DISTRIBUTED][debug]" in line for line in lines)
        assert sum("] hccl ALLREDUCE: stream " in line and ", 4096 bytes" in line for line in lines) == 1
