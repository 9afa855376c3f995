"""Measure functions in alternation, and print a figure next to its target value."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence


def seconds_per_call(function: Callable[[], object], calls: int) -> float:
    """Call ``function`` ``calls`` times, and return the mean wall seconds per call."""
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls


def best_of(functions: Sequence[Callable[[], object]], calls: int, rounds: int) -> list[float]:
    """Measure functions in alternation, so that a busy moment affects all of them.

    Args:
        functions: the functions.
        calls: calls per batch. A tenth as many warm-up calls precede the first batch.
        rounds: batches per function.

    Returns:
        The seconds per call of the fastest batch of each function.
    """
    for function in functions:
        seconds_per_call(function, max(1, calls // 10))
    best = [math.inf] * len(functions)
    for _ in range(rounds):
        for index, function in enumerate(functions):
            best[index] = min(best[index], seconds_per_call(function, calls))
    return best


def medians_of(functions: Sequence[Callable[[], object]], turns: int) -> list[float]:
    """Call functions in alternation, one call each, so that a busy moment affects all of them.

    Args:
        functions: the functions.
        turns: calls of each function. A tenth as many warm-up calls precede these calls.

    Returns:
        The median wall seconds of each function.
    """
    seconds: list[list[float]] = [[] for _ in functions]
    for turn in range(-max(1, turns // 10), turns):
        for index, function in enumerate(functions):
            seconds_of_call = seconds_per_call(function, 1)
            if turn >= 0:
                seconds[index].append(seconds_of_call)
    return [statistics.median(times) for times in seconds]


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers.

    Raises:
        ZeroDivisionError: the sequence is empty.
        ValueError: a number is not positive.
    """
    return math.exp(sum(map(math.log, values)) / len(values))


def print_figure(figure: str, value: float, target: float, unit: str = "") -> None:
    """Print a line with the figure, its value, its target (the largest allowed value), and ``met`` or
    ``MISSED``.
    """
    state = "met" if value <= target else "MISSED"
    print(f"{figure:<58} {value:8.2f}{unit:<2} target <= {target:.2f}{unit:<2} {state}")
