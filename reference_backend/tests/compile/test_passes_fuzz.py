"""Compare values and aliasing of compiled random programs with eager mode.

A failure prints the seed and a script of the smallest program that still fails.
"""

from __future__ import annotations

import pytest
from helpers.compile_programs import RandomProgramGenerator, assert_no_difference

from tests.support.nightly import NIGHTLY

CHUNK = 20
#: Number of seeds that run as interpreted recipes, and the seeds that run as fused recipes. An interpreted
#: program takes a tenth of a second. A fused program takes one or two C++ compilations.
INTERPRETED = 2000 if NIGHTLY else 80
FUSED = range(100) if NIGHTLY else (36, 43)


@pytest.mark.parametrize("first", range(0, INTERPRETED, CHUNK))
def test_random_programs_as_interpreted_recipes(first: int) -> None:
    for seed in range(first, first + CHUNK):
        assert_no_difference(RandomProgramGenerator(seed).generate(), "interpreted", f"seed {seed},")


@pytest.mark.parametrize("seed", FUSED)
def test_random_programs_as_fused_recipes(seed: int) -> None:
    assert_no_difference(RandomProgramGenerator(seed).generate(), "fused", f"seed {seed},")
