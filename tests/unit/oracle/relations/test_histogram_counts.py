"""The relation of ``histc``: a low-precision dtype counts exactly only up to a limit.

For a larger count, every value between this limit and the exact count is correct.
"""

from __future__ import annotations

import pytest
import torch

from conformance.oracle.relations import histogram_counts
from conformance.samples.operators import Sample

# The first bin has 600 elements and the second 100; bfloat16 counts exactly up to 256.
VALUES = torch.tensor([0.25] * 600 + [0.75] * 100, dtype=torch.bfloat16)
SAMPLE = Sample(0, VALUES, args=(2,), kwargs={"min": 0, "max": 1})
EXPECTED = torch.tensor([256.0, 100.0], dtype=torch.bfloat16)


@pytest.mark.parametrize(
    ("found", "right"),
    [
        ([256, 100], True),
        ([512, 100], True),
        ([600, 100], True),
        ([600, 99], False),
        ([255, 100], None),
        ([1200, 100], None),
    ],
)
def test_a_count_beyond_the_exact_integers_of_the_dtype(found: list[int], right: bool | None) -> None:
    """``right`` is None if no relation applies. The bins are then compared with the reference."""
    equations = histogram_counts.histc(torch.tensor(found, dtype=torch.bfloat16), EXPECTED, SAMPLE)
    all_equal = (
        None
        if equations is None
        else all(torch.equal(equation.actual, equation.expected) for equation in equations)
    )
    assert all_equal is right


def test_few_elements_are_counted_exactly() -> None:
    few = Sample(0, VALUES[:100], args=(2,), kwargs={"min": 0, "max": 1})
    limits = torch.tensor([100.0, 0.0], dtype=torch.bfloat16)
    assert histogram_counts.histc(limits - 1, limits, few) is None
