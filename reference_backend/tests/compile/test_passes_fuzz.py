"""Random programs, full of tensors that share memory, give eager's bits and eager's aliasing when compiled.

A failure prints the seed and the smallest program that still fails, as a script.
"""

from __future__ import annotations

import pytest
from helpers.compile_programs import Author, check

from tests.support.nightly import NIGHTLY

CHUNK = 20
#: An interpreted program costs a tenth of a second; a fused one, a C++ compilation or two.
INTERPRETED = 2000 if NIGHTLY else 80
FUSED = range(100) if NIGHTLY else (36, 43)


@pytest.mark.parametrize("first", range(0, INTERPRETED, CHUNK))
def test_random_programs_are_interpreted_right(first: int) -> None:
    for seed in range(first, first + CHUNK):
        check(Author(seed).write(), "interpreted", f"seed {seed},")


@pytest.mark.parametrize("seed", FUSED)
def test_random_programs_are_fused_right(seed: int) -> None:
    check(Author(seed).write(), "fused", f"seed {seed},")
