"""``tools.mutation.operators`` derives the possible mutants of an overload from its schema."""

import pytest

from tools.mutation import operators, points
from tools.mutation.mutant import Mutant


def mutants_of_point(point: str) -> list[Mutant]:
    return operators.mutants_of_overload(point, points.schema_of(point), random=points.is_random(point))


def positions_and_values(point: str, kind: str) -> list[tuple[int, int]]:
    return [(fault.position, fault.value) for fault in mutants_of_point(point) if fault.operator == kind]


def test_every_mutant_has_a_known_operator_and_occurs_once() -> None:
    for point in ("aten::add.Tensor", "aten::add_.Tensor", "aten::add.out", "aten::as_strided"):
        point_faults = mutants_of_point(point)
        assert {fault.operator for fault in point_faults} <= set(operators.MUTATION_OPERATORS)
        assert len(point_faults) == len(set(point_faults))


def test_a_functional_overload_has_mutants_of_its_result_and_not_of_writes() -> None:
    kinds = {fault.operator for fault in mutants_of_point("aten::add.Tensor")}
    assert {"last-element", "result-dtype", "result-strides", "leak", "aliasing-gained"} <= kinds
    assert not {"write-lost", "out-not-resized", "aliasing-lost", "generator-frozen", "long-sum"} & kinds


def test_an_in_place_overload_has_no_mutants_of_dtype_and_strides() -> None:
    kinds = {fault.operator for fault in mutants_of_point("aten::add_.Tensor")}
    assert {"write-lost", "write-partial", "write-astray", "aliasing-lost"} <= kinds
    assert not {"result-dtype", "result-strides", "out-not-resized"} & kinds


def test_only_an_out_argument_has_the_mutant_out_not_resized() -> None:
    assert positions_and_values("aten::add.out", "out-not-resized") == [(3, 0)]


def test_a_view_has_no_mutants_of_values() -> None:
    kinds = {fault.operator for fault in mutants_of_point("aten::as_strided")}
    assert "aliasing-lost" in kinds
    assert not {"last-element", "strides-ignored", "input-corrupted"} & kinds


def test_each_read_tensor_has_layout_mutants() -> None:
    assert positions_and_values("aten::addmm", "strides-ignored") == [(0, 0), (1, 0), (2, 0)]
    assert positions_and_values("aten::addmm", "swapped-arguments") == [(0, 1)]


def test_gradients_have_an_operator_of_their_own() -> None:
    assert positions_and_values("aten::convolution_backward", "grad-strided") == [(0, 0)]
    assert positions_and_values("aten::convolution_backward", "gradient-of-one-input") == [
        (0, 10),
        (1, 10),
        (2, 10),
    ]


def test_each_option_has_the_mutant_option_ignored() -> None:
    schema = points.schema_of("aten::convolution")
    names = [
        schema.arguments[position].name
        for position, _ in positions_and_values("aten::convolution", "option-ignored")
    ]
    assert names == ["bias", "stride", "padding", "dilation", "transposed", "output_padding", "groups"]


def test_each_number_has_the_mutant_number_stale() -> None:
    schema = points.schema_of("aten::cumsum.out")
    names = [
        schema.arguments[position].name
        for position, _ in positions_and_values("aten::cumsum.out", "number-stale")
    ]
    assert names == ["dim"]  # the third argument, dtype, is not a number
    assert len(positions_and_values("aten::convolution", "number-stale")) == 6
    assert positions_and_values("aten::mm", "number-stale") == []


def test_calls_that_compute_values_have_the_mutant_late() -> None:
    assert (
        positions_and_values("aten::add.Tensor", "late")
        == positions_and_values("aten::add_.Tensor", "late")
        == [(0, 0)]
    )
    assert positions_and_values("aten::as_strided", "late") == []


def test_random_kernels_have_mutants_of_the_generator_and_not_of_values() -> None:
    kinds = {fault.operator for fault in mutants_of_point("aten::uniform_")}
    assert {"generator-frozen", "generator-overlap", "write-lost"} <= kinds
    assert not {"last-element", "flaky", "stale-result"} & kinds


def test_only_sums_have_the_mutant_long_sum() -> None:
    assert [position for position, _ in positions_and_values("aten::mm", "long-sum")] == [0]
    assert positions_and_values("aten::add.Tensor", "long-sum") == []


def test_long_sum_counts_the_products_and_not_the_added_tensor() -> None:
    for point in ("aten::addmm", "aten::addmv.out", "aten::baddbmm", "aten::addbmm_"):
        assert [position for position, _ in positions_and_values(point, "long-sum")] == [1]


@pytest.mark.parametrize("dtype", [None, "float32"])
def test_a_mutant_is_written_and_parsed_back(dtype: str | None) -> None:
    fault = Mutant("aten::add.Tensor", "above-size", 1, 256, dtype)
    assert Mutant.parse(str(fault)) == fault
    assert fault.in_every_dtype() == Mutant("aten::add.Tensor", "above-size", 1, 256)
