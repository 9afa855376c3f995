"""``upstream.import_test_names`` reads test names in the formats of several runners, and reports lines that
it cannot read.
"""

from __future__ import annotations

import pytest

from conformance.upstream import import_test_names
from conformance.upstream.matching_tests import Databases


def read_test_list(text, device="hpu"):
    return import_test_names.read_test_list(text, "list.txt", device, Databases.load())


@pytest.mark.parametrize(
    "line",
    [
        "TestCommonHPU.test_out_add_hpu_float32",
        "TestCommon.test_out_add_hpu_float32",
        "test_ops.py::TestCommonHPU::test_out_add_hpu_float32",
        "test/test_ops.py::TestCommonHPU::test_out_add_hpu_float32",
        "test_out_add_hpu_float32 (__main__.TestCommonHPU)",
        "TestCommonPRIVATEUSE1.test_out_add_privateuse1_float32",
        "  TestCommonHPU.test_out_add_hpu_float32  # https://example.org/1",
    ],
)
def test_forms_of_a_name(line):
    (listed_test,) = read_test_list(line).entries
    assert (listed_test.test.owner, listed_test.test.name) == ("TestCommon", "test_out")
    assert (listed_test.subject, listed_test.dtypes, listed_test.line) == ("add", ("float32",), 1)


@pytest.mark.parametrize(
    ("line", "method", "subject", "dtype"),
    [
        ("TestCommonHPU.test_out_integral_dtype_add_hpu_int32", "test_out_integral_dtype", "add", "int32"),
        (
            "TestCommonHPU.test_out_nn_functional_relu_hpu_bfloat16",
            "test_out",
            "nn.functional.relu",
            "bfloat16",
        ),
        ("TestCommonHPU.test_out_div_floor_rounding_hpu_int8", "test_out", "div.floor_rounding", "int8"),
        ("TestCommonHPU.test_errors_add_hpu", "test_errors", "add", None),
        ("TestModuleHPU.test_forward_nn_Linear_hpu_float32", "test_forward", "nn.Linear", "float32"),
        ("TestOptimRenewedHPU.test_complex_Adam_hpu_complex64", "test_complex", "Adam", "complex64"),
    ],
)
def test_the_parts_of_a_name(line, method, subject, dtype):
    (listed_test,) = read_test_list(line).entries
    assert (listed_test.test.name, listed_test.subject, listed_test.dtypes) == (
        method,
        subject,
        (dtype,) if dtype else (),
    )


def test_the_longer_of_two_matching_method_names_is_used():
    databases = Databases({"add": "OpInfo", "integral_dtype_add": "OpInfo"}, {}, frozenset())
    line = "TestCommonHPU.test_out_integral_dtype_add_hpu_int32"
    (listed_test,) = import_test_names.read_test_list(line, "list.txt", "hpu", databases).entries
    assert (listed_test.test.name, listed_test.subject) == ("test_out_integral_dtype", "add")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("hello", "is not the name of a test"),
        ("TestCommonHPU", "is not the name of a test"),
        ("x" * 10_000, "is not the name of a test"),
        ("TestCUDA.test_out_add_hpu_float32", "belongs to a test class"),
        ("TestCommonHPU.test_out_add_cuda_float32", "matches no method, entry and dtype"),
        ("TestCommonHPU.test_out_no_such_hpu_float32", "matches no method, entry and dtype"),
        ("TestCommonHPU.test_out_add_hpu_float31", "matches no method, entry and dtype"),
        ("TestCommonHPU.test_pointwise_tag_coverage", "matches no method, entry and dtype"),
    ],
)
def test_lines_that_cannot_be_read_are_reported(line, why):
    listing = read_test_list(f"# a comment\n\n{line}\n")
    assert listing.entries == ()
    (problem,) = listing.problems
    assert problem.startswith("list.txt:3: ") and why in problem and len(problem) < 300
