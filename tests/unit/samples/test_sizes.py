"""Sizes are drawn from stated distributions. They depend only on a text and on the seed of the run."""

from __future__ import annotations

import collections

import pytest

from conformance.model import seeds
from conformance.samples.sizes import (
    ANY,
    DISTRIBUTIONS,
    GRID,
    GROUP,
    LARGEST,
    PRIME,
    SPLIT,
    VECTOR,
    draw_sizes,
)

_TEXTS = [f"operator{number}" for number in range(2000)]


def _drawn_sizes(distribution):
    return [size for text in _TEXTS for size in draw_sizes(text, (distribution,))]


@pytest.mark.parametrize(
    "distribution, least, greatest",
    [
        (VECTOR, 3, 257),
        (GROUP, 127, 3073),
        (SPLIT, 1023, 8193),
        (GRID, 65_535, 71_536),
        (PRIME, 5, 65_003),
        (ANY, 3, 70_000),
        (LARGEST, (1 << 20) + 1, 1_200_000),
    ],
)
def test_all_sizes_are_in_the_range_of_their_distribution(distribution, least, greatest):
    draws = _drawn_sizes(distribution)
    assert least <= min(draws) and max(draws) <= greatest


@pytest.mark.parametrize("distribution", [VECTOR, GROUP, SPLIT])
def test_borders_are_met_exactly_and_missed_by_one(distribution):
    remainders = collections.Counter((size + 1) % 4 for size in _drawn_sizes(distribution))
    assert all(remainders[remainder] > 500 for remainder in (0, 1, 2))


def test_primes_have_no_divisor():
    assert all(size % divisor for size in _drawn_sizes(PRIME)[:200] for divisor in range(2, min(size, 260)))


def test_sizes_of_one_text_are_distinct():
    for text in _TEXTS:
        sizes = draw_sizes(text, (SPLIT,) * 6)
        assert len(set(sizes)) == 6


def test_each_distribution_states_why():
    assert all(distribution.because.endswith(".") for distribution in (*DISTRIBUTIONS, LARGEST))
    assert len({distribution.name for distribution in (*DISTRIBUTIONS, LARGEST)}) == len(DISTRIBUTIONS) + 1


def test_draws_depend_on_text_and_seed_only(monkeypatch):
    of_release = draw_sizes("add.Tensor", DISTRIBUTIONS)
    assert draw_sizes("add.Tensor", DISTRIBUTIONS) == of_release
    assert draw_sizes("mul.Tensor", DISTRIBUTIONS) != of_release
    monkeypatch.setenv(seeds.VARIABLE, "7")
    assert draw_sizes("add.Tensor", DISTRIBUTIONS) != of_release
