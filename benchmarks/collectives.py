"""Measure collectives of 2 and 4 ranks and a DDP step: hccl on hpu tensors / gloo on CPU tensors.

Calls of hccl and gloo alternate. Rank 0 measures the seconds until the call has finished on the device, so
the asynchronous work of hccl is included. Medians are reported, because other processes of the machine slow
down single calls.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

from benchmarks.measure import medians_of, print_figure

RANK_COUNTS = (2, 4)
BYTES = {"4 KiB": 1 << 12, "64 KiB": 1 << 16, "1 MiB": 1 << 20, "16 MiB": 1 << 24, "64 MiB": 1 << 26}
#: The largest allowed ratios of seconds, hccl / gloo: for ``all_reduce`` and for the other collectives by
#: tensor size, for a DDP step, and for collectives of objects and barriers.
ALL_REDUCE_TARGETS = {"4 KiB": 1.2, "1 MiB": 0.7, "64 MiB": 0.7}
TARGETS = {"64 KiB": 0.6, "1 MiB": 0.6, "16 MiB": 0.6}
STEP_TARGET = 0.95
OBJECT_TARGET = 1.0


def collective_calls(elements: int, device: str, group: dist.ProcessGroup) -> dict[str, Callable[[], object]]:
    """Return collective calls on float32 tensors by name.

    Args:
        elements: the number of elements of the whole tensor. The part of a rank is this number, divided by
            the number of ranks.
        device: ``hpu`` or ``cpu``.
        group: the process group.
    """
    size, is_root = dist.get_world_size(), dist.get_rank() == 0
    whole, other = torch.ones(elements, device=device), torch.ones(elements, device=device)
    part = torch.ones(elements // size, device=device)
    parts = list(whole.chunk(size)) if is_root else None
    wait = torch.hpu.synchronize if device == "hpu" else lambda: None  # type: ignore[attr-defined]

    def waiting_call(call: Callable[[], object]) -> Callable[[], object]:
        def call_and_wait() -> None:
            call()
            wait()

        return call_and_wait

    return {
        "all_reduce": waiting_call(lambda: dist.all_reduce(whole, group=group)),
        "reduce": waiting_call(lambda: dist.reduce(whole, 0, group=group)),
        "broadcast": waiting_call(lambda: dist.broadcast(whole, 0, group=group)),
        "all_gather": waiting_call(lambda: dist.all_gather_into_tensor(whole, part, group=group)),
        "reduce_scatter": waiting_call(lambda: dist.reduce_scatter_tensor(part, whole, group=group)),
        "all_to_all": waiting_call(lambda: dist.all_to_all_single(other, whole, group=group)),
        "gather": waiting_call(lambda: dist.gather(part, parts, 0, group=group)),
        "scatter": waiting_call(lambda: dist.scatter(part, parts, 0, group=group)),
    }


def calls_with_host_wait(device: str, group: dist.ProcessGroup) -> dict[str, Callable[[], object]]:
    """Return collectives that the host waits for: a barrier and collectives of Python objects."""
    kept_on = torch.device(device)
    size = dist.get_world_size()
    return {
        "barrier": lambda: dist.barrier(group=group),
        "broadcast_object_list": lambda: dist.broadcast_object_list([list(range(100))], 0, group, kept_on),
        "all_gather_object": lambda: dist.all_gather_object([None] * size, list(range(100)), group=group),
    }


def training_step(device: str, group: dist.ProcessGroup) -> Callable[[], object]:
    """Return a training step of a small float32 network under DDP."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(6))).to(device)
    wrapped = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=1e-3)
    data = torch.randn(64, 512, device=device)

    def step() -> None:
        optimizer.zero_grad()
        loss = wrapped(data).square().mean()
        loss.backward()
        optimizer.step()
        loss.item()

    return step


def print_figure_with_optional_target(figure: str, ratio: float, target: float | None) -> None:
    """Print the name of a figure and its ratio, and also the target if ``target`` is not None."""
    if target is not None:
        print_figure(figure, ratio, target)
    else:
        print(f"{figure:<58} {ratio:8.2f}", flush=True)


def compare_calls(
    host: dict[str, Callable[[], object]],
    device: dict[str, Callable[[], object]],
    turns: int,
    label: str,
    targets: dict[str, float | None],
) -> None:
    """Measure calls of gloo and hccl in turn, and print their ratios on rank 0."""
    for name in host:
        cpu, hpu = medians_of([host[name], device[name]], turns)
        if dist.get_rank() == 0:
            text = f"{name}{label}: {cpu * 1e6:.0f} us gloo, {hpu * 1e6:.0f} us hccl"
            print_figure_with_optional_target(text, hpu / cpu, targets.get(name))


def run_rank(number: int, size: int, rendezvous: str) -> None:
    """Run all measurements as one rank. Rank 0 prints the results.

    Args:
        number: the rank of this process.
        size: number of ranks.
        rendezvous: path of the file through which the ranks find each other.
    """
    import habana_frameworks.torch  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group("hccl", init_method=f"file://{rendezvous}", rank=number, world_size=size)
    gloo = dist.new_group(backend="gloo")
    hccl = dist.group.WORLD
    for size_label, count in BYTES.items():
        turns = 1500 if count <= 1 << 16 else max(15, (1 << 28) // count)
        host, device = collective_calls(count // 4, "cpu", gloo), collective_calls(count // 4, "hpu", hccl)
        targets = {name: TARGETS.get(size_label) for name in host}
        targets["all_reduce"] = ALL_REDUCE_TARGETS.get(size_label)
        compare_calls(host, device, turns, f" of {size_label}, {size} ranks", targets)
    waited_for = calls_with_host_wait("cpu", gloo), calls_with_host_wait("hpu", hccl)
    compare_calls(*waited_for, 300, f", {size} ranks", dict.fromkeys(waited_for[0], OBJECT_TARGET))
    steps = training_step("cpu", gloo), training_step("hpu", hccl)
    compare_calls(
        {"DDP step": steps[0]}, {"DDP step": steps[1]}, 100, f", {size} ranks", {"DDP step": STEP_TARGET}
    )
    dist.destroy_process_group()


def main() -> None:
    """Start the rank processes. With ``--rank NUMBER SIZE FILE``, run as one rank process.

    Raises:
        SystemExit: a rank failed.
    """
    if sys.argv[1:2] == ["--rank"]:
        run_rank(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
        return
    for size in RANK_COUNTS:
        with tempfile.TemporaryDirectory() as folder:
            rendezvous = str(Path(folder) / "meeting")
            ranks = []
            for number in range(size):
                arguments = ["--rank", str(number), str(size), rendezvous]
                command = [sys.executable, "-m", "benchmarks.collectives", *arguments]
                rank_variables = {"WORLD_SIZE": str(size), "RANK": str(number), "LOCAL_RANK": str(number)}
                ranks.append(subprocess.Popen(command, env={**os.environ, **rank_variables}))
            codes = [process.wait() for process in ranks]
        if any(codes):
            raise SystemExit(f"a rank failed: the exit codes of the ranks are {codes}")


if __name__ == "__main__":
    main()
