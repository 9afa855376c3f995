"""The history of device memory, in the format of ``torch.cuda._memory_viz`` and pytorch.org/memory_viz.

The device's memory is reported as one segment, which ends at the last block in use. As torch's viewers
require, each free is two events: ``free_requested`` and ``free_completed``. A block has the state
``active_pending_free`` if its tensor was freed, but pending work still uses the memory. Sizes are in bytes;
block sizes are rounded up to multiples of 64.
"""

from __future__ import annotations

import itertools
import os
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from habana_frameworks.torch import _C

Observer = Callable[[int, int, int], object]


def _record_memory_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int | None = None,
    device: Any = None,
    clear_history: bool = False,
) -> None:
    """Start or stop recording allocations, like ``torch.cuda.memory._record_memory_history``.

    Args:
        enabled: None stops; ``"state"`` records only live blocks; ``"all"`` also records all allocations and
            frees as events.
        context: the records that include a stack: None (no record), ``"state"`` (live blocks), ``"alloc"``
            (allocations), ``"all"``.
        stacks: ``"python"``, or ``"all"`` to include C++ functions.
        max_entries: maximum number of events; older events are dropped. None means no limit.
        device: the device of this process.
        clear_history: remove the events recorded so far.

    Raises:
        ValueError: an argument has another value.
    """
    for name, value, choices in (
        ("enabled", enabled, (None, "state", "all")),
        ("context", context, (None, "state", "alloc", "all")),
        ("stacks", stacks, ("python", "all")),
    ):
        if value not in choices:
            raise ValueError(
                f"{name}={value!r} is not supported. Use one of {', '.join(map(repr, choices))}."
            )
    if max_entries is not None and max_entries < 1:
        raise ValueError(
            f"max_entries={max_entries} is not positive. Use a positive number, or None for no limit."
        )
    _C.set_memory_history(
        blocks=enabled is not None,
        events=enabled == "all",
        allocation_frames=enabled is not None and context is not None,
        free_frames=enabled == "all" and context == "all",
        native_frames=stacks == "all",
        limit=max_entries,
        clear=clear_history,
    )


def _snapshot(device: Any = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """Return the recorded history, in the format of ``torch.cuda.memory._snapshot``.

    The dict has the keys ``segments``, ``device_traces``, ``allocator_settings`` and
    ``external_annotations``.

    Args:
        device: the device of this process.
        augment_with_fx_traces: accepted, not used.
    """
    snapshot = _C.memory_snapshot()
    return {
        "segments": _snapshot_segments(snapshot["blocks"]),
        "device_traces": [[event for row in snapshot["events"] for event in _snapshot_trace_entries(*row)]],
        "allocator_settings": {"expandable_segments": False, "dropped_events": snapshot["dropped"]},
        "external_annotations": [],
    }


def _dump_snapshot(
    filename: str | Path = "dump_snapshot.pickle", augment_with_fx_traces: bool = False
) -> None:
    """Write the result of `_snapshot` to a pickle file, which torch's memory viewers can read.

    Raises:
        OSError: the file cannot be written.
    """
    contents = pickle.dumps(_snapshot(augment_with_fx_traces=augment_with_fx_traces))
    Path(filename).write_bytes(contents)


def _attach_out_of_memory_observer(observer: Observer | None) -> None:
    """Register a function that is called before each out-of-memory error. None removes the function.

    The function receives three sizes in bytes: the requested size, the size in use and the limit. An
    exception in the function is passed to `sys.unraisablehook`. Out-of-memory errors of queued work do not
    call the function.
    """
    _C.set_out_of_memory_observer(observer)


def _change_profiler_count(by: int) -> None:
    """Change the number of running torch profilers that record memory by 1 (start) or -1 (stop)."""
    _C.change_memory_profiler_count(by)


def dump_on_out_of_memory_if_requested() -> None:
    """Dump a memory snapshot at each out-of-memory error, if ``HPU_REFERENCE_OOM_SNAPSHOT`` is set.

    The variable is the folder of the snapshots. This function also starts recording the events that a
    snapshot contains.
    """
    folder = os.environ.get("HPU_REFERENCE_OOM_SNAPSHOT", "")
    if not folder:
        return
    numbers = itertools.count()

    def dump(*figures: int) -> None:
        path = Path(folder) / f"out_of_memory_{os.getpid()}_{next(numbers)}.pickle"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _dump_snapshot(path)
        except OSError as error:
            warnings.warn(
                f"the memory snapshot could not be written to {path} ({error}). Set "
                "HPU_REFERENCE_OOM_SNAPSHOT to a writable folder with free space.",
                RuntimeWarning,
                stacklevel=2,
            )

    _record_memory_history(stacks="python", max_entries=100_000)
    _attach_out_of_memory_observer(dump)


def _set_memory_metadata(metadata: str) -> None:
    """Set a text that all later events contain as ``user_metadata``. An empty string removes the text."""
    _C.set_memory_metadata(metadata)


def _get_memory_metadata() -> str:
    """Return the text that `_set_memory_metadata` has set for later events."""
    return str(_C.memory_metadata())


def _snapshot_segments(blocks: list[tuple[int, int, int, str, list[Any]]]) -> list[dict[str, Any]]:
    last = max((number for number, block in enumerate(blocks) if block[3] != "inactive"), default=-1)
    segment_blocks = blocks[: last + 1]
    if not segment_blocks:
        return []
    allocated = sum(size for _, size, _, state, _ in segment_blocks if state == "active_allocated")
    active = sum(size for _, size, _, state, _ in segment_blocks if state != "inactive")
    return [
        {
            "device": 0,
            "address": segment_blocks[0][0],
            "total_size": sum(size for _, size, *_ in segment_blocks),
            "allocated_size": allocated,
            "active_size": active,
            "requested_size": allocated,
            "stream": 0,
            "segment_type": "large",
            "segment_pool_id": (0, 0),
            "is_expandable": False,
            "frames": [],
            "blocks": [
                {
                    "address": address,
                    "size": size,
                    "requested_size": size,
                    "stream": stream,
                    "state": state,
                    "frames": frames,
                }
                for address, size, stream, state, frames in segment_blocks
            ],
        }
    ]


def _snapshot_trace_entries(
    action: str,
    address: int,
    size: int,
    stream: int,
    microseconds: int,
    available: int,
    metadata: str,
    frames: list[Any],
) -> list[dict[str, Any]]:
    event = {
        "action": action,
        "addr": address,
        "size": size,
        "stream": stream,
        "time_us": microseconds,
        "compile_context": "N/A",
        "user_metadata": metadata,
        "frames": frames,
    }
    if action == "free":
        return [event | {"action": "free_requested"}, event | {"action": "free_completed"}]
    return [event | {"device_free": available}] if action == "oom" else [event]
