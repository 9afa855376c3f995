"""Draw the sizes of tensors from distributions around the sizes at which kernels change their algorithm.

The sizes depend on a text, such as the name of an overload, and on the seed of the run. A run with a
different seed therefore checks different sizes.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Sequence

from conformance.model import seeds


@dataclasses.dataclass(frozen=True)
class SizeDistribution:
    """A distribution of numbers of elements. ``because`` states why kernels may be wrong in these sizes."""

    name: str
    because: str
    draw: Callable[[random.Random], int]


def _near_multiple_of_power(least: int, greatest: int, multiples: int = 1) -> Callable[[random.Random], int]:
    """Return a draw of ``n * 2**k``, of its predecessor or of its successor. ``k`` is from ``least`` to
    ``greatest``, and ``n`` is from 1 to ``multiples``.
    """
    return lambda generator: (
        (generator.randint(1, multiples) << generator.randint(least, greatest)) + generator.choice((-1, 0, 1))
    )


def _log_uniform(least: int, greatest: int) -> Callable[[random.Random], int]:
    return lambda generator: round(math.exp(generator.uniform(math.log(least), math.log(greatest))))


def _prime(generator: random.Random) -> int:
    number = _log_uniform(5, 65_000)(generator)
    while any(number % divisor == 0 for divisor in range(2, math.isqrt(number) + 1)):
        number += 1
    return number


VECTOR = SizeDistribution(
    "vector",
    "A SIMD register holds 4 to 64 elements. Kernels process a partly filled register separately.",
    _near_multiple_of_power(2, 6, multiples=4),
)
GROUP = SizeDistribution(
    "group",
    "A work-group (a block of threads) has 128 to 1,024 threads. The last group is rarely full.",
    _near_multiple_of_power(7, 10, multiples=3),
)
SPLIT = SizeDistribution(
    "split",
    "From some thousands of elements, kernels split their work over cores, or a reduction into stages.",
    _near_multiple_of_power(10, 13),
)
GRID = SizeDistribution(
    "grid",
    "Counters of 16 bits and the dimensions of a grid end at 65,535. Most draws exceed this number.",
    lambda generator: (1 << 16) + generator.choice((-1, 0, 1, *[generator.randint(2, 6_000)] * 3)),
)
PRIME = SizeDistribution(
    "prime", "No tile size divides a prime number, so every kernel must process a partial tile.", _prime
)
ANY = SizeDistribution(
    "any", "A kernel can be wrong in sizes that no other distribution draws.", _log_uniform(3, 70_000)
)
#: More than 2**20 elements: all cores and all units of a device have work.
LARGEST = SizeDistribution(
    "largest", "All cores of a device have work, each several times.", _log_uniform((1 << 20) + 1, 1_200_000)
)
DISTRIBUTIONS = (VECTOR, GROUP, SPLIT, GRID, PRIME, ANY)


def draw_sizes(text: str, distributions: Sequence[SizeDistribution]) -> list[int]:
    """Return one size of each distribution, in the order of ``distributions``. The sizes are distinct.

    The sizes depend only on ``text`` and on the seed of the run.
    """
    generator = random.Random(seeds.seed_for(f"sizes of {text}"))
    sizes: list[int] = []
    for distribution in distributions:
        size = distribution.draw(generator)
        while size in sizes:
            size = distribution.draw(generator)
        sizes.append(size)
    return sizes
