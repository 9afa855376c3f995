"""Behaviours of device memory: consistent statistics, no leaks over many steps, and out-of-memory errors."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.memory import _host_memory_model

MEBIBYTE = 1 << 20


@behaviour(
    "memory",
    capabilities=("accelerator",),
    level="core",
    must_detect=(),
    page="generated/torch.accelerator.memory.memory_allocated.html",
    ground="The page describes the memory that tensors occupy",
)
def statistics_add_up(lab: Lab) -> None:
    """Allocated bytes grow at least by the size of each allocation and shrink when the memory is freed.
    Reserved bytes are not fewer than allocated bytes. The peak persists until it is reset.
    """
    memory = _host_memory_model.memory_interface_of_lab(lab)
    memory.collect_garbage()
    before = memory.allocated()
    memory.reset_peak()
    lab.holds("after a reset, the peak equals the allocated bytes", memory.peak() == before)
    block = memory.allocate(8 * MEBIBYTE)
    during = memory.allocated()
    lab.holds("allocated bytes grow by the size of a new tensor", during - before >= 8 * MEBIBYTE)
    with lab.parity("No page says how far an allocation may be rounded up"):
        lab.holds("not much more is allocated than requested", during - before < 12 * MEBIBYTE)
    lab.holds("reserved bytes are not fewer than allocated bytes", memory.reserved() >= during)
    views = [block.view(-1), block[5:], block.detach()]
    lab.holds("views allocate no memory", memory.allocated() == during)
    del views, block
    memory.wait_for_frees()
    lab.holds("after a free, as much is allocated as before the allocation", memory.allocated() == before)
    lab.holds("a free does not lower the peak", memory.peak() >= during)
    memory.reset_peak()
    lab.holds("a reset lowers the peak", memory.peak() < during)
    memory.empty_cache()
    lab.holds(
        "emptying the cache does not free live tensors", memory.reserved() >= memory.allocated() == before
    )


@behaviour(
    "memory",
    capabilities=("accelerator",),
    level="core",
    must_detect=(),
    page="generated/torch.accelerator.memory.memory_stats.html",
)
def tables_of_statistics(lab: Lab) -> None:
    """``memory_stats`` reports the current, peak and cumulative bytes. The numbers agree with each other,
    with ``memory_allocated`` and with ``memory_reserved``.
    """
    memory = _host_memory_model.memory_interface_of_lab(lab)
    memory.collect_garbage()
    block = memory.allocate(MEBIBYTE)
    stats = memory.stats()
    names = [
        f"{name}.all.{kind}"
        for name in _host_memory_model.STATISTICS
        for kind in ("current", "peak", "allocated", "freed")
    ]
    lab.holds("the table contains every documented name", all(name in stats for name in names))
    with lab.consistent("The table and memory_allocated must report the same number"):
        lab.holds(
            "the table and memory_allocated report the same bytes",
            stats["allocated_bytes.all.current"] == memory.allocated(),
        )
    with lab.consistent("The table and memory_reserved must report the same number"):
        lab.holds(
            "the table and memory_reserved report the same bytes",
            stats["reserved_bytes.all.current"] == memory.reserved(),
        )
    for name in _host_memory_model.STATISTICS:
        lab.holds(
            f"the peak of {name} is not below its current value",
            stats[f"{name}.all.peak"] >= stats[f"{name}.all.current"],
        )
    active, allocated = stats["active_bytes.all.current"], stats["allocated_bytes.all.current"]
    with lab.consistent("allocated memory is in use, so active bytes must not be fewer"):
        lab.holds("active bytes are not below allocated bytes", active >= allocated >= MEBIBYTE)
    allocated_total, freed_total = stats["allocated_bytes.all.allocated"], stats["allocated_bytes.all.freed"]
    more = memory.allocate(2 * MEBIBYTE)
    del block
    memory.wait_for_frees()
    after = memory.stats()
    lab.holds(
        "the total of allocated bytes grows with each allocation",
        after["allocated_bytes.all.allocated"] - allocated_total >= more.numel(),
    )
    lab.holds(
        "the total of freed bytes grows with each free",
        after["allocated_bytes.all.freed"] - freed_total >= MEBIBYTE,
    )
    change = after["allocated_bytes.all.current"] - allocated
    sums = (
        after["allocated_bytes.all.allocated"]
        - allocated_total
        - (after["allocated_bytes.all.freed"] - freed_total)
    )
    lab.holds("allocated bytes minus freed bytes equal the change of current bytes", sums == change)
    memory.reset_accumulated_totals()
    lab.holds("a reset clears the totals", memory.stats()["allocated_bytes.all.allocated"] < more.numel())
    lab.holds(
        "a reset does not change the current bytes",
        memory.stats()["allocated_bytes.all.current"] == after["allocated_bytes.all.current"],
    )


@behaviour(
    "memory",
    level="training",
    capabilities=("autograd", "accelerator"),
    must_detect=(),
    page="generated/torch.accelerator.memory.memory_allocated.html",
    basis="consistency",
    ground="The same live tensors must occupy the same memory after ten and after a thousand steps",
)
def nothing_is_lost(lab: Lab) -> None:
    """A thousand training steps with views, copies and errors leave no more memory allocated than ten
    training steps.
    """
    memory = _host_memory_model.memory_interface_of_lab(lab)
    weight: Any = torch.zeros(16, 16, device=lab.device, requires_grad=True)
    x = lab.integers(16, 16)

    def train_one_step() -> None:
        block = memory.allocate(100)
        y = (x @ weight).relu() + x.t()[:, 1:].sum()
        y.sum().backward()
        with torch.no_grad():
            weight.sub_(weight.grad, alpha=0.0)
        weight.grad = None
        torch.cat((x, x.to(torch.float16).float())).view(-1)[::2].clone()
        with contextlib.suppress(RuntimeError):
            torch.mm(x, x[:3])
        del block

    measured = []
    for count in (10, 990):
        for _ in range(count):
            train_one_step()
        memory.collect_garbage()
        measured.append(memory.allocated())
    lab.holds("as much is allocated after a thousand steps as after ten", measured[1] <= measured[0])
    lab.same("the weight", weight)


@behaviour(
    "memory",
    level="core",
    capabilities=("memory_limit",),
    must_detect=(),
    page="generated/torch.cuda.OutOfMemoryError.html",
    ground="The class is torch.OutOfMemoryError, raised when a device is out of memory",
)
def running_out_of_memory(lab: Lab) -> None:
    """A request for more memory than the device has raises ``torch.OutOfMemoryError`` and allocates nothing.
    Later work succeeds.
    """
    memory = _host_memory_model.memory_interface_of_lab(lab)
    live = lab.integers(1000)
    memory.collect_garbage()
    before = memory.allocated()
    for turn in range(2):
        lab.raises(
            f"too much, {turn}",
            lambda: memory.allocate(_host_memory_model.TOO_MUCH),
            torch.OutOfMemoryError,
            type_is_documented=True,
        )
        with lab.consistent("allocated memory before and after the failed request must be equal"):
            lab.holds(f"a failed request allocates nothing, {turn}", memory.allocated() == before)
        with lab.consistent("A live tensor must have the same values before and after the failed request"):
            lab.same(f"work goes on, {turn}", live + turn)
        with lab.consistent("memory that was available before the failed request must be available after it"):
            lab.holds(f"later allocations succeed, {turn}", memory.allocate(MEBIBYTE).numel() == MEBIBYTE)
        memory.wait_for_frees()
    with lab.parity("No page says that OutOfMemoryError is a RuntimeError"):
        lab.holds("OutOfMemoryError is a RuntimeError", issubclass(torch.OutOfMemoryError, RuntimeError))


@behaviour(
    "memory",
    capabilities=("accelerator",),
    must_detect=(),
    page="generated/torch.accelerator.memory.memory_reserved.html",
    basis="consistency",
    ground="The same allocations, repeated, must not need more reserved memory than before",
)
def memory_is_reused(lab: Lab) -> None:
    """Repeated allocation and freeing of the same sizes does not increase reserved memory and does not change
    live tensors.
    """
    memory = _host_memory_model.memory_interface_of_lab(lab)
    sizes = (1000, MEBIBYTE, 77, 3 * MEBIBYTE, 500_000)
    live = lab.integers(5000)

    def allocate_and_free_blocks() -> None:
        blocks = [memory.allocate(size).fill_(7) for size in sizes]
        del blocks[::2]
        blocks += [memory.allocate(size).zero_() for size in sizes]

    for _ in range(3):
        allocate_and_free_blocks()
    memory.collect_garbage()
    before = memory.reserved()
    for _ in range(20):
        allocate_and_free_blocks()
    memory.wait_for_frees()
    lab.holds("reserved memory does not grow", memory.reserved() <= before)
    lab.same("values of live tensors", live)
