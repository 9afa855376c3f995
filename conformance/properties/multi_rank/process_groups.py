"""Process groups from start to end, and objects that travel in them."""

from __future__ import annotations

import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import torch

from conformance.distributed.rank_programs import Rank, program, total
from conformance.properties.multi_rank._multi_rank_checks import Bench, together


def total_of(size: int) -> float:
    """Return the value of :func:`conformance.distributed.rank_programs.total` in a world of that size."""
    return size * (size + 1) / 2


@program
def who_am_i(rank: Rank) -> dict[str, Any]:
    """Return a rank's facts about itself and the world."""
    import torch.distributed as dist

    world: Any = dist.group.WORLD
    return {
        "rank": dist.get_rank(),
        "size": dist.get_world_size(),
        "initialised": dist.is_initialized(),
        "backend": dist.get_backend() == rank.backend.rpartition(":")[2] or dist.get_backend(),
        "ranks": dist.get_process_group_ranks(world),
        "number of the last": dist.get_group_rank(world, rank.size - 1),
    }


@together("groups", level="core")
def group_facts(bench: Bench) -> None:
    """Each rank knows its number, the size of the group, its backend and its members."""
    answers = bench.values(who_am_i)
    for number, facts in enumerate(answers or ()):
        due = {
            "rank": number,
            "size": bench.size,
            "initialised": True,
            "backend": True,
            "ranks": list(range(bench.size)),
            "number of the last": bench.size - 1,
        }
        for name, value in due.items():
            bench.same(f"{name} on rank {number}", facts[name], value)


@program
def default_backend(rank: Rank) -> list[Any]:
    """Return the name of torch's default backend for the device, and whether torch has it."""
    import torch.distributed as dist

    name = dist.get_default_backend_for_device(rank.device.type)
    return [name, dist.is_backend_available(name)]


@together("groups", level="core")
def backend_of_device(bench: Bench) -> None:
    """torch names a backend for the device, and has it."""
    for number, (name, available) in enumerate(bench.values(default_backend) or ()):
        bench.fact(
            name != "undefined" and available,
            f"the default backend for the device is {name!r} on rank {number}, which torch does not have.",
        )


@program
def membership(rank: Rank) -> dict[str, Any]:
    """Make a group of the last rank alone; return each rank's facts about it."""
    import torch.distributed as dist

    group = dist.new_group([rank.size - 1])
    is_last = rank.rank == rank.size - 1
    facts: dict[str, Any] = {"number": dist.get_rank(group)}
    if is_last:
        facts["size"] = dist.get_world_size(group)
        facts["global"] = dist.get_global_rank(group, 0)
        facts["sum"] = total(rank, group)
        dist.destroy_process_group(group)
    return facts


@together("groups", level="core")
def members_and_others(bench: Bench) -> None:
    """A rank outside a group has the number -1 in it, its members are numbered from 0."""
    last = bench.size - 1
    for number, facts in enumerate(bench.values(membership) or ()):
        due: dict[str, Any] = {"number": -1}
        if number == last:
            due = {"number": 0, "size": 1, "global": last, "sum": float(bench.size)}
        bench.same(f"the group of the last rank, seen from rank {number},", facts, due)


@program
def through_barrier(rank: Rank) -> tuple[float, float]:
    """Return the seconds at which a rank entered a barrier and left it."""
    import torch.distributed as dist

    dist.barrier()
    time.sleep(0.15 * rank.rank)
    entered = time.monotonic()
    dist.barrier()
    rank.synchronize()
    return entered, time.monotonic()


@together("groups", level="core")
def barrier_holds(bench: Bench) -> None:
    """No rank leaves a barrier before the last one has entered it."""
    times = bench.values(through_barrier)
    if times is not None:
        last = max(entered for entered, _ in times)
        for number, (_, left) in enumerate(times):
            bench.fact(
                left >= last,
                f"rank {number} left the barrier {last - left:.3f} s before the last had entered.",
            )


@program
def again_and_again(rank: Rank, name: str) -> list[float]:
    """Destroy the default group and join a new one three times; return the sum in each."""
    import torch.distributed as dist

    sums = []
    for place in range(3):
        dist.barrier()
        dist.destroy_process_group()
        assert not dist.is_initialized()
        rank.join(f"{rank.meeting}-{name}-{place}")
        sums.append(total(rank))
    return sums


@together("groups", level="core")
def started_again(bench: Bench) -> None:
    """After destroy_process_group a new group can be initialised in the same processes, again and again."""
    for number, sums in enumerate(bench.values(again_and_again, name=uuid.uuid4().hex) or ()):
        bench.same(f"the sums on rank {number}", sums, [total_of(bench.size)] * 3)


@program
def many_groups(rank: Rank) -> list[float]:
    """Return the sums in five groups of all ranks, and in the default group after their end."""
    import torch.distributed as dist

    groups = [dist.new_group(list(range(rank.size))) for _ in range(5)]
    sums = [total(rank, group) for group in reversed(groups)]
    for group in groups:
        dist.destroy_process_group(group)
    return [*sums, total(rank)]


@together("groups")
def groups_beside_each_other(bench: Bench) -> None:
    """Groups of the same ranks are used side by side, and destroying one leaves the others."""
    for number, sums in enumerate(bench.values(many_groups) or ()):
        bench.same(f"the sums on rank {number}", sums, [total_of(bench.size)] * 6)


@program
def both_kinds_of_tensors(rank: Rank) -> list[float]:
    """Return the sums of a host tensor and of a device tensor in one group."""
    import torch.distributed as dist

    words = f"cpu:gloo,{rank.device.type}:{rank.backend}"
    group = dist.new_group(list(range(rank.size)), backend=words)
    host = torch.full((3,), float(rank.rank + 1))
    dist.all_reduce(host, group=group)
    sums = [float(host.double().mean()), total(rank, group)]
    dist.destroy_process_group(group)
    return sums


@together("groups", accelerators=True)
def host_and_device_in_one_group(bench: Bench) -> None:
    """A group with a backend for the host and one for the device takes tensors of both."""
    for number, sums in enumerate(bench.values(both_kinds_of_tensors) or ()):
        bench.same(f"the sums on rank {number}", sums, [total_of(bench.size)] * 2)


@program
def objects(rank: Rank) -> dict[str, Any]:
    """Return the objects that a rank receives by each of the object collectives."""
    import torch.distributed as dist

    mine = {"rank": rank.rank, "text": "é" * (rank.rank + 1), "none": None}
    last = rank.size - 1
    gathered: list[Any] = [None] * rank.size
    dist.all_gather_object(gathered, mine)
    at_last: list[Any] | None = [None] * rank.size if rank.rank == last else None
    dist.gather_object(mine, at_last, dst=last)
    broadcast = [mine if rank.rank == last else None, "x" if rank.rank == last else None]
    dist.broadcast_object_list(broadcast, src=last)
    given: list[Any] = [None]
    dist.scatter_object_list(
        given, [[place] for place in range(rank.size)] if rank.rank == 0 else None, src=0
    )
    return {"gathered": gathered, "at last": at_last, "broadcast": broadcast, "given": given}


@together("objects", level="core")
def objects_travel(bench: Bench) -> None:
    """Picklable objects of other sizes on each rank are gathered, broadcast and scattered."""
    answers = bench.values(objects)
    sent = [{"rank": r, "text": "é" * (r + 1), "none": None} for r in range(bench.size)]
    for number, answer in enumerate(answers or ()):
        due = {
            "gathered": sent,
            "at last": sent if number == bench.size - 1 else None,
            "broadcast": [sent[-1], "x"],
            "given": [[number]],
        }
        for name, value in due.items():
            bench.same(f"{name} on rank {number}", answer[name], value)


@program
def tensors_as_objects(rank: Rank) -> list[Any]:
    """Return device and values of the tensors that a rank gathers as objects."""
    import torch.distributed as dist

    gathered: list[Any] = [None] * rank.size
    dist.all_gather_object(gathered, torch.full((2,), float(rank.rank), device=rank.device))
    return [[str(t.device), t.cpu().tolist()] for t in gathered]


@together("objects", capabilities=("serialization",))
def tensors_travel_as_objects(bench: Bench) -> None:
    """A tensor of the device that travels as an object arrives on a device of that kind."""
    for number, tensors in enumerate(bench.values(tensors_as_objects) or ()):
        due = [[bench.target.kind, [float(r)] * 2] for r in range(bench.size)]
        bench.same(f"what arrives on rank {number}", [[d.partition(":")[0], v] for d, v in tensors], due)


@program
def stored(rank: Rank, folder: str) -> list[Any]:
    """Put a rank's number into a store; return the numbers of all ranks from it."""
    import torch.distributed as dist

    file_store: Any = dist.FileStore  # type: ignore[attr-defined]  # documented, but not in __all__
    store = file_store(str(Path(folder) / "store"), rank.size)
    store.set(f"key-{rank.rank}", str(rank.rank))
    return [store.get(f"key-{number}").decode() for number in range(rank.size)]


@together("objects")
def stores_are_shared(bench: Bench) -> None:
    """All ranks find what one rank puts into a store."""
    with tempfile.TemporaryDirectory() as folder:
        for number, values in enumerate(bench.values(stored, folder=folder) or ()):
            bench.same(f"what rank {number} finds", values, [str(r) for r in range(bench.size)])
