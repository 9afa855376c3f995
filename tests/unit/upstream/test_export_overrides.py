"""``upstream.export_overrides`` exports decorators that upstream's test framework applies to its tests."""

from __future__ import annotations

import ast
import runpy
import unittest

import pytest
import torch

from conformance.torch_testing_internals import module_db, op_db, optim_db
from conformance.upstream import export_overrides, exported_deviations
from conformance.upstream.matching_tests import Databases
from tests.support.sample_deviating_leg import leg, row

HOSTILE = "'''\n\"\"\"\\\nimport os; os._exit(3)\n\ud800# {0}"


@pytest.fixture(autouse=True)
def operator_databases():
    """Restore the decorators in torch's operator databases after the test."""
    infos = [*op_db(), *module_db(), *optim_db()]
    original_decorators = [info.decorators for info in infos]
    yield
    for info, decorators in zip(infos, original_decorators, strict=True):
        info.decorators = decorators


def export_file(tmp_path, *rows, device="cpu"):
    deviations = exported_deviations.export_leg(leg(*rows, device=device), Databases.load())
    path = tmp_path / "overrides.py"
    path.write_text(export_overrides.overrides_file(deviations, "out"))
    return path


def decorators_of_test(infos, name, *of):
    (info,) = (info for info in infos if getattr(info, "full_name", info.name) == name)
    return info.get_decorators(*of, {})


def decorators_added_by(path, infos, name, *of):
    before = len(decorators_of_test(infos, name, *of))
    runpy.run_path(str(path))
    return decorators_of_test(infos, name, *of)[before:]


def test_upstream_finds_the_decorator_of_a_test(tmp_path):
    path = export_file(
        tmp_path, row("out/add@float32", "xfail", "value"), row("out/add@int64", "fail", "value")
    )
    of = ("TestCommon", "test_out", "cpu")
    assert decorators_added_by(path, op_db(), "add", *of, torch.float32) == [unittest.expectedFailure]
    assert unittest.expectedFailure in decorators_of_test(op_db(), "add", *of, torch.int64)
    for variant in (
        ("TestCommon", "test_out", "cpu", torch.float64),
        ("TestCommon", "test_out", "cuda", torch.float32),
        ("TestCommon", "test_dtypes", "cpu", torch.float32),
    ):
        assert unittest.expectedFailure not in decorators_of_test(op_db(), "add", *variant)


def test_decorators_of_modules_and_optimizers(tmp_path):
    path = export_file(
        tmp_path,
        row("forward/nn.Linear@float32", "xfail", "value"),
        row("param-groups/Adam@float32", "xfail", "value"),
    )
    linear = decorators_added_by(
        path, module_db(), "nn.Linear", "TestModule", "test_forward", "cpu", torch.float32
    )
    assert linear == [unittest.expectedFailure]
    of = ("TestOptimRenewed", "test_param_groups_lr", "cpu", torch.float32)
    assert unittest.expectedFailure in decorators_of_test(optim_db(), "Adam", *of)


def test_a_crashing_test_is_skipped_with_its_reason(tmp_path):
    path = export_file(tmp_path, row("out/add@float32", "crash", "crash", message="signal 11"))
    (skip,) = decorators_added_by(path, op_db(), "add", "TestCommon", "test_out", "cpu", torch.float32)
    with pytest.raises(unittest.SkipTest, match="crash: signal 11"):
        skip(lambda: None)()


def test_a_result_that_does_not_vary_with_the_dtype(tmp_path):
    path = export_file(tmp_path, row("error-type/add@any", "fail", "error-type"))
    decorators_found = decorators_added_by(path, op_db(), "add", "TestCommon", "test_errors", "cpu", None)
    assert decorators_found == [unittest.expectedFailure]


def test_a_second_import_adds_nothing(tmp_path):
    path = export_file(tmp_path, row("out/add@float32", "xfail", "value"))
    module = runpy.run_path(str(path))
    before = [info.decorators for info in op_db()]
    module["apply"]()
    assert [info.decorators for info in op_db()] == before


def test_an_out_of_tree_device_is_found_by_both_of_its_names(tmp_path, monkeypatch):
    path = export_file(tmp_path, row("out/add@float32", "xfail", "value"), device="mydev")
    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "mydev")
    runpy.run_path(str(path))
    for device in ("mydev", "privateuse1"):
        applied = decorators_of_test(op_db(), "add", "TestCommon", "test_out", device, torch.float32)
        assert applied.count(unittest.expectedFailure) == 1


def test_decorators_apply_to_a_generated_test_class(tmp_path):
    """The exported decorators apply to tests that upstream generates: a test with an expected failure passes,
    a crashing test is skipped, and an unexpected pass fails.
    """
    from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
    from torch.testing._internal.common_utils import TestCase

    runpy.run_path(
        str(
            export_file(
                tmp_path,
                row("out/add@float32", "xfail", "value"),
                row("out/sub@float32", "xfail", "value"),
                row("out/mul@float32", "crash", "crash"),
            )
        )
    )
    chosen = [info for info in op_db() if info.full_name in ("add", "mul", "sub")]
    ran = []

    class TestCommon(TestCase):
        @ops(chosen, allowed_dtypes=(torch.float32,))
        def test_out(self, device, dtype, op):
            ran.append(op.name)
            assert op.name != "add", "deviates"

    scope = {"TestCommon": TestCommon}
    instantiate_device_type_tests(TestCommon, scope, only_for="cpu")
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(scope["TestCommonCPU"]).run(result)
    assert [test.id().rpartition(".")[2] for test, _ in result.expectedFailures] == [
        "test_out_add_cpu_float32"
    ]
    assert [test.id().rpartition(".")[2] for test in result.unexpectedSuccesses] == [
        "test_out_sub_cpu_float32"
    ]
    assert [reason for _, reason in result.skipped] == ["crash: off by 1"] and sorted(ran) == ["add", "sub"]


def test_op_overrides_of_torch_accept_the_exported_table(tmp_path):
    from torch.testing._internal.common_device_type import CPUTestBase

    if not hasattr(CPUTestBase, "op_overrides"):
        pytest.skip("torch has no op_overrides before 2.13")
    from torch.testing._internal.common_device_type import ops

    class Base(CPUTestBase):
        op_overrides = runpy.run_path(str(export_file(tmp_path, row("out/bmm@float32", "xfail", "value"))))[
            "OP_OVERRIDES"
        ]

    chosen = ops([info for info in op_db() if info.full_name == "bmm"])
    Base._apply_op_overrides(chosen)
    applied = chosen.op_list[0].get_decorators("TestCommon", "test_out", "cpu", torch.float32, {})
    assert unittest.expectedFailure in applied


def test_text_of_a_backend_does_not_become_code(tmp_path):
    rows = [
        row("out/add@float32", "crash", "crash", message=HOSTILE),
        row(f"out/{HOSTILE}@float32", "fail", "value", message=HOSTILE),
        row(f"{HOSTILE}/add@float32", "fail", "value", message=HOSTILE),
    ]
    text = export_file(tmp_path, *rows).read_text()
    tree = ast.parse(text)
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert not any("os" in name.split(".") for name in calls)
    assert "# Not exported: 2 results." in text
    runpy.run_path(str(tmp_path / "overrides.py"))


def test_results_that_are_not_exported_are_listed(tmp_path):
    text = export_file(tmp_path, row("out_device/add@float32", "fail", "state")).read_text()
    assert "# Not exported: 1 results.\n# out_device/add@float32: no upstream test method" in text
    assert "Every deviation of the run is exported" in export_file(tmp_path).read_text()
