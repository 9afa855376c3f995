"""Draw the parameters of mutants: sizes, ranks, periods and block lengths.

Each mutation point, operator and position has its own parameters, drawn by a hash of their names, so that
every campaign has the same mutants. The ranges are those of hardware and of kernels, and no value comes from
the suite.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence


@dataclasses.dataclass(frozen=True)
class ParameterRange:
    """Whole numbers from ``low`` to ``high``, both included.

    With ``logarithmic``, each octave is equally likely. With ``powers``, only powers of two are drawn.
    """

    low: int
    high: int
    logarithmic: bool = True
    powers: bool = False

    def value_at(self, share: float) -> int:
        """Map ``share``, a number from 0 to below 1, to a value of the range."""
        if self.powers:
            least, most = self.low.bit_length() - 1, self.high.bit_length() - 1
            return int(2 ** (least + int(share * (most - least + 1))))
        if self.logarithmic:
            return int(self.low * ((self.high + 1) / self.low) ** share)
        return self.low + int(share * (self.high - self.low + 1))


#: Mutation operator -> ranges. Each point and position has one mutant for each range.
RANGES: Mapping[str, Sequence[ParameterRange]] = {
    # Sizes at which kernels often change: a warp of 32 threads, a block of 1,024 threads, a tile of shared
    # memory, and a counter of 16 bits.
    "above-size": (
        ParameterRange(32, 255),
        ParameterRange(256, 2047),
        ParameterRange(2048, 16383),
        ParameterRange(16384, 131071),
    ),
    # From a vector register of four 32-bit numbers to a vector register of 64 8-bit numbers.
    "tail-of-block": (ParameterRange(4, 64, powers=True),),
    # Kernels are written for the ranks of images and volumes. Some hardware descriptors end at 4, 5 or 8
    # dimensions.
    "rank": (
        ParameterRange(3, 4, logarithmic=False),
        ParameterRange(5, 6, logarithmic=False),
        ParameterRange(7, 8, logarithmic=False),
    ),
    # A race condition that appears often, and a race condition that appears rarely.
    "flaky": (ParameterRange(2, 15), ParameterRange(16, 128)),
    # From the length of one block of threads to the length of a row of logits.
    "long-sum": (ParameterRange(256, 8192),),
}


def draw_parameters(point: str, operator: str, position: int) -> tuple[int, ...]:
    """Return the parameters of the mutants of an operator at a point and position, without repetition."""
    values = []
    for number, value_range in enumerate(RANGES[operator]):
        digest = hashlib.sha256(f"{point} {operator} {position} {number}".encode()).hexdigest()
        values.append(value_range.value_at(int(digest[:12], 16) / 16**12))
    return tuple(dict.fromkeys(values))
