"""``expectations.minimal_patterns`` returns few patterns that match exactly the failing results."""

from __future__ import annotations

import random

import pytest

from conformance.expectations.minimal_patterns import minimal_patterns
from conformance.model.id_patterns import matches

IDS = [f"{name}/{subject}@{dtype}" for name in ("value", "out") for dtype in ("float32", "int64")
       for subject in ("add", "fft.fft", "fft.ifft", "sum")]  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "patterns"),
    [
        (["value/add@float32"], ["value/add@float32"]),
        (["value/add@float32", "value/add@int64"], ["value/add@*"]),
        ([name for name in IDS if "/fft." in name], ["*/fft.*@*"]),
        ([name for name in IDS if name.startswith("value/fft.")], ["value/fft.*@*"]),
        ([name for name in IDS if name.endswith("int64")], ["*/*@int64"]),
        (["value/add@float32", "out/add@float32", "value/sum@int64"], ["*/add@float32", "value/sum@int64"]),
        (["value/sum@int64", "value/sum@float32", "out/sum@float32"], ["*/sum@float32", "value/sum@int64"]),
    ],
)  # fmt: skip
def test_minimal_patterns_of_failing_results(wanted: list[str], patterns: list[str]) -> None:
    assert minimal_patterns(wanted, IDS) == patterns


def test_patterns_match_exactly_any_random_selection() -> None:
    source = random.Random(0)
    for _ in range(200):
        wanted = source.sample(IDS, source.randrange(1, len(IDS)))
        patterns = minimal_patterns(wanted, IDS)
        assert {name for name in IDS if any(matches(pattern, name) for pattern in patterns)} == set(wanted)
        assert len(patterns) <= len(wanted)
