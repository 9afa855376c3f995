"""Lines over time."""

from __future__ import annotations

import datetime

from conformance.site import suite_health
from conformance.site.sparkline import Trend


def day(number: int) -> datetime.datetime:
    return datetime.datetime(2026, 1, number)


def test_a_line_begins_at_the_left_and_is_lowest_at_the_bottom() -> None:
    found = Trend.of([(day(1), 0.5), (day(2), 1.0), (day(5), 0.75)])
    assert found is not None
    assert (found.first.day, found.last.day, found.low, found.high) == (1, 5, 0.5, 1.0)
    assert found.points == "0.0,57.0 75.0,3.0 300.0,30.0"


def test_a_level_holds_until_the_next_one() -> None:
    found = Trend.of([(day(1), 0), (day(2), 2), (day(3), 2), (day(5), 1)], steps=True)
    assert found is not None
    assert found.points == "0.0,57.0 75.0,57.0 75.0,3.0 150.0,3.0 300.0,3.0 300.0,30.0"


def test_one_value_is_no_trend_and_equal_ones_are_a_level_line() -> None:
    assert Trend.of([(day(1), 0.5)]) is None
    found = Trend.of([(day(1), 0.5), (day(1), 0.5)])
    assert found is not None and found.points == "0.0,57.0 0.0,57.0"


def test_the_detection_power_of_each_level_has_a_trend() -> None:
    found = {one.level: one.trend for one in suite_health.detection_trends()}
    assert list(found) == ["bringup", "core", "training", "full"]
    assert 0.9 < found["full"].low <= found["full"].high <= 1.0
