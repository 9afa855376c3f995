"""Helper functions of module properties copy arguments and create strided inputs."""

from __future__ import annotations

import pytest
import torch

from conformance.properties.modules._module_checks import with_changed_tensors
from conformance.properties.modules.non_contiguous import copy_with_memory_gaps


def test_an_argument_that_is_passed_twice_is_copied_once() -> None:
    tensor = torch.arange(3.0, requires_grad=True)
    args, kwargs = with_changed_tensors(((tensor, tensor), {"other": tensor}), torch.clone)
    assert args[0] is args[1] is kwargs["other"]
    assert args[0] is not tensor
    assert args[0].requires_grad


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4)])
def test_strided_copies_keep_values_and_have_gaps(shape: tuple[int, ...]) -> None:
    tensor = torch.randn(shape)
    copy = copy_with_memory_gaps(tensor)
    assert torch.equal(copy, tensor)
    assert copy.storage_offset() == 1
    if shape:
        assert not copy.is_contiguous()
