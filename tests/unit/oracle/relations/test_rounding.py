"""``torch.round`` with ``decimals``: for a value that lies almost halfway between two decimals, both decimals
are correct and no other value is.
"""

from __future__ import annotations

import torch

from conformance.oracle.relations import rounding
from conformance.samples.operators import Sample

VALUES = torch.tensor([6.5175, 1.2344, -2.0005], dtype=torch.float32)
EXPECTED = torch.round(VALUES.double(), decimals=3)


def relations_hold(actual: list[float]) -> bool | None:
    """Return whether all relations hold with a relative error of at most 1e-6, or None if no relation
    applies.
    """
    sample = Sample(0, VALUES, kwargs={"decimals": 3})
    equations = rounding.rounded_decimals_equations(torch.tensor(actual), EXPECTED, sample)
    if equations is None:
        return None
    return all(
        torch.allclose(equation.actual.double(), equation.expected, rtol=1e-6) for equation in equations
    )


def test_both_decimals_next_to_a_halfway_value_are_correct() -> None:
    assert relations_hold([6.518, 1.234, -2.0]) is True
    assert relations_hold([6.517, 1.234, -2.001]) is True


def test_any_other_decimal_is_wrong() -> None:
    assert relations_hold([6.518, 1.235, -2.0]) is False
    assert relations_hold([6.519, 1.234, -2.0]) is False
    assert relations_hold([6.5175, 1.234, -2.0]) is False
    assert relations_hold([6.519, 1.234, -2.5]) is None  # no relation applies


def test_no_relation_applies_to_integers() -> None:
    sample = Sample(0, torch.tensor([3]), kwargs={"decimals": -1})
    assert rounding.rounded_decimals_equations(torch.tensor([0]), torch.tensor([0]), sample) is None


def test_no_relation_applies_to_an_exactly_halfway_value() -> None:
    source = torch.tensor([0.0625, 2.5])
    for decimals, actual in ((3, [0.063, 2.5]), (0, [0.0, 3.0])):
        sample = Sample(0, source, kwargs={"decimals": decimals})
        expected = torch.round(source.double(), decimals=decimals)
        assert (
            rounding.rounded_decimals_equations(torch.tensor(actual), expected, sample) is None
        )  # no relation applies, so every element is compared with the reference
