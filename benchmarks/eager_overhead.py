"""Measure eager calls on small tensors, hpu / cpu: add, mm, softmax, t, empty."""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks.measure import best_of, geometric_mean, print_figure


def small_calls_on(device: str) -> dict[str, Callable[[], object]]:
    """Return calls on float32[8, 8] tensors of a device, by name."""
    a, b = torch.randn(8, 8, device=device), torch.randn(8, 8, device=device)
    return {
        "add": lambda: torch.add(a, b),
        "mm": lambda: torch.mm(a, b),
        "softmax": lambda: torch.softmax(a, 1),
        "t": lambda: a.t(),
        "empty": lambda: torch.empty(8, 8, device=device),
    }


def main() -> None:
    """Measure all calls, and print the ratios and their geometric mean."""
    torch.set_num_threads(1)
    cpu, hpu = small_calls_on("cpu"), small_calls_on("hpu")
    ratios = []
    for name in cpu:
        host, device = best_of([cpu[name], hpu[name]], calls=5000, rounds=15)
        ratios.append(device / host)
        print_figure(
            f"eager {name}: {host * 1e6:.2f} us on cpu, {device * 1e6:.2f} us on hpu, ratio", ratios[-1], 1.2
        )
    print_figure("eager calls, hpu / cpu, geometric mean", geometric_mean(ratios), 1.08)


if __name__ == "__main__":
    main()
