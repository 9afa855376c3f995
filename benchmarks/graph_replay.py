"""Measure the replay of an HPU graph of 200 small operators / the same operators in eager mode on the CPU.

The graph is measured twice: interpreted, and fused (compiled).
"""

from __future__ import annotations

import time
from typing import Any

import torch
from habana_frameworks.torch import _C
from habana_frameworks.torch.internal.fusion import policy as fusion_policy
from habana_frameworks.torch.internal.fusion import service

from benchmarks.measure import best_of, print_figure

OPERATORS = 200
SIZE = 32
#: The time limit in seconds for a compilation. A compilation takes seconds, and longer on a busy machine.
LONGEST_WAIT = 300.0


def chain_of_small_operators(x: torch.Tensor) -> torch.Tensor:
    """Apply OPERATORS elementwise operators in sequence."""
    y = x
    for _ in range(OPERATORS // 4):
        y = torch.relu(y + 1.0) * 0.5 - 0.25
    return y


def capture_chain(x: torch.Tensor) -> tuple[Any, torch.Tensor]:
    """Capture `chain_of_small_operators` on the input `x`. Return the graph and the tensor that its replays
    write.
    """
    graph = _C.Graph()
    graph.begin()
    result = chain_of_small_operators(x)
    graph.end()
    return graph, result


def wait_until_fused(graph: Any) -> bool:
    """Request fused code for a graph, and wait. Return False if the code is not ready within LONGEST_WAIT."""
    digest = service.request(
        graph.describe(), lambda artifact: fusion_policy.install_fused_code(graph, artifact)
    )
    end = time.monotonic() + LONGEST_WAIT
    while digest is not None and graph.kind != "fused" and time.monotonic() < end:
        service.poll()
        time.sleep(0.1)
    return graph.kind == "fused"


def main() -> None:
    """Measure the replays and the eager calls, check the results, and print the ratios."""
    torch.set_num_threads(1)
    with torch.no_grad():
        x = torch.randn(SIZE, SIZE)
        device = x.to("hpu")
        interpreted, first = capture_chain(device)
        fused, second = capture_chain(device)
        fused.prepare()
        if not wait_until_fused(fused):
            print("fused replay: not measured, the graph was not compiled (is there a C++ compiler?)")
        times = best_of(
            [lambda: chain_of_small_operators(x), interpreted.replay, fused.replay], calls=200, rounds=15
        )
        expected = chain_of_small_operators(x)
        for graph, result in ((interpreted, first), (fused, second)):
            result.zero_()
            graph.replay()
            torch.testing.assert_close(result.cpu(), expected)
    cpu, interpreted_seconds, compiled = times
    print_figure(
        f"replay, {OPERATORS} small operators, interpreted / cpu eager", interpreted_seconds / cpu, 0.25
    )
    if fused.kind == "fused":
        print_figure(f"replay, {OPERATORS} small operators, fused / cpu eager", compiled / cpu, 0.2)


if __name__ == "__main__":
    main()
