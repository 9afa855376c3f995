"""The basis of a deviation follows from the operator, the sample and the CPU's error."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from conformance.model.verdicts import Basis
from conformance.properties.shared import basis
from conformance.samples.operators import Sample

SCALAR = torch.tensor(2.0)


@pytest.mark.parametrize(
    ("name", "value", "options", "expected"),
    [
        ("tanh", 0.5, {}, Basis.DOCUMENTED),
        ("tanh", math.nan, {}, Basis.PARITY),
        ("tanh", 1e30, {}, Basis.PARITY),
        ("tanh", 1e-30, {}, Basis.PARITY),
        ("add", math.inf, {}, Basis.DOCUMENTED),
        ("add_", math.inf, {}, Basis.DOCUMENTED),
        ("fmax", math.nan, {}, Basis.DOCUMENTED),
        ("round.decimals_3", math.nan, {}, Basis.DOCUMENTED),
        ("special.xlog1py", math.nan, {}, Basis.DOCUMENTED),
        ("div", math.inf, {"rounding_mode": "floor"}, Basis.PARITY),
        ("linalg.norm", math.nan, {}, Basis.PARITY),
    ],
)
def test_extremal_values_are_documented_for_few_operators(
    name: str, value: float, options: dict[str, Any], expected: Basis
) -> None:
    sample = Sample(0, torch.full((3,), value), (), options)
    assert basis.basis_of_values(name, sample, torch.ones(3)) is expected


def test_an_extremal_result_of_ordinary_numbers_is_parity() -> None:
    assert basis.basis_of_values("exp", Sample(0, torch.ones(1)), torch.full((1,), math.inf)) is Basis.PARITY
    complex_result = torch.full((1,), complex(math.nan, 0))
    assert basis.basis_of_values("exp", Sample(0, torch.ones(1)), complex_result) is Basis.PARITY


@pytest.mark.parametrize(
    ("name", "sample", "expected"),
    [
        ("sum", Sample(0, SCALAR, (0,)), True),
        ("max.dim", Sample(0, SCALAR, (-1,)), True),
        ("linalg.vector_norm", Sample(0, SCALAR, (2, [0])), True),
        ("amax", Sample(0, SCALAR, (), {"dim": 0}), True),
        ("unfold", Sample(0, SCALAR, (0, 1, 1)), True),
        ("sum", Sample(0, SCALAR), False),
        ("sum", Sample(0, SCALAR, (), {"dim": None}), False),
        ("sum", Sample(0, torch.ones(2), (0,)), False),
        ("pow", Sample(0, SCALAR, (0,)), False),
        ("add", Sample(0, SCALAR, (SCALAR,)), False),
    ],
)
def test_a_dimension_of_a_tensor_without_dimensions(name: str, sample: Sample, expected: bool) -> None:
    assert basis.passes_dim_for_zero_dim_tensor(name, sample) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, True) for name in ("true_divide", "div.floor_rounding", "add", "maximum", "copysign")),
        *(
            (name, False) for name in ("pow", "xlogy", "remainder", "bitwise_left_shift")
        ),  # an overload accepts a number first
        *((name, False) for name in ("arange", "linspace", "full")),  # the first argument is not a tensor
        ("floor_divide", False),  # the page says "Tensor or Number"
    ],
)
def test_a_number_in_the_place_of_the_first_tensor(name: str, expected: bool) -> None:
    assert basis.passes_number_for_first_tensor(name, Sample(0, 2.5, (SCALAR,))) == expected
    assert not basis.passes_number_for_first_tensor(name, Sample(0, SCALAR, (2.5,)))


@pytest.mark.parametrize(
    ("name", "tensors", "expected"),
    [
        ("nn.functional.conv2d", [torch.ones(1, 1, 2, 2, dtype=torch.int64)], True),
        ("convolution", [torch.ones(1, 1, 2, dtype=torch.int8)], True),
        ("nn.functional.conv_transpose1d", [torch.ones(1, 1, 2)], False),
        ("nn.functional.conv2d", [torch.ones(1, 1, 2, 2, dtype=torch.complex64)], False),
        ("gru.data", [torch.ones(2, 3, dtype=torch.complex64)], True),
        ("lstm_cell", [torch.ones(2, 3)], False),
        ("nn.functional.scaled_dot_product_attention", [torch.ones(2, 3, 4)] * 3, True),
        ("nn.functional.scaled_dot_product_attention", [torch.ones(1, 2, 3, 4)] * 3, False),
        ("add", [torch.ones(2, dtype=torch.int64)], False),
        ("gather", [torch.ones(5), torch.zeros(2, dtype=torch.int64)], False),
        ("gather", [torch.ones(5, dtype=torch.int64), torch.zeros(2, dtype=torch.int32)], False),
        ("gather", [torch.ones(5), torch.zeros(2, 1, dtype=torch.int64)], True),  # an index of another rank
        ("gather", [torch.ones(5), torch.zeros(2, dtype=torch.uint8)], True),  # an index of another dtype
        ("gather", [torch.ones(5), torch.zeros(2, 0, dtype=torch.uint8)], False),  # allowed by the page
        ("gather", [SCALAR, torch.zeros(1, dtype=torch.int64)], True),
        ("scatter_add", [torch.ones(5), torch.zeros(2, dtype=torch.int64), torch.ones(2)], False),
        ("scatter.value", [torch.ones(2, 2), torch.zeros(2, dtype=torch.int64)], True),
        (
            "take_along_dim",
            [torch.ones(2, 2), torch.zeros(3, dtype=torch.int64)],
            False,
        ),  # without dim, the call flattens its inputs
        ("take", [torch.ones(5), torch.zeros(2, 2, dtype=torch.int64)], False),
    ],
)
def test_calls_that_no_page_describes(name: str, tensors: list[torch.Tensor], expected: bool) -> None:
    assert basis.is_undocumented_call(name, Sample(0, tensors[0], tuple(tensors[1:]))) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: torch.ones(2) + torch.ones(3), Basis.DOCUMENTED),
        (lambda: torch.ones(2, dtype=torch.int64).add_(0.5), Basis.DOCUMENTED),
        (lambda: torch.ones(2).add_(torch.ones(3, 2)), Basis.DOCUMENTED),
        (lambda: torch.ones(2).sum(3), Basis.PARITY),
    ],
)
def test_few_errors_are_documented(call: Any, expected: Basis) -> None:
    with pytest.raises((RuntimeError, IndexError)) as error:
        call()
    assert basis.basis_of_error(str(error.value)) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("transpose", Basis.DOCUMENTED),
        ("linalg.diagonal", Basis.DOCUMENTED),
        ("split.list_args", Basis.DOCUMENTED),
        ("reshape", Basis.PARITY),
        ("contiguous", Basis.PARITY),
    ],
)
def test_the_aliasing_of_listed_views_is_documented(name: str, expected: Basis) -> None:
    assert basis.basis_of_aliasing(name) is expected


@pytest.mark.parametrize(
    ("name", "reduces", "expected"),
    [
        ("sum", True, Basis.DOCUMENTED),
        ("var", True, Basis.PARITY),
        ("tanh", False, Basis.DOCUMENTED),
    ],
)
def test_reductions_of_no_elements(name: str, reduces: bool, expected: Basis) -> None:
    assert basis.basis_of_empty_input(name, reduces=reduces) is expected
