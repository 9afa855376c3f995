"""The schema of an overload decides which faults it can have."""

import pytest

from tools.mutation import operators, points
from tools.mutation.mutant import Fault


def faults(place: str) -> list[Fault]:
    return operators.faults_of(place, points.schema(place), random=points.is_random(place))


def of(place: str, kind: str) -> list[tuple[int, int]]:
    return [(fault.position, fault.value) for fault in faults(place) if fault.kind == kind]


def test_every_fault_is_of_a_known_kind_and_comes_once() -> None:
    for place in ("aten::add.Tensor", "aten::add_.Tensor", "aten::add.out", "aten::as_strided"):
        found = faults(place)
        assert {fault.kind for fault in found} <= set(operators.KINDS)
        assert len(found) == len(set(found))


def test_a_function_has_faults_of_its_result_but_none_of_writing() -> None:
    found = {fault.kind for fault in faults("aten::add.Tensor")}
    assert {"last-element", "result-dtype", "result-strides", "leak", "aliasing-gained"} <= found
    assert not {"write-lost", "out-not-resized", "aliasing-lost", "generator-frozen", "long-sum"} & found


def test_what_is_written_in_place_has_no_dtype_or_strides_of_its_own() -> None:
    found = {fault.kind for fault in faults("aten::add_.Tensor")}
    assert {"write-lost", "write-partial", "write-astray", "aliasing-lost"} <= found
    assert not {"result-dtype", "result-strides", "out-not-resized"} & found


def test_only_an_out_argument_can_stay_as_small_as_it_was() -> None:
    assert of("aten::add.out", "out-not-resized") == [(3, 0)]


def test_a_view_has_no_values_of_its_own() -> None:
    found = {fault.kind for fault in faults("aten::as_strided")}
    assert "aliasing-lost" in found
    assert not {"last-element", "strides-ignored", "input-corrupted"} & found


def test_each_tensor_that_is_read_can_be_read_wrong() -> None:
    assert of("aten::addmm", "strides-ignored") == [(0, 0), (1, 0), (2, 0)]
    assert of("aten::addmm", "swapped-arguments") == [(0, 1)]


def test_gradients_have_a_kind_of_their_own() -> None:
    assert of("aten::convolution_backward", "grad-strided") == [(0, 0)]
    assert of("aten::convolution_backward", "gradient-of-one-input") == [(0, 10), (1, 10), (2, 10)]


def test_each_option_can_be_ignored() -> None:
    schema = points.schema("aten::convolution")
    names = [schema.arguments[position].name for position, _ in of("aten::convolution", "option-ignored")]
    assert names == ["bias", "stride", "padding", "dilation", "transposed", "output_padding", "groups"]


def test_each_number_can_be_that_of_another_call() -> None:
    schema = points.schema("aten::cumsum.out")
    names = [schema.arguments[position].name for position, _ in of("aten::cumsum.out", "number-stale")]
    assert names == ["dim"]  # dtype, the third argument, is none
    assert len(of("aten::convolution", "number-stale")) == 6
    assert of("aten::mm", "number-stale") == []


def test_values_can_be_late_where_a_call_makes_some() -> None:
    assert of("aten::add.Tensor", "late") == of("aten::add_.Tensor", "late") == [(0, 0)]
    assert of("aten::as_strided", "late") == []


def test_random_kernels_have_faults_of_the_generator_and_none_of_exact_values() -> None:
    found = {fault.kind for fault in faults("aten::uniform_")}
    assert {"generator-frozen", "generator-overlap", "write-lost"} <= found
    assert not {"last-element", "flaky", "stale-result"} & found


def test_only_sums_can_end_early() -> None:
    assert of("aten::mm", "long-sum") == [(0, operators.LONGEST_SUM)]
    assert of("aten::add.Tensor", "long-sum") == []


def test_what_a_product_is_added_to_is_no_part_of_its_sum() -> None:
    for place in ("aten::addmm", "aten::addmv.out", "aten::baddbmm", "aten::addbmm_"):
        assert [position for position, _ in of(place, "long-sum")] == [1]


@pytest.mark.parametrize("dtype", [None, "float32"])
def test_a_fault_is_read_as_it_was_written(dtype: str | None) -> None:
    fault = Fault("aten::add.Tensor", "above-size", 1, 256, dtype)
    assert Fault.parse(str(fault)) == fault
    assert fault.anywhere() == Fault("aten::add.Tensor", "above-size", 1, 256)
