"""Measure collectives of 2 ranks and a DDP step: hccl on hpu tensors / gloo on CPU tensors.

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

from benchmarks.measure import medians_of, show

SIZE = 2
BYTES = {"4 KiB": 1 << 12, "64 KiB": 1 << 16, "1 MiB": 1 << 20, "16 MiB": 1 << 24, "64 MiB": 1 << 26}
#: The largest allowed ratios of seconds, hccl / gloo: for ``all_reduce`` by tensor size, and for a DDP step.
TARGETS = {"4 KiB": 1.2, "1 MiB": 0.7, "64 MiB": 0.7}
STEP_TARGET = 0.95


def collective_calls(elements: int, device: str, group: dist.ProcessGroup) -> dict[str, Callable[[], object]]:
    """Return collective calls on float32 tensors by name.

    Args:
        elements: the number of elements of the whole tensor. The part of a rank has ``elements / SIZE``.
        device: ``hpu`` or ``cpu``.
        group: the process group.
    """
    whole = torch.ones(elements, device=device)
    part = torch.ones(elements // SIZE, device=device)
    wait = torch.hpu.synchronize if device == "hpu" else lambda: None  # type: ignore[attr-defined]

    def with_wait(call: Callable[[], object]) -> Callable[[], object]:
        def call_and_wait() -> None:
            call()
            wait()

        return call_and_wait

    return {
        "all_reduce": with_wait(lambda: dist.all_reduce(whole, group=group)),
        "all_gather": with_wait(lambda: dist.all_gather_into_tensor(whole, part, group=group)),
        "reduce_scatter": with_wait(lambda: dist.reduce_scatter_tensor(part, whole, group=group)),
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


def print_figure(figure: str, ratio: float, target: float | None) -> None:
    """Print one figure, with its target if it has one."""
    if target is not None:
        show(figure, ratio, target)
    else:
        print(f"{figure:<58} {ratio:8.2f}")


def run_rank(number: int, rendezvous: str) -> None:
    """Run all measurements on one rank. Rank 0 prints them."""
    import habana_frameworks.torch  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group("hccl", init_method=f"file://{rendezvous}", rank=number, world_size=SIZE)
    gloo = dist.new_group(backend="gloo")
    hccl = dist.group.WORLD
    for size_label, count in BYTES.items():
        turns = 1500 if count <= 1 << 16 else max(15, (1 << 28) // count)
        host, device = collective_calls(count // 4, "cpu", gloo), collective_calls(count // 4, "hpu", hccl)
        for name in host:
            cpu, hpu = medians_of([host[name], device[name]], turns)
            if number == 0:
                rate = count / hpu / 1e9
                text = (
                    f"{name} of {size_label}: {cpu * 1e6:.0f} us gloo, {hpu * 1e6:.0f} us "
                    f"hccl, {rate:.2f} GB/s"
                )
                print_figure(text, hpu / cpu, TARGETS.get(size_label) if name == "all_reduce" else None)
    cpu, hpu = medians_of([training_step("cpu", gloo), training_step("hpu", hccl)], 100)
    if number == 0:
        figure = f"DDP step: {cpu * 1e3:.2f} ms gloo, {hpu * 1e3:.2f} ms hccl, ratio"
        print_figure(figure, hpu / cpu, STEP_TARGET)
    dist.destroy_process_group()


def main() -> None:
    """Start the ranks. With ``--rank NUMBER FILE``, run one rank.

    Raises:
        SystemExit: a rank failed.
    """
    if sys.argv[1:2] == ["--rank"]:
        run_rank(int(sys.argv[2]), sys.argv[3])
        return
    with tempfile.TemporaryDirectory() as folder:
        rendezvous = str(Path(folder) / "meeting")
        ranks = []
        for number in range(SIZE):
            command = [sys.executable, "-m", "benchmarks.collectives", "--rank", str(number), rendezvous]
            rank_variables = {"WORLD_SIZE": str(SIZE), "RANK": str(number), "LOCAL_RANK": str(number)}
            ranks.append(subprocess.Popen(command, env={**os.environ, **rank_variables}))
        codes = [process.wait() for process in ranks]
    if any(codes):
        raise SystemExit(f"a rank failed: the exit codes of the ranks are {codes}")


if __name__ == "__main__":
    main()
