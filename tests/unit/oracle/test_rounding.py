"""Rounding to decimals: both neighbours of a halfway value are right, and no other value is."""

from __future__ import annotations

import torch

from conformance.oracle.relations import rounding
from conformance.samples.operators import Sample

VALUES = torch.tensor([6.5175, 1.2344, -2.0005], dtype=torch.float32)
DUE = torch.round(VALUES.double(), decimals=3)


def claims(actual: list[float]) -> bool | None:
    """Return whether all relations hold to a relative error of 1e-6, or None if no relation applies."""
    sample = Sample(0, VALUES, kwargs={"decimals": 3})
    equations = rounding.decimals(torch.tensor(actual), DUE, sample)
    if equations is None:
        return None
    return all(
        torch.allclose(equation.actual.double(), equation.expected, rtol=1e-6) for equation in equations
    )


def test_both_neighbours_of_a_value_halfway_are_right() -> None:
    assert claims([6.518, 1.234, -2.0]) is True
    assert claims([6.517, 1.234, -2.001]) is True


def test_another_value_is_wrong() -> None:
    assert claims([6.518, 1.235, -2.0]) is False
    assert claims([6.519, 1.234, -2.0]) is False
    assert claims([6.5175, 1.234, -2.0]) is False
    assert claims([6.519, 1.234, -2.5]) is None  # then every element is compared as usual


def test_integers_have_no_decimals() -> None:
    sample = Sample(0, torch.tensor([3]), kwargs={"decimals": -1})
    assert rounding.decimals(torch.tensor([0]), torch.tensor([0]), sample) is None


def test_exactly_halfway_the_even_one_is_due() -> None:
    source = torch.tensor([0.0625, 2.5])
    for decimals, actual in ((3, [0.063, 2.5]), (0, [0.0, 3.0])):
        sample = Sample(0, source, kwargs={"decimals": decimals})
        expected = torch.round(source.double(), decimals=decimals)
        assert (
            rounding.decimals(torch.tensor(actual), expected, sample) is None
        )  # every element is compared as usual
