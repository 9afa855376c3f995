"""The mutation points that ``tools.mutation.points`` lists are the kernels of a device with dense tensors."""

import re

import torch

from conformance.subjects import overloads
from tools.mutation import points


def test_each_exclusion_matches_an_overload_and_none_that_operators_call() -> None:
    names = [
        name.partition("::")[2] for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")
    ]
    for pattern in points.EXCLUDED_OVERLOADS:
        assert any(re.match(pattern, name) for name in names), pattern
    called = {str(row.op._schema.name) for row in overloads.overload_table().values()}
    wrongly = {name: points.exclusion_reason(name) for name in called if points.exclusion_reason(name)}
    assert set(wrongly) <= {"aten::_to_sparse"}, wrongly


def test_kernels_of_a_dense_device_are_mutation_points() -> None:
    cpu_points = points.mutation_points("CPU")
    assert {"aten::add.out", "aten::mm", "aten::convolution_backward"} & set(cpu_points)
    assert "aten::fbgemm_pack_quantized_matrix" not in cpu_points
    assert points.exclusion_reason("aten::fbgemm_pack_quantized_matrix") == "CPU libraries"
    assert points.exclusion_reason("aten::add.out") is None
