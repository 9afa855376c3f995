"""``samples.enlarged`` enlarges samples that the CPU still accepts after the enlargement. It omits an
enlargement if the result grows faster than the input.
"""

from __future__ import annotations

import pytest
import torch

from conformance.samples.enlarged import Enlargement, enlargements
from conformance.samples.operators import Sample, samples_of
from conformance.subjects.torch_databases import find


def first_enlargement(operator: str, sample: Sample) -> Enlargement:
    return next(iter(enlargements(find("operator", operator), sample)))


def enlarged_sample(operator: str, sample: Sample, size: int) -> Sample:
    grown_sample = first_enlargement(operator, sample).enlarge_sample(size)
    assert grown_sample is not None
    return grown_sample


def ramp(*sizes: int) -> torch.Tensor:
    return torch.arange(torch.Size(sizes).numel(), dtype=torch.float32).reshape(sizes)


@pytest.mark.parametrize("size", [15, 257, 70_000])
def test_an_elementwise_operator_gets_exactly_the_size(size: int) -> None:
    sample = enlarged_sample("add", Sample(0, ramp(2, 3), (ramp(2, 3),)), size)
    assert sample.input.shape == sample.args[0].shape == (size,)
    assert torch.equal(sample.input, torch.arange(size) % 6)


def test_a_matrix_product_grows_in_the_rows_of_one_matrix() -> None:
    sample = enlarged_sample("mm", Sample(0, ramp(4, 2), (ramp(2, 3),)), 1000)
    assert sample.input.shape == (500, 2) and sample.args[0].shape == (2, 3)
    assert sample.call(torch.mm).numel() >= 1000


def test_a_batch_grows_in_all_tensors_together() -> None:
    sample = enlarged_sample("bmm", Sample(0, ramp(4, 2, 3), (ramp(4, 3, 5),)), 1000)
    assert sample.input.shape[0] == sample.args[0].shape[0] > 4


def test_an_enlarged_dimension_still_contains_the_indexed_elements() -> None:
    sample = Sample(0, ramp(10, 3), (0, torch.tensor([9, 8])))
    for way in enlargements(find("operator", "index_select"), sample):
        small = way.enlarge_sample(2)
        if small is not None and way.change.dimension is not None:
            assert small.input.shape == (10, 3)
            small.call(torch.index_select)


def test_no_enlargement_squares_the_result_of_an_outer_product() -> None:
    sample = Sample(0, ramp(8), (ramp(8),))
    for way in enlargements(find("operator", "outer"), sample):
        at = way.enlarge_sample(256)
        assert at is not None and at.call(torch.outer).numel() <= 8 * 256


def test_enlarging_does_not_change_the_original_sample() -> None:
    samples = samples_of(find("operator", "cumsum"), torch.float32)
    before = samples[0].input.clone()
    enlarged_sample("cumsum", samples[0], 300)
    assert torch.equal(samples[0].input, before) and samples.modified_sample_names() == []


def test_a_sample_without_dimensions_has_no_enlargement() -> None:
    assert list(enlargements(find("operator", "abs"), Sample(0, torch.tensor(1.0)))) == []
