"""The digest of an oracle value: last bits do not change it, anything that a backend could have done does."""

from __future__ import annotations

import pytest
import torch

from conformance.oracle.operators import _coarse


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_last_bits_do_not_count_and_changes_do(dtype: torch.dtype) -> None:
    value = torch.linspace(-3, 2, 7, dtype=dtype)
    same = value * (1 + torch.finfo(dtype).eps)
    assert torch.equal(_coarse(value), _coarse(same))
    for changed in (value * torch.linspace(1, 1.1, 7, dtype=dtype), value.flip(0), value.clone().fill_(1.0)):
        assert not torch.equal(_coarse(value), _coarse(changed))
    for special in (float("nan"), float("inf"), -float("inf")):
        other = value.clone()
        other[3] = special
        assert not torch.equal(_coarse(value), _coarse(other))


def test_integers_count_exactly() -> None:
    value = torch.arange(5)
    assert torch.equal(_coarse(value), value)
