"""``site.sparkline`` draws trend lines of values over time."""

from __future__ import annotations

import datetime

import pytest

from conformance.model.vocabulary import LEVELS
from conformance.plan.levels.mutation_score import EarlierScores, LevelScore, MutationScores
from conformance.site import suite_health
from conformance.site.sparkline import Trend


def day_of_january(number: int) -> datetime.datetime:
    return datetime.datetime(2026, 1, number)


def test_the_points_of_a_trend_line() -> None:
    trend = Trend.from_values([(day_of_january(1), 0.5), (day_of_january(2), 1.0), (day_of_january(5), 0.75)])
    assert trend is not None
    assert (trend.first.day, trend.last.day, trend.low, trend.high) == (1, 5, 0.5, 1.0)
    assert trend.points == "0.0,57.0 75.0,3.0 300.0,30.0"


def test_a_step_line_keeps_each_value_until_the_next() -> None:
    trend = Trend.from_values(
        [(day_of_january(1), 0), (day_of_january(2), 2), (day_of_january(3), 2), (day_of_january(5), 1)],
        steps=True,
    )
    assert trend is not None
    assert trend.points == "0.0,57.0 75.0,57.0 75.0,3.0 150.0,3.0 300.0,3.0 300.0,30.0"


def test_one_value_has_no_trend_and_equal_values_are_a_horizontal_line() -> None:
    assert Trend.from_values([(day_of_january(1), 0.5)]) is None
    trend = Trend.from_values([(day_of_january(1), 0.5), (day_of_january(1), 0.5)])
    assert trend is not None and trend.points == "0.0,57.0 0.0,57.0"


def test_the_mutation_score_of_each_level_has_a_trend(monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = EarlierScores("2026-01-01", dict.fromkeys(LEVELS, LevelScore(90, 100, 45, 50)))
    levels = dict.fromkeys(LEVELS, LevelScore(95, 100, 48, 50))
    scores = MutationScores("mine", "eager", "2.13", "2026-01-02", levels, (earlier,))
    monkeypatch.setattr(MutationScores, "read", staticmethod(lambda: scores))
    trends = {level_trend.level: level_trend.trend for level_trend in suite_health.mutation_score_trends()}
    assert list(trends) == ["bringup", "core", "training", "full"]
    assert (trends["full"].low, trends["full"].high) == (0.9, 0.95)
