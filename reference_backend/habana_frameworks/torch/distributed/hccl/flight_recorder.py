"""The flight recorder of hccl: the latest collectives of each rank, in the format of ``torchfrtrace``.

Each process records its latest collectives with sizes, dtypes, state, times and the Python stack.
``TORCH_FR_BUFFER_SIZE`` is the number of recorded collectives (default 2000; 0 disables the recorder). `dump`
writes the record to a file whose name is a prefix followed by the rank.
With ``TORCH_FR_DUMP_ON_TIMEOUT=1`` (older name ``TORCH_NCCL_DUMP_ON_TIMEOUT``), a process writes the file
once, after a collective has failed. The prefix is ``TORCH_FR_DUMP_TEMP_FILE`` (older name
``TORCH_NCCL_DEBUG_INFO_TEMP_FILE``), by default ``hccl_trace_rank_`` in the folder for temporary files.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import tempfile
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from habana_frameworks.torch import _C

import torch.distributed as dist
from torch.distributed import distributed_c10d

#: Version of the flight recorder format that torch's tools read.
VERSION = "2.10"
#: Seconds between two checks for failed collectives.
PERIOD = 0.2

_NAMES = {
    "BROADCAST": "broadcast",
    "ALLREDUCE": "all_reduce",
    "ALLREDUCE_COALESCED": "allreduce_coalesced",
    "REDUCE": "reduce",
    "ALLGATHER": "all_gather",
    "_ALLGATHER_BASE": "_all_gather_base",
    "ALLGATHER_COALESCED": "ALLGATHER_coalesced",
    "GATHER": "gather",
    "SCATTER": "scatter",
    "REDUCE_SCATTER": "reduce_scatter",
    "_REDUCE_SCATTER_BASE": "_reduce_scatter_base",
    "ALLTOALL": "all_to_all",
    "ALLTOALL_BASE": "all_to_all",
    "BARRIER": "all_reduce_barrier",
    "COALESCED": "coalesced",
}


@dataclass(frozen=True)
class _RankAndGroups:
    """Rank and groups of this process, kept for a record that is written after the groups are destroyed."""

    rank: int
    groups: dict[str, dict[str, str]]


def flight_record() -> dict[str, Any]:
    """Return the flight record of this process: recorded collectives, groups and states of the groups."""
    return _flight_record_with_groups(_group_configs())


def _flight_record_with_groups(groups: dict[str, dict[str, str]]) -> dict[str, Any]:
    rows = _C.recorded_collectives()
    return {
        "version": VERSION,
        "entries": [_flight_record_entry(row) for row in rows],
        "pg_config": groups,
        "pg_status": _group_states(rows),
        "comm_lib_version": "hccl reference",
    }


def dump(prefix: str | None = None) -> Path:
    """Write the flight record of this process to a file.

    Args:
        prefix: prefix of the file's path, to which the rank is appended; None for the default prefix.

    Returns:
        The path of the file.

    Raises:
        OSError: the file cannot be written.
        RuntimeError: no process group exists, so the rank is unknown.
    """
    if not dist.is_initialized():
        raise RuntimeError("no process group exists. Initialise a process group first.")
    return _write_record(_current_rank_and_groups(), prefix)


def _current_rank_and_groups() -> _RankAndGroups:
    return _RankAndGroups(dist.get_rank(), _group_configs())


def _write_record(world: _RankAndGroups, prefix: str | None = None) -> Path:
    path = Path(f"{prefix or _path_prefix()}{world.rank}")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    unfinished.write_bytes(pickle.dumps(_flight_record_with_groups(world.groups)))
    unfinished.replace(path)
    return path


def watch_if_requested() -> None:
    """Start checking for failed collectives if the environment requests a dump on failure."""
    if not any(
        _is_variable_true(name) for name in ("TORCH_FR_DUMP_ON_TIMEOUT", "TORCH_NCCL_DUMP_ON_TIMEOUT")
    ):
        return
    global _watcher
    if _watcher is None or not _watcher.is_alive():
        _watcher = _Watcher()
        _watcher.start()
        atexit.register(_watcher.dump_if_failed)


class _Watcher(threading.Thread):
    """Thread that writes the flight record of this process once, soon after a collective has failed."""

    def __init__(self) -> None:
        super().__init__(name="hccl-flight-recorder", daemon=True)
        self._lock = threading.Lock()
        self._done = False
        self._before = _C.failed_collectives()
        self._world: _RankAndGroups | None = None

    def run(self) -> None:
        pause = threading.Event()
        while not self._done:
            pause.wait(PERIOD)
            self.dump_if_failed()

    def dump_if_failed(self) -> None:
        """Write the flight record if a collective has failed, even if the groups are already destroyed."""
        with self._lock:
            with contextlib.suppress(RuntimeError, ValueError, KeyError):
                if dist.is_initialized():
                    self._world = _current_rank_and_groups()
            if self._done or self._world is None or _C.failed_collectives() == self._before:
                return
            self._done = True
            try:
                _write_record(self._world)
            except OSError as error:
                warnings.warn(
                    f"the flight record could not be written to {_path_prefix()}{self._world.rank} "
                    f"({error}). Set TORCH_FR_DUMP_TEMP_FILE to a prefix in a writable folder with free "
                    "space.",
                    RuntimeWarning,
                    stacklevel=1,
                )


_watcher: _Watcher | None = None


def _is_variable_true(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("1", "true", "yes", "y", "on", "t")


def _path_prefix() -> str:
    for name in ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"):
        if os.environ.get(name):
            return os.environ[name]
    return str(Path(tempfile.gettempdir()) / "hccl_trace_rank_")


def _flight_record_entry(row: Mapping[str, Any]) -> dict[str, Any]:
    done, begun = row["completed"], row["started"]
    return {
        "frames": row["frames"],
        "record_id": row["id"],
        "pg_id": 0,
        "process_group": (row["group"], row["description"] or "undefined"),
        "collective_seq_id": row["sequence"],
        "p2p_seq_id": row["message"],
        "op_id": row["id"] + 1,
        "profiling_name": f"hccl:{_operation_text(row)}",
        "time_created_ns": row["created"],
        "time_discovered_started_ns": begun or None,
        "time_discovered_completed_ns": done or None,
        "duration_ms": (done - begun) / 1e6 if done and begun else None,
        "input_sizes": row["input_sizes"],
        "input_dtypes": row["input_dtypes"],
        "output_sizes": row["output_sizes"],
        "output_dtypes": row["output_dtypes"],
        # A failed collective must not be reported as completed, although its transfer is done.
        "state": "completed" if done and not row["failed"] else "started" if begun else "scheduled",
        "timeout_ms": row["timeout_ms"],
        "is_p2p": row["peer"] is not None,
        "retired": bool(done),
    }


def _operation_text(row: Mapping[str, Any]) -> str:
    operation: str = row["operation"]
    if operation == "SEND":
        return f"send {row['rank']}->{row['peer']}"
    if operation == "RECV":
        return f"recv {row['rank']}<-{row['peer']}"
    return _NAMES.get(operation, operation.lower())


def _group_configs() -> dict[str, dict[str, str]]:
    groups: dict[str, dict[str, str]] = {}
    for group in distributed_c10d._world.pg_map if dist.is_initialized() else ():
        name = group.group_name
        ranks = dist.get_process_group_ranks(group)
        groups[name] = {"name": name, "desc": group.group_desc or "undefined", "ranks": str(ranks)}
    return groups


def _group_states(rows: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    states: dict[str, dict[str, str]] = {}
    for row in rows:
        state = states.setdefault(
            row["group"],
            {
                "last_enqueued_collective": "-1",
                "last_started_collective": "-1",
                "last_completed_collective": "-1",
            },
        )
        state["last_enqueued_collective"] = str(row["sequence"])
        if row["started"]:
            state["last_started_collective"] = str(row["sequence"])
        if row["completed"] and not row["failed"]:
            state["last_completed_collective"] = str(row["sequence"])
    return states
