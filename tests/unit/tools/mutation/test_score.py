"""``tools.mutation.score`` counts killed mutants, with a confidence interval of their share."""

import random

import pytest

from tools.mutation.score import Tally


def tally_of(by_point: dict[str, list[int]]) -> Tally:
    killed = sum(numbers[0] for numbers in by_point.values())
    altered = sum(numbers[1] for numbers in by_point.values())
    return Tally(killed=killed, survived=altered - killed, by_point=by_point)


def test_the_interval_contains_the_share_of_most_drawn_samples() -> None:
    """Each mutation point has its own share of killed mutants, so the mutants of one point are not
    independent of each other.
    """
    source = random.Random(0)
    population = [min(1.0, source.gauss(0.9, 0.1)) for _ in range(2000)]
    share = sum(population) / len(population)
    inside = 0
    for _ in range(200):
        points = {
            f"p{i}": [sum(source.random() < rate for _ in range(10)), 10]
            for i, rate in enumerate(source.sample(population, 100))
        }
        low, high = tally_of(points).interval()
        inside += low <= share <= high
    assert 0.9 <= inside / 200 <= 0.99


def test_the_interval_is_wider_if_the_survivors_are_at_few_points() -> None:
    together = tally_of({"p0": [0, 10], **{f"p{i}": [10, 10] for i in range(1, 10)}})
    apart = tally_of({f"p{i}": [9, 10] for i in range(10)})
    widths = [high - low for low, high in (together.interval(), apart.interval())]
    assert widths[0] > 0.25 and widths[1] < 0.01


@pytest.mark.parametrize(("killed", "expected"), [(10, (0.97, 1.0)), (0, (0.0, 0.03))])
def test_the_interval_without_a_survivor_depends_on_the_number_of_points(
    killed: int, expected: tuple[float, float]
) -> None:
    assert tally_of({f"p{i}": [killed, 10] for i in range(100)}).interval() == pytest.approx(expected)
    assert Tally().interval() == (0.0, 1.0)
