"""Measure parts of a small operator call on hpu and on the CPU: the table in docs/operator-overhead.md."""

from __future__ import annotations

import torch
from habana_frameworks.torch import _C

from benchmarks.measure import best_of

CALLS = 20000


def main() -> None:
    """Measure the calls, and print microseconds per call."""
    torch.set_num_threads(1)
    host = torch.randn(8, 8), torch.randn(8, 8)
    device = tuple(tensor.to("hpu") for tensor in host)
    out, device_out = torch.empty(8, 8), torch.empty(8, 8, device="hpu")
    graph = _C.Graph()
    graph.begin()
    result = device[0]
    for _ in range(200):
        result = torch.add(result, device[1])
    graph.end()
    with torch.no_grad():
        rows = {
            "add, cpu": lambda: torch.add(*host),
            "add, hpu": lambda: torch.add(*device),
            "add with out=, cpu": lambda: torch.add(*host, out=out),
            "add with out=, hpu": lambda: torch.add(*device, out=device_out),
            "empty, cpu": lambda: torch.empty(8, 8),
            "empty, hpu": lambda: torch.empty(8, 8, device="hpu"),
            "view, cpu": lambda: host[0].t(),
            "view, hpu": lambda: device[0].t(),
        }
        times = best_of(list(rows.values()), CALLS, rounds=9)
        for name, seconds in zip(rows, times, strict=True):
            print(f"{name:<40} {seconds * 1e6:6.2f} us")
        (replay,) = best_of([graph.replay], 200, rounds=9)
        print(f"{'add in a replayed graph':<40} {replay / 200 * 1e6:6.2f} us")
        _C.set_queue_all(0)
        (queued,) = best_of([lambda: torch.add(*device)], CALLS, rounds=3)
        _C.set_queue_all(-1)
        torch.hpu.synchronize()
        print(f"{'add through a queue, issued and run':<40} {queued * 1e6:6.2f} us")


if __name__ == "__main__":
    main()
