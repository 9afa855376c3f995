"""The number of samples."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from conformance.samples import extent
from conformance.samples.operators import Sample, SampleSet


@pytest.fixture()
def limit(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    monkeypatch.setattr(extent, "sample_limit", extent.DEFAULT)
    monkeypatch.setattr(extent, "exact", False)
    return extent.choose


@pytest.mark.parametrize(("word", "count"), [("1", 1), ("3", 3), ("10", 10), ("all", 100)])
def test_samples_are_as_many_as_the_user_says(limit: Callable[[str], None], word: str, count: int) -> None:
    limit(word)
    samples = [Sample(index, torch.ones(index % 2)) for index in range(100)]
    assert len(SampleSet("sham", samples).chosen(extent.limit())) == count
