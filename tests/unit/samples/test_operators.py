"""``samples.operators`` selects samples evenly, with few large samples and all samples without elements."""

from __future__ import annotations

import torch

from conformance.samples.operators import LARGE_SAMPLE_ELEMENTS, Sample, SampleSet


def _sample_set(*sizes: int) -> SampleSet:
    return SampleSet("x", [Sample(index, torch.zeros(size)) for index, size in enumerate(sizes)])


def _chosen_indices(samples: SampleSet, limit: int | None) -> list[int]:
    return [sample.index for sample in samples.chosen(limit)]


def test_an_even_selection_contains_the_first_and_the_last_sample() -> None:
    assert _chosen_indices(_sample_set(*[3] * 9), 3) == [0, 4, 8]


def test_few_large_samples_are_selected() -> None:
    samples = _sample_set(3, *[LARGE_SAMPLE_ELEMENTS + 1] * 18, 4)
    assert _chosen_indices(samples, 32) == [0, 1, 7, 12, 18, 19]
    assert _chosen_indices(samples, 4) == [0, 1, 19]
    assert len(_chosen_indices(samples, None)) == 20


def test_samples_without_elements_are_selected_in_addition() -> None:
    assert _chosen_indices(_sample_set(*[3] * 5, 0, *[3] * 6), 4) == [0, 4, 5, 7, 11]
