"""``upstream.export_test_names`` writes test names as upstream's runners print them, and the list can be
imported again.
"""

from __future__ import annotations

import pytest

from conformance.upstream import export_test_names, exported_deviations, import_test_names
from conformance.upstream.matching_tests import Databases
from tests.support.sample_deviating_leg import leg, row

ROWS = [
    row("out/nn.functional.relu@float32", "xfail", "value"),
    row("out/add@int64", "crash", "crash"),
    row("error-type/add@any", "fail", "error-type"),
    row("forward/nn.BatchNorm1d@float32", "xfail", "value"),
    row("out_device/add@float32", "fail", "state"),
]


def exported_text(device):
    databases = Databases.load()
    return export_test_names.test_list(
        exported_deviations.export_leg(leg(*ROWS, device=device), databases), databases, "out"
    )


def exported_names_of(of):
    return [line.partition("  # ")[0] for line in of.splitlines() if line and not line.startswith("#")]


def test_names_of_a_built_in_device():
    test_names = exported_names_of(exported_text("hpu"))
    assert "TestCommonHPU.test_out_nn_functional_relu_hpu_float32" in test_names
    assert "TestCommonHPU.test_errors_add_hpu" in test_names
    assert "TestModuleHPU.test_forward_nn_BatchNorm1d_train_mode_hpu_float32" in test_names
    assert "TestModuleHPU.test_forward_nn_BatchNorm1d_eval_mode_hpu_float32" in test_names
    assert "# out_device/add@float32: no upstream test method" in exported_text("hpu")


def test_names_of_an_out_of_tree_device():
    assert "TestCommonPRIVATEUSE1.test_out_add_mydev_int64" in exported_names_of(exported_text("mydev"))


def test_each_name_is_followed_by_its_decision():
    lines = exported_text("hpu").splitlines()
    assert "TestCommonHPU.test_out_add_hpu_int64  # skip: crash: off by 1" in lines
    assert "TestCommonHPU.test_errors_add_hpu  # expectedFailure: error-type: off by 1" in lines


@pytest.mark.parametrize("device", ["hpu", "mydev"])
def test_the_exported_list_can_be_imported(device):
    listing = import_test_names.read_test_list(exported_text(device), "list.txt", device, Databases.load())
    assert listing.problems == ()
    assert {(each.test.name, each.subject, each.dtypes) for each in listing.entries} >= {
        ("test_out", "nn.functional.relu", ("float32",)),
        ("test_out", "add", ("int64",)),
        ("test_errors", "add", ()),
        ("test_forward", "nn.BatchNorm1d", ("float32",)),
    }
    assert {each.reason for each in listing.entries} == {
        "value: off by 1",
        "crash: off by 1",
        "error-type: off by 1",
    }
