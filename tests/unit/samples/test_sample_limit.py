"""``samples.sample_limit``: the option ``--samples`` limits the number of samples that a check uses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from conformance.samples import sample_limit
from conformance.samples.operators import Sample, SampleSet


@pytest.fixture()
def set_sample_limit(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    monkeypatch.setattr(sample_limit, "sample_limit", sample_limit.DEFAULT)
    monkeypatch.setattr(sample_limit, "exact", False)
    return sample_limit.set_limit


@pytest.mark.parametrize(("limit_text", "count"), [("1", 1), ("3", 3), ("10", 10), ("all", 100)])
def test_the_number_of_samples_follows_the_option(
    set_sample_limit: Callable[[str], None], limit_text: str, count: int
) -> None:
    set_sample_limit(limit_text)
    samples = [Sample(index, torch.ones(index % 2)) for index in range(100)]
    assert len(SampleSet("artificial", samples).chosen(sample_limit.limit())) == count
