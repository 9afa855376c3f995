"""``tools.mutation.operators`` derives the possible mutants of an overload from its schema."""

import pytest

from tools.mutation import operators, points
from tools.mutation.mutant import Mutant


def faults_of_point(point: str) -> list[Mutant]:
    return operators.mutants_of(point, points.schema_of(point), random=points.is_random(point))


def positions_and_values(point: str, kind: str) -> list[tuple[int, int]]:
    return [(fault.position, fault.value) for fault in faults_of_point(point) if fault.operator == kind]


def test_every_fault_is_of_a_known_kind_and_comes_once() -> None:
    for point in ("aten::add.Tensor", "aten::add_.Tensor", "aten::add.out", "aten::as_strided"):
        point_faults = faults_of_point(point)
        assert {fault.operator for fault in point_faults} <= set(operators.MUTATION_OPERATORS)
        assert len(point_faults) == len(set(point_faults))


def test_a_function_has_faults_of_its_result_but_none_of_writing() -> None:
    kinds = {fault.operator for fault in faults_of_point("aten::add.Tensor")}
    assert {"last-element", "result-dtype", "result-strides", "leak", "aliasing-gained"} <= kinds
    assert not {"write-lost", "out-not-resized", "aliasing-lost", "generator-frozen", "long-sum"} & kinds


def test_what_is_written_in_place_has_no_dtype_or_strides_of_its_own() -> None:
    kinds = {fault.operator for fault in faults_of_point("aten::add_.Tensor")}
    assert {"write-lost", "write-partial", "write-astray", "aliasing-lost"} <= kinds
    assert not {"result-dtype", "result-strides", "out-not-resized"} & kinds


def test_only_an_out_argument_can_stay_as_small_as_it_was() -> None:
    assert positions_and_values("aten::add.out", "out-not-resized") == [(3, 0)]


def test_a_view_has_no_values_of_its_own() -> None:
    kinds = {fault.operator for fault in faults_of_point("aten::as_strided")}
    assert "aliasing-lost" in kinds
    assert not {"last-element", "strides-ignored", "input-corrupted"} & kinds


def test_each_tensor_that_is_read_can_be_read_wrong() -> None:
    assert positions_and_values("aten::addmm", "strides-ignored") == [(0, 0), (1, 0), (2, 0)]
    assert positions_and_values("aten::addmm", "swapped-arguments") == [(0, 1)]


def test_gradients_have_a_kind_of_their_own() -> None:
    assert positions_and_values("aten::convolution_backward", "grad-strided") == [(0, 0)]
    assert positions_and_values("aten::convolution_backward", "gradient-of-one-input") == [
        (0, 10),
        (1, 10),
        (2, 10),
    ]


def test_each_option_can_be_ignored() -> None:
    schema = points.schema_of("aten::convolution")
    names = [
        schema.arguments[position].name
        for position, _ in positions_and_values("aten::convolution", "option-ignored")
    ]
    assert names == ["bias", "stride", "padding", "dilation", "transposed", "output_padding", "groups"]


def test_each_number_can_be_that_of_another_call() -> None:
    schema = points.schema_of("aten::cumsum.out")
    names = [
        schema.arguments[position].name
        for position, _ in positions_and_values("aten::cumsum.out", "number-stale")
    ]
    assert names == ["dim"]  # the third argument, dtype, is not a number
    assert len(positions_and_values("aten::convolution", "number-stale")) == 6
    assert positions_and_values("aten::mm", "number-stale") == []


def test_values_can_be_late_where_a_call_makes_some() -> None:
    assert (
        positions_and_values("aten::add.Tensor", "late")
        == positions_and_values("aten::add_.Tensor", "late")
        == [(0, 0)]
    )
    assert positions_and_values("aten::as_strided", "late") == []


def test_random_kernels_have_faults_of_the_generator_and_none_of_exact_values() -> None:
    kinds = {fault.operator for fault in faults_of_point("aten::uniform_")}
    assert {"generator-frozen", "generator-overlap", "write-lost"} <= kinds
    assert not {"last-element", "flaky", "stale-result"} & kinds


def test_only_sums_can_end_early() -> None:
    assert positions_and_values("aten::mm", "long-sum") == [(0, operators.LONGEST_SUM)]
    assert positions_and_values("aten::add.Tensor", "long-sum") == []


def test_what_a_product_is_added_to_is_no_part_of_its_sum() -> None:
    for point in ("aten::addmm", "aten::addmv.out", "aten::baddbmm", "aten::addbmm_"):
        assert [position for position, _ in positions_and_values(point, "long-sum")] == [1]


@pytest.mark.parametrize("dtype", [None, "float32"])
def test_a_fault_is_read_as_it_was_written(dtype: str | None) -> None:
    fault = Mutant("aten::add.Tensor", "above-size", 1, 256, dtype)
    assert Mutant.parse(str(fault)) == fault
    assert fault.in_every_dtype() == Mutant("aten::add.Tensor", "above-size", 1, 256)
