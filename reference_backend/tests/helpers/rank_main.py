"""Run one rank: join a process group, and call a function of a test file.

    python -m helpers.rank_main FILE FUNCTION RANK SIZE MEETING [TIMEOUT]

The ranks find each other through the file MEETING, so no fixed port is needed. The arguments of the function
are the rank and the world size.
"""

from __future__ import annotations

import datetime
import importlib.util
import sys

import habana_frameworks.torch  # noqa: F401
import torch.distributed as dist


def wait_for_ranks(path: str, size: int) -> None:
    """Wait until all ranks have joined the group.

    Otherwise a rank may leave while another rank still connects to it. gloo reports this to the connecting
    rank as a crash.
    """
    store = dist.FileStore(path, size)
    if store.add("joined", 1) == size:
        store.set("complete", "1")
    store.wait(["complete"])


def main(path: str, name: str, rank: str, size: str, rendezvous_file: str, timeout: str = "60") -> None:
    """Join the process group, call the function, leave the group."""
    spec = importlib.util.spec_from_file_location("ranks_of_a_test", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    dist.init_process_group(
        "hccl",
        init_method=f"file://{rendezvous_file}",
        rank=int(rank),
        world_size=int(size),
        timeout=datetime.timedelta(seconds=float(timeout)),
    )
    wait_for_ranks(f"{rendezvous_file}-joined", int(size))
    getattr(module, name)(int(rank), int(size))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
