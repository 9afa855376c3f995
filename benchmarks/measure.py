"""Timing side by side, and one way to print a figure next to its target."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence


def seconds_per_call(function: Callable[[], object], calls: int) -> float:
    """Wall seconds per call of one batch of calls."""
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls


def best_of(functions: Sequence[Callable[[], object]], calls: int, rounds: int) -> list[float]:
    """The best seconds per call of each function; they take turns, so that a busy moment hits all of them."""
    for function in functions:
        seconds_per_call(function, max(1, calls // 10))
    best = [math.inf] * len(functions)
    for _ in range(rounds):
        for index, function in enumerate(functions):
            best[index] = min(best[index], seconds_per_call(function, calls))
    return best


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def show(figure: str, value: float, target: float, unit: str = "") -> None:
    """One line: the figure, what was measured, the most it may be, and whether it is."""
    word = "met" if value <= target else "MISSED"
    print(f"{figure:<58} {value:8.2f}{unit:<2} target <= {target:.2f}{unit:<2} {word}")
