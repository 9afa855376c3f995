"""The history of device memory: what torch's documentation of understanding memory usage says of a snapshot.

https://docs.pytorch.org/docs/stable/torch_cuda_memory.html: a snapshot holds each allocation and free with
its stack, and the segments with their blocks as they are.
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
from conformance.properties.device._device_checks import about, do, uncollected
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_FREED = ("free_completed", "free")


def _allocate_here(api: DeviceApi, size: int) -> torch.Tensor:
    return api.empty(size)


def _recorded(api: DeviceApi, sizes: tuple[int, ...]) -> tuple[list[torch.Tensor], dict[str, Any], int]:
    """Allocate twice as many blocks as there are sizes, and free every second one, while events are recorded.

    Returns:
        The blocks that are left, the snapshot, and the change of the bytes in use.
    """
    history = api.memory_history()
    with uncollected():
        api.synchronize()
        before = api.allocated()
        history.start()
        try:
            kept = [_allocate_here(api, size) for size in sizes for _ in range(2)]
            del kept[::2]
            api.synchronize()
            snapshot = history.snapshot()
        finally:
            history.stop()
        return kept, snapshot, api.allocated() - before


@register(
    "memory_events",
    subject_kind="device",
    statement=(
        "A recorded history has each allocation with its address, its size and the stack of Python that made "
        "it, and each free; replayed, it gives the statistics."
    ),
    documentation="torch_cuda_memory.html",
    level="full",
    applies=about("Memory"),
    capabilities=("memory_history", "memory_statistics"),
    modes=("eager",),
)
def events(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    api = device_api.device_api(target)
    outcome = do(target, recorder, "recording allocations", lambda: _recorded(api, (1000, 3000, 70_000)))
    if not outcome.ok:
        return
    kept, snapshot, change = outcome.value
    traced = [event for device in snapshot["device_traces"] for event in device]
    made = {event["addr"]: event for event in traced if event["action"] == "alloc"}
    for tensor in kept:
        event = made.get(tensor.data_ptr())
        what = f"the allocation of {tensor.nbytes} bytes"
        if event is None:
            recorder.fail(Kind.STATE, f"{what} is not in the history.")
            continue
        fact(recorder, event["size"] >= tensor.nbytes, Kind.VALUE, f"{what} has the size {event['size']}.")
        names = [frame["name"] for frame in event["frames"]]
        fact(
            recorder,
            _allocate_here.__name__ in names,
            Kind.STATE,
            f"{what} has not its function in its stack: {names[:5]}",
        )
    live: dict[int, int] = {}
    for event in traced:
        if event["action"] == "alloc":
            live[event["addr"]] = event["size"]
        elif event["action"] in _FREED:
            live.pop(event["addr"], None)
    fact(
        recorder,
        set(live) == {tensor.data_ptr() for tensor in kept},
        Kind.STATE,
        f"replayed, {len(live)} blocks are left, expected {len(kept)}.",
    )
    # An event may have the size that was asked for; the statistics count whole blocks.
    least = sum(tensor.nbytes for tensor in kept)
    total = sum(live.values())
    fact(
        recorder,
        least <= total <= change,
        Kind.VALUE,
        f"replayed, {total} bytes are left; {least} were asked for, and the statistics changed by {change}.",
    )


@register(
    "memory_segments",
    subject_kind="device",
    statement=(
        "The segments of a snapshot are made of their blocks without a gap; those in use add up to the "
        "statistics, and the free ones between them are shown."
    ),
    documentation="torch_cuda_memory.html",
    level="full",
    applies=about("Memory"),
    capabilities=("memory_history", "memory_statistics"),
    modes=("eager",),
)
def segments(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    api = device_api.device_api(target)

    def both() -> tuple[list[torch.Tensor], dict[str, Any], int]:
        with uncollected():
            kept, snapshot, _ = _recorded(api, (1000, 3000, 70_000))
            return kept, snapshot, api.allocated()

    outcome = do(target, recorder, "taking a snapshot", both)
    if not outcome.ok:
        return
    kept, snapshot, allocated = outcome.value
    used: dict[int, int] = {}
    free = 0
    for segment in snapshot["segments"]:
        place = segment["address"]
        for block in segment["blocks"]:
            at = block.get("address", place)
            fact(
                recorder,
                at == place,
                Kind.STATE,
                f"a block at {at:#x} is not behind the one before, at {place:#x}.",
            )
            place = at + block["size"]
            if block["state"] == "active_allocated":
                used[at] = block["size"]
            else:
                free += block["size"]
        fact(
            recorder,
            place - segment["address"] == segment["total_size"],
            Kind.VALUE,
            f"the blocks of a segment of {segment['total_size']} bytes have {place - segment['address']}.",
        )
    fact(
        recorder,
        sum(used.values()) == allocated,
        Kind.VALUE,
        f"blocks in use have {sum(used.values())} bytes, the statistics {allocated}.",
    )
    missing = [tensor for tensor in kept if tensor.data_ptr() not in used]
    fact(recorder, not missing, Kind.STATE, f"{len(missing)} of {len(kept)} tensors have no block in use.")
    fact(recorder, free > 0, Kind.STATE, "three blocks were freed between others, and no block is free.")
