"""``upstream.import_overrides`` reads decorators from a Python file without running the file."""

from __future__ import annotations

import pytest

from conformance.errors import UsageError
from conformance.upstream import export_overrides, exported_deviations, import_overrides
from conformance.upstream.matching_tests import Databases
from conformance.upstream.upstream_list import read_list_text
from tests.support.sample_deviating_leg import leg, row

GOOD = 'DecorateInfo(unittest.expectedFailure, "TestCommon", "test_out", dtypes=(torch.int8,))'


def read_overrides(text, device="cpu"):
    return import_overrides.read_overrides(text, "list.py", device)


@pytest.mark.parametrize("torch", ["2.13.0+cpu", "2.14.1"])
def test_an_exported_file_can_be_imported(torch):
    rows = [
        row("out/add@float32", "xfail", "value", "metadata"),
        row("out/add@int64", "fail", "value"),
        row("out/mul@float32", "crash", "crash"),
        row("error-type/add@any", "fail", "error-type"),
        row("forward/nn.Linear@float32", "xfail", "value"),
    ]
    exported = exported_deviations.export_leg({**leg(*rows), "torch": torch}, Databases.load())
    text = export_overrides.overrides_file(exported, "out")
    assert ("device_type=DEVICES)" in text, "_with_copies" in text) == (torch == "2.14.1", torch != "2.14.1")
    listing = read_overrides(text)
    assert listing.problems == ()
    entries = {(each.test.name, each.subject, tuple(sorted(each.dtypes))) for each in listing.entries}
    assert entries >= {
        ("test_out", "add", ("float32", "int64")),
        ("test_out", "mul", ("float32",)),
        ("test_errors", "add", ()),
        ("test_forward", "nn.Linear", ("float32",)),
    }
    assert listing.kinds["out/add@float32"] == ("value", "metadata")
    assert {each.reason for each in listing.entries if each.subject == "mul"} == {"crash: off by 1"}


@pytest.mark.parametrize(
    "call",
    [
        GOOD,
        GOOD.replace("DecorateInfo", "core.DecorateInfo"),
        GOOD.replace("unittest.expectedFailure", "[unittest.expectedFailure]"),
        GOOD.replace("unittest.expectedFailure", 'unittest.skip("why")'),
        GOOD.replace('"TestCommon", "test_out"', 'test_name="test_out", cls_name=CLASS'),
        GOOD.replace("(torch.int8,)", "[torch.int8]"),
        GOOD.replace("dtypes=", "device_type=DEVICE, dtypes="),
        GOOD.replace("dtypes=", 'device_type="privateuse1", dtypes='),
        GOOD.replace("dtypes=", 'device_type=["cuda", DEVICE], dtypes='),
        GOOD.replace("dtypes=", "device_type=DEVICES, dtypes="),
        GOOD.replace("dtypes=", "device_type=None, dtypes="),
    ],
)
def test_forms_of_a_decorator(call):
    (listed_test,) = read_overrides(
        f'CLASS = "TestCommon"; DEVICE = "cpu"\nDEVICES = [DEVICE, "xpu"]\nx = {{"add": [{call}]}}'
    ).entries
    assert (listed_test.test.name, listed_test.subject, listed_test.dtypes, listed_test.line) == (
        "test_out",
        "add",
        ("int8",),
        3,
    )


def test_a_decorator_without_dtypes_applies_to_all_dtypes():
    (listed_test,) = read_overrides(f'x = {{"add": [{GOOD.replace(", dtypes=(torch.int8,)", "")}]}}').entries
    assert listed_test.dtypes == ()


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (GOOD.replace('"TestCommon", ', ""), "has no class or no test name"),
        (GOOD.replace('"test_out"', "name()"), "has no class or no test name"),
        (GOOD.replace("dtypes=", 'device_type="cuda", dtypes='), "is for device 'cuda', not 'cpu'"),
        (
            GOOD.replace("dtypes=", 'device_type=("cuda", "xpu"), dtypes='),
            "for device 'cuda, xpu', not 'cpu'",
        ),
        (GOOD.replace("dtypes=", "device_type=GPU_TYPES, dtypes="), "not a text or a list of texts"),
        (GOOD.replace("dtypes=", "device_type=[], dtypes="), "for device '', not 'cpu'"),
        (GOOD.replace("dtypes=", "active_if=IS_WINDOWS, dtypes="), "has a condition"),
        (GOOD.replace("TestCommon", "TestOther"), "covers the upstream test TestOther.test_out"),
        (GOOD.replace("(torch.int8,)", "floating_types()"), "set of torch dtypes"),
        (GOOD.replace("(torch.int8,)", "(torch.int8 or x(),)"), "set of torch dtypes"),
        (GOOD.replace("unittest.expectedFailure", "toleranceOverride({})"), "neither an expected failure"),
        (GOOD.replace("unittest.expectedFailure", "(a, b)"), "neither an expected failure"),
    ],
)
def test_decorators_that_cannot_be_imported_are_reported(call, why):
    listing = read_overrides(f'x = {{"add": [{GOOD}, {call}]}}')
    assert len(listing.entries) == 1
    (problem,) = listing.problems
    assert problem.startswith("list.py:1: add: ") and why in problem


@pytest.mark.parametrize("subject", ["*", "a/b@c", "a b", "", "x\\ny"])
def test_invalid_operator_names_are_reported(subject):
    (problem,) = read_overrides(f'x = {{"{subject}": [{GOOD}]}}').problems
    assert "not the name of a database entry" in problem and "\n" not in problem


def test_the_file_is_not_run(tmp_path):
    mark = tmp_path / "mark"
    text = f'open({str(mark)!r}, "w")\nRESULTS = open({str(mark)!r}, "w")\nx = {{"add": [{GOOD}]}}'
    assert len(read_overrides(text).entries) == 1
    assert not mark.exists()


@pytest.mark.parametrize(
    "text", ["def", "\x00", "(" * 10_000, "x = " + "-" * 100_000 + "1", "x = 1", "", 'x = {"add": [1, f()]}']
)
def test_files_without_decorators_are_usage_errors(text):
    with pytest.raises(UsageError, match=r"list list\.py"):
        read_overrides(text)


@pytest.mark.parametrize("value", ["1", "{1: 2}", '{"a": 1}', '{"a": ("b", 1, "c")}', "{**x}", "f()"])
def test_a_results_variable_of_a_different_form_is_ignored(value):
    assert read_overrides(f'RESULTS = {value}\nx = {{"add": [{GOOD}]}}').kinds == {}


def test_a_list_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="cannot be read"):
        read_list_text(tmp_path / "absent")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8 text"):
        read_list_text(tmp_path / "bytes")
    monkeypatch.setattr("conformance.upstream.upstream_list.MAX_BYTES", 1)
    with pytest.raises(UsageError, match="the maximum is 1"):
        read_list_text(tmp_path / "bytes")
