"""Compute the points of a line chart over time."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence

#: The width and the height of the drawing, and its vertical margin.
WIDTH, HEIGHT, _EDGE = 300, 60, 3


@dataclasses.dataclass(frozen=True)
class Trend:
    """Values over time. ``points`` is the SVG polyline in a drawing of ``WIDTH`` by ``HEIGHT``."""

    first: datetime.date
    last: datetime.date
    low: float
    high: float
    points: str

    @staticmethod
    def from_values(values: Sequence[tuple[datetime.datetime, float]], steps: bool = False) -> Trend | None:
        """Return the trend of values that are ordered by time, or None for fewer than two values.

        If ``steps`` is true, the line is horizontal from each value to the time of the next.
        """
        if len(values) < 2:
            return None
        low, high = (choose(value for _, value in values) for choose in (min, max))
        begin, end = values[0][0], values[-1][0]
        span = (end - begin).total_seconds() or 1.0
        points: list[str] = []
        height: str | None = None
        for when, value in values:
            x = f"{WIDTH * (when - begin).total_seconds() / span:.1f}"
            y = f"{HEIGHT - _EDGE - (HEIGHT - 2 * _EDGE) * (value - low) / (high - low or 1.0):.1f}"
            if steps and height not in (None, y):
                points.append(f"{x},{height}")
            points.append(f"{x},{y}")
            height = y
        return Trend(begin.date(), end.date(), low, high, " ".join(points))
