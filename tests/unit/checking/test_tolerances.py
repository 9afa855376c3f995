"""Rules of tolerance by operator."""

from __future__ import annotations

import pytest
import torch

from conformance.checking.tolerances import rule


@pytest.mark.parametrize(
    ("operator", "name"), [("__rmatmul__", "matrix"), ("matmul", "matrix"), ("__radd__", "elementwise")]
)
def test_reflected_operators_have_the_tolerance_of_what_they_compute(operator: str, name: str) -> None:
    assert rule(operator, torch.float32).name == name
