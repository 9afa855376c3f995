"""``upstream.matching_tests`` finds the upstream tests that correspond to a property and a subject."""

from __future__ import annotations

import pytest

from conformance.upstream.matching_tests import (
    Databases,
    UpstreamMethod,
    covering_properties,
    methods_for_property,
)

KNOWN = Databases(
    {"add": "BinaryUfuncInfo", "sin": "UnaryUfuncInfo", "masked.sum": "ReductionOpInfo", "bmm": "OpInfo"},
    {"nn.Linear": False, "nn.Dropout": True},
    frozenset({"Adam"}),
)


def names_of_upstream_tests(matching_tests):
    return [f"{test.owner}.{test.name}" for test in matching_tests]


@pytest.mark.parametrize(
    ("name", "subject", "test"),
    [
        ("out", "add", "TestCommon.test_out"),
        ("value", "bmm", "TestCommon.test_compare_cpu"),
        ("gradient", "sin", "TestBwdGradients.test_fn_grad"),
        ("forward", "nn.Linear", "TestModule.test_forward"),
        ("implementations", "Adam", "TestOptimRenewed.test_foreach_matches_forloop"),
    ],
)
def test_a_property_has_the_tests_of_its_subject_kind(name, subject, test):
    assert test in names_of_upstream_tests(methods_for_property(name, subject, KNOWN))


def test_tests_of_one_class_of_operators_match_only_these_operators():
    assert names_of_upstream_tests(methods_for_property("value", "bmm", KNOWN)) == [
        "TestCommon.test_compare_cpu"
    ]
    assert "TestUnaryUfuncs.test_batch_vs_slicing" in names_of_upstream_tests(
        methods_for_property("value", "sin", KNOWN)
    )
    assert "TestUnaryUfuncs.test_batch_vs_slicing" not in names_of_upstream_tests(
        methods_for_property("value", "add", KNOWN)
    )
    assert "TestMasked.test_reference_masked" in names_of_upstream_tests(
        methods_for_property("value", "masked.sum", KNOWN)
    )


def test_a_property_name_of_two_kinds_has_the_tests_of_the_subjects_kind():
    """``error-inputs`` is a property of modules and also of optimizers. The subject's kind decides which
    tests match.
    """
    assert names_of_upstream_tests(methods_for_property("error-inputs", "nn.Linear", KNOWN)) == [
        "TestModule.test_errors"
    ]
    assert names_of_upstream_tests(methods_for_property("error-inputs", "Adam", KNOWN)) == [
        "TestOptimRenewed.test_errors"
    ]


def test_shared_tests_match_only_if_a_property_has_no_test_of_its_own():
    shared = {test: covering for test, covering in covering_properties().items() if len(covering) > 1}
    assert shared[UpstreamMethod("TestCommon", "test_errors", "operator")] == ("error-type", "error-message")
    assert "TestCommon.test_errors" in names_of_upstream_tests(
        methods_for_property("error-type", "add", KNOWN)
    )
    assert names_of_upstream_tests(methods_for_property("variants", "add", KNOWN)) == [
        "TestCommon.test_variant_consistency_eager"
    ]


@pytest.mark.parametrize(
    ("name", "subject"),
    [("out_device", "add"), ("write-through-select", "views"), ("value", "no_such"), ("", "")],
)
def test_properties_without_upstream_tests(name, subject):
    assert methods_for_property(name, subject, KNOWN) == []


def test_the_installed_torch():
    databases = Databases.load()
    assert databases.kind("add") == "operator" and databases.operators["sin"] == "UnaryUfuncInfo"
    assert databases.modules["nn.BatchNorm1d"] and not databases.modules["nn.Linear"]
    assert databases.kind("Adam") == "optimizer" and databases.kind("all_gather") is None
