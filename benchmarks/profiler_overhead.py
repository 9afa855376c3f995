"""Measure profiled training steps: on hpu with CPU and HPU activities / on the CPU with CPU activities."""

from __future__ import annotations

import time
from statistics import median

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.measure import print_figure

STEPS = 50


def seconds_of_profiled_steps(device: str, activities: list[ProfilerActivity]) -> float:
    """Return the seconds of `STEPS` steps of an MLP under a profiler, including the start and the end of the
    profiler.
    """
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(8))).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(32, 64, device=device)
    model(x).sum().backward()
    start = time.perf_counter()
    with profile(activities=activities):
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    return time.perf_counter() - start


def main() -> None:
    """Measure the steps on both devices in alternation, and print the medians and their ratio."""
    torch.set_num_threads(1)
    cpu, hpu = ProfilerActivity.CPU, ProfilerActivity.HPU
    pairs = [
        (seconds_of_profiled_steps("cpu", [cpu]), seconds_of_profiled_steps("hpu", [cpu, hpu]))
        for _ in range(11)
    ]
    host, device = (median(times) for times in zip(*pairs, strict=True))
    print_figure(
        f"{STEPS} profiled steps: {host * 1e3:.0f} ms on cpu, {device * 1e3:.0f} ms on hpu, ratio",
        device / host,
        1.5,
    )


if __name__ == "__main__":
    main()
