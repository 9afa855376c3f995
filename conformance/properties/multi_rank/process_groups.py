"""Check that process groups can be created, used and destroyed, and that ranks can exchange Python
objects.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import torch

from conformance.distributed.rank_programs import Rank, program, sum_over_ranks
from conformance.properties.multi_rank._multi_rank_checks import MultiRankChecker, multi_rank_property


def expected_sum_over_ranks(size: int) -> float:
    """Return the sum that ``sum_over_ranks`` must compute on ``size`` ranks."""
    return size * (size + 1) / 2


@program
def rank_and_group_attributes(rank: Rank) -> dict[str, Any]:
    """Return the attributes of this rank and of the default group, as torch reports them on this rank."""
    import torch.distributed as dist

    default_group: Any = dist.group.WORLD
    return {
        "rank": dist.get_rank(),
        "size": dist.get_world_size(),
        "initialised": dist.is_initialized(),
        "backend": dist.get_backend() == rank.backend.rpartition(":")[2] or dist.get_backend(),
        "ranks": dist.get_process_group_ranks(default_group),
        "number of the last": dist.get_group_rank(default_group, rank.size - 1),
    }


@multi_rank_property("groups", level="core")
def group_facts(checker: MultiRankChecker) -> None:
    """Each rank can read its own number, and the size, the backend and the members of the group."""
    replies = checker.run(rank_and_group_attributes)
    for number, facts in enumerate(replies or ()):
        expected = {
            "rank": number,
            "size": checker.size,
            "initialised": True,
            "backend": True,
            "ranks": list(range(checker.size)),
            "number of the last": checker.size - 1,
        }
        for name, value in expected.items():
            checker.check_equal(f"{name} on rank {number}", facts[name], value)


@program
def default_backend_of_device(rank: Rank) -> list[Any]:
    """Return the name of torch's default backend for the device, and whether it is available."""
    import torch.distributed as dist

    name = dist.get_default_backend_for_device(rank.device.type)
    return [name, dist.is_backend_available(name)]


@multi_rank_property("groups", level="core")
def backend_of_device(checker: MultiRankChecker) -> None:
    """torch names a default backend for the device, and that backend is available."""
    for number, (name, available) in enumerate(checker.run(default_backend_of_device) or ()):
        checker.check(
            name != "undefined" and available,
            f"the default backend for the device is {name!r} on rank {number}, which is not available.",
        )


@program
def attributes_of_last_rank_group(rank: Rank) -> dict[str, Any]:
    """Create a group that contains only the last rank. Return the attributes of this group, as torch reports
    them on the calling rank.
    """
    import torch.distributed as dist

    group = dist.new_group([rank.size - 1])
    is_last = rank.rank == rank.size - 1
    facts: dict[str, Any] = {"number": dist.get_rank(group)}
    if is_last:
        facts["size"] = dist.get_world_size(group)
        facts["global"] = dist.get_global_rank(group, 0)
        facts["sum"] = sum_over_ranks(rank, group)
        dist.destroy_process_group(group)
    return facts


@multi_rank_property("groups", level="core")
def members_and_others(checker: MultiRankChecker) -> None:
    """The members of a group are numbered from 0. A rank outside the group gets the number -1."""
    last = checker.size - 1
    for number, facts in enumerate(checker.run(attributes_of_last_rank_group) or ()):
        expected: dict[str, Any] = {"number": -1}
        if number == last:
            expected = {"number": 0, "size": 1, "global": last, "sum": float(checker.size)}
        checker.check_equal(f"the description of the last rank's group on rank {number}", facts, expected)


@program
def barrier_times(rank: Rank) -> tuple[float, float]:
    """Return the times in seconds at which this rank entered and left a barrier."""
    import torch.distributed as dist

    dist.barrier()
    time.sleep(0.15 * rank.rank)
    entered = time.monotonic()
    dist.barrier()
    rank.synchronize()
    return entered, time.monotonic()


@multi_rank_property("groups", level="core")
def barrier_holds(checker: MultiRankChecker) -> None:
    """No rank leaves a barrier before the last rank has entered it."""
    times = checker.run(barrier_times)
    if times is not None:
        last = max(entered for entered, _ in times)
        for number, (_, left_at) in enumerate(times):
            checker.check(
                left_at >= last,
                f"rank {number} left the barrier {last - left_at:.3f} s before the last rank entered it.",
            )


@program
def sums_of_rejoined_groups(rank: Rank, name: str) -> list[float]:
    """Destroy the default group and join a new one, three times. Return the sum in each new group."""
    import torch.distributed as dist

    sums = []
    for round_index in range(3):
        dist.barrier()
        dist.destroy_process_group()
        assert not dist.is_initialized()
        rank.join_process_group(f"{rank.rendezvous_file}-{name}-{round_index}")
        sums.append(sum_over_ranks(rank))
    return sums


@multi_rank_property(
    "groups",
    level="core",
    basis="parity",
    ground="The page calls a second initialisation after destroy_process_group unsupported and untested",
)
def started_again(checker: MultiRankChecker) -> None:
    """After destroy_process_group, the same processes can repeatedly initialise a new group."""
    for number, sums in enumerate(checker.run(sums_of_rejoined_groups, name=uuid.uuid4().hex) or ()):
        checker.check_equal(f"the sums on rank {number}", sums, [expected_sum_over_ranks(checker.size)] * 3)


@program
def sums_of_several_groups(rank: Rank) -> list[float]:
    """Return the sums over five new groups of all ranks, and the sum over the default group after the five
    groups were destroyed.
    """
    import torch.distributed as dist

    groups = [dist.new_group(list(range(rank.size))) for _ in range(5)]
    sums = [sum_over_ranks(rank, group) for group in reversed(groups)]
    for group in groups:
        dist.destroy_process_group(group)
    return [*sums, sum_over_ranks(rank)]


@multi_rank_property("groups")
def groups_beside_each_other(checker: MultiRankChecker) -> None:
    """Several groups of the same ranks can be used at the same time. Destroying one group does not affect the
    other groups.
    """
    for number, sums in enumerate(checker.run(sums_of_several_groups) or ()):
        checker.check_equal(f"the sums on rank {number}", sums, [expected_sum_over_ranks(checker.size)] * 6)


@program
def sums_of_host_and_device_tensor(rank: Rank) -> list[float]:
    """Return the sums of a host tensor and of a device tensor in one group."""
    import torch.distributed as dist

    backends = f"cpu:gloo,{rank.device.type}:{rank.backend}"
    group = dist.new_group(list(range(rank.size)), backend=backends)
    host = torch.full((3,), float(rank.rank + 1))
    dist.all_reduce(host, group=group)
    sums = [float(host.double().mean()), sum_over_ranks(rank, group)]
    dist.destroy_process_group(group)
    return sums


@multi_rank_property("groups", accelerators=True)
def host_and_device_in_one_group(checker: MultiRankChecker) -> None:
    """A group with one backend for the host and one for the device accepts host and device tensors."""
    for number, sums in enumerate(checker.run(sums_of_host_and_device_tensor) or ()):
        checker.check_equal(f"the sums on rank {number}", sums, [expected_sum_over_ranks(checker.size)] * 2)


@program
def exchange_objects(rank: Rank) -> dict[str, Any]:
    """Return the objects that a rank receives from each object collective."""
    import torch.distributed as dist

    own_object = {"rank": rank.rank, "text": "é" * (rank.rank + 1), "none": None}
    last = rank.size - 1
    gathered: list[Any] = [None] * rank.size
    dist.all_gather_object(gathered, own_object)
    at_last: list[Any] | None = [None] * rank.size if rank.rank == last else None
    dist.gather_object(own_object, at_last, dst=last)
    broadcast = [own_object if rank.rank == last else None, "x" if rank.rank == last else None]
    dist.broadcast_object_list(broadcast, src=last)
    scattered: list[Any] = [None]
    dist.scatter_object_list(
        scattered, [[rank_index] for rank_index in range(rank.size)] if rank.rank == 0 else None, src=0
    )
    return {"gathered": gathered, "at last": at_last, "broadcast": broadcast, "given": scattered}


@multi_rank_property("objects", level="core")
def objects_travel(checker: MultiRankChecker) -> None:
    """Picklable objects of different sizes on each rank are gathered, broadcast and scattered."""
    replies = checker.run(exchange_objects)
    sent = [{"rank": r, "text": "é" * (r + 1), "none": None} for r in range(checker.size)]
    for number, reply in enumerate(replies or ()):
        expected = {
            "gathered": sent,
            "at last": sent if number == checker.size - 1 else None,
            "broadcast": [sent[-1], "x"],
            "given": [[number]],
        }
        for name, value in expected.items():
            checker.check_equal(f"{name} on rank {number}", reply[name], value)


@program
def gather_tensors_as_objects(rank: Rank) -> list[Any]:
    """Return the device and the values of each tensor that a rank gathers as an object."""
    import torch.distributed as dist

    gathered: list[Any] = [None] * rank.size
    dist.all_gather_object(gathered, torch.full((2,), float(rank.rank), device=rank.device))
    return [[str(t.device), t.cpu().tolist()] for t in gathered]


@multi_rank_property("objects", capabilities=("serialization",))
def tensors_travel_as_objects(checker: MultiRankChecker) -> None:
    """A device tensor that is sent as an object arrives on a device of the same type."""
    for number, tensors in enumerate(checker.run(gather_tensors_as_objects) or ()):
        expected = [[checker.target.kind, [float(r)] * 2] for r in range(checker.size)]
        checker.check_equal(
            f"the tensors received on rank {number}", [[d.partition(":")[0], v] for d, v in tensors], expected
        )


@program
def write_and_read_store(rank: Rank, folder: str) -> list[Any]:
    """Write this rank's number into a store. Return the numbers of all ranks, read from the store."""
    import torch.distributed as dist

    file_store: Any = dist.FileStore  # type: ignore[attr-defined]  # documented, but not in __all__
    store = file_store(str(Path(folder) / "store"), rank.size)
    store.set(f"key-{rank.rank}", str(rank.rank))
    return [store.get(f"key-{number}").decode() for number in range(rank.size)]


@multi_rank_property("objects")
def stores_are_shared(checker: MultiRankChecker) -> None:
    """All ranks can read a value that one rank puts into a store."""
    with tempfile.TemporaryDirectory() as folder:
        for number, values in enumerate(checker.run(write_and_read_store, folder=folder) or ()):
            checker.check_equal(
                f"the values that rank {number} reads", values, [str(r) for r in range(checker.size)]
            )
