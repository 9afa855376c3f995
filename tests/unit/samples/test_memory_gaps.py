"""``samples.memory_gaps`` fills the memory gaps of samples with one value and leaves the
elements unchanged.
"""

from __future__ import annotations

import pytest
import torch

from conformance.samples import memory_gaps, operators


def storage_elements(tensor: torch.Tensor) -> torch.Tensor:
    size = tensor.untyped_storage().nbytes() // tensor.itemsize
    return torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage(), 0, (size,), (1,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex64, torch.uint8])
def test_memory_gaps_are_filled(dtype: torch.dtype) -> None:
    base = torch.full((4, 6), 9, dtype=dtype)
    sample = base[1:3, ::2].t()
    memory_gaps.fill_gaps([sample])
    assert bool((sample == 9).all())
    assert int((storage_elements(sample) == memory_gaps.GAP_VALUE).sum()) == 18


def test_elements_of_other_tensors_in_the_same_memory_are_unchanged() -> None:
    base = torch.arange(8.0)
    memory_gaps.fill_gaps([base[:2], base[4:6], base[1:2].expand(3)])
    assert base.tolist() == [0, 1, 85, 85, 4, 5, 85, 85]


def test_memory_without_gaps_is_unchanged() -> None:
    base = torch.arange(8.0)
    memory_gaps.fill_gaps([base[2:4], base, torch.ones(()), torch.ones(0)])
    assert base.tolist() == list(range(8))


def test_memory_of_two_dtypes_is_unchanged() -> None:
    base = torch.arange(8.0)
    memory_gaps.fill_gaps([base[:2], base.view(torch.int32)[4:5]])
    assert base.tolist() == list(range(8))


def test_a_leaf_that_requires_grad_is_filled_outside_of_autograd() -> None:
    leaf = torch.empty_strided((2, 2), (4, 1)).fill_(3.0).requires_grad_()
    memory_gaps.fill_gaps([leaf])
    assert leaf.grad_fn is None
    assert storage_elements(leaf.detach()).tolist() == [3, 3, 85, 85, 3, 3]


def test_a_sample_that_shares_memory_with_another_is_unchanged() -> None:
    base = torch.arange(8.0)
    samples = operators.SampleSet("neg", [operators.Sample(0, base[:4]), operators.Sample(1, base[4:6])])
    assert samples[0].input.tolist() == [0, 1, 2, 3]
    assert samples[1].input.tolist() == [4, 5]
    assert base.tolist() == [0, 1, 2, 3, 4, 5, 85, 85]
