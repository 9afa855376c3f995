"""Check snapshots of the device's memory history.

The requirements come from torch's page "Understanding CUDA Memory Usage"
(https://docs.pytorch.org/docs/stable/torch_cuda_memory.html): a snapshot lists each allocation and free with
its stack, and the segments with their current blocks.
"""

from __future__ import annotations

from typing import Any

import torch

from conformance.device import api as device_api
from conformance.device.api import DeviceApi
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.device._device_checks import (
    dtypes_function_for_part,
    run_and_record_error,
    without_garbage_collection,
)
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_FREED = ("free_completed", "free")


def _allocate_in_named_function(api: DeviceApi, size: int) -> torch.Tensor:
    return api.allocate_elements(size)


def _record_allocations(
    api: DeviceApi, sizes: tuple[int, ...]
) -> tuple[list[torch.Tensor], dict[str, Any], int]:
    """Record the memory history while two blocks of each size are allocated and one of them is freed.

    Returns:
        The remaining tensors, the snapshot of the history, and the change of the allocated bytes.
    """
    history = api.memory_history()
    with without_garbage_collection():
        api.synchronize()
        before = api.allocated_bytes()
        history.start()
        try:
            retained = [_allocate_in_named_function(api, size) for size in sizes for _ in range(2)]
            del retained[::2]
            api.synchronize()
            snapshot = history.snapshot()
        finally:
            history.stop()
        return retained, snapshot, api.allocated_bytes() - before


@register(
    "memory_events",
    subject_kind="device",
    statement=(
        "A recorded history contains each allocation with its address, its size and the Python stack that "
        "made it, and each free. Replaying the history gives the memory statistics."
    ),
    documentation="torch_cuda_memory.html",
    basis="consistency",
    ground="The recorded history must agree with the device's tensors and statistics; the page is about CUDA",
    level="full",
    applies=dtypes_function_for_part("Memory"),
    capabilities=("memory_history", "memory_statistics"),
    modes=("eager",),
)
def check_history_events(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compare the recorded allocations and frees with the tensors and the memory statistics."""
    api = device_api.device_api(target)
    outcome = run_and_record_error(
        target, recorder, "recording allocations", lambda: _record_allocations(api, (1000, 3000, 70_000))
    )
    if not outcome.ok:
        return
    retained, snapshot, change = outcome.value
    traced = [event for device in snapshot["device_traces"] for event in device]
    allocations = {event["addr"]: event for event in traced if event["action"] == "alloc"}
    for tensor in retained:
        event = allocations.get(tensor.data_ptr())
        label = f"the allocation of {tensor.nbytes} bytes"
        if event is None:
            recorder.fail(Kind.STATE, f"{label} is not in the history.")
            continue
        fact(recorder, event["size"] >= tensor.nbytes, Kind.VALUE, f"{label} has only size {event['size']}.")
        names = [frame["name"] for frame in event["frames"]]
        fact(
            recorder,
            _allocate_in_named_function.__name__ in names,
            Kind.STATE,
            f"{label} does not list its calling function in its stack: {names[:5]}",
        )
    live: dict[int, int] = {}
    for event in traced:
        if event["action"] == "alloc":
            live[event["addr"]] = event["size"]
        elif event["action"] in _FREED:
            live.pop(event["addr"], None)
    fact(
        recorder,
        set(live) == {tensor.data_ptr() for tensor in retained},
        Kind.STATE,
        f"after the replay {len(live)} blocks remain, expected {len(retained)}.",
    )
    # The size of an event may be the requested size. The memory statistics count whole blocks.
    required = sum(tensor.nbytes for tensor in retained)
    total = sum(live.values())
    fact(
        recorder,
        required <= total <= change,
        Kind.VALUE,
        f"after the replay {total} bytes remain; {required} were requested,"
        f" and the statistics changed by {change}.",
    )


@register(
    "memory_segments",
    subject_kind="device",
    statement=(
        "The blocks of a segment cover it without a gap. Blocks in use add up to the memory statistics, "
        "and free blocks between them are listed."
    ),
    documentation="torch_cuda_memory.html",
    basis="consistency",
    ground="The snapshot must agree with itself and with the device's memory statistics",
    level="full",
    applies=dtypes_function_for_part("Memory"),
    capabilities=("memory_history", "memory_statistics"),
    modes=("eager",),
)
def check_snapshot_segments(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check that blocks fill their segments and agree with the memory statistics."""
    api = device_api.device_api(target)

    def record_and_read_statistics() -> tuple[list[torch.Tensor], dict[str, Any], int]:
        with without_garbage_collection():
            retained, snapshot, _ = _record_allocations(api, (1000, 3000, 70_000))
            return retained, snapshot, api.allocated_bytes()

    outcome = run_and_record_error(target, recorder, "taking a snapshot", record_and_read_statistics)
    if not outcome.ok:
        return
    retained, snapshot, allocated = outcome.value
    used: dict[int, int] = {}
    free = 0
    for segment in snapshot["segments"]:
        next_address = segment["address"]
        for block in segment["blocks"]:
            at = block.get("address", next_address)
            fact(
                recorder,
                at == next_address,
                Kind.STATE,
                f"a block starts at {at:#x}, but the block before it ends at {next_address:#x}.",
            )
            next_address = at + block["size"]
            if block["state"] == "active_allocated":
                used[at] = block["size"]
            else:
                free += block["size"]
        fact(
            recorder,
            next_address - segment["address"] == segment["total_size"],
            Kind.VALUE,
            f"the blocks of a segment of {segment['total_size']} bytes add up to"
            f" {next_address - segment['address']}.",
        )
    fact(
        recorder,
        sum(used.values()) == allocated,
        Kind.VALUE,
        f"the blocks in use have {sum(used.values())} bytes, but the statistics report {allocated}.",
    )
    missing = [tensor for tensor in retained if tensor.data_ptr() not in used]
    fact(
        recorder, not missing, Kind.STATE, f"{len(missing)} of {len(retained)} tensors have no block in use."
    )
    fact(recorder, free > 0, Kind.STATE, "three blocks were freed, but the snapshot lists no free block.")
