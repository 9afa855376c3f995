"""``matrix.plan`` plans a cell for each build and mode. It marks cells that the target declares to refuse."""

from __future__ import annotations

import json

import pytest

from conformance import cli
from conformance.errors import UsageError
from conformance.matrix import plan
from conformance.target import file as target_file

BUILDS = ["2.6.0:public", "2.6.0:fork-like:core", "newest"]


def planned_cells(builds=BUILDS, modes=("eager", "lazy"), level="smoke"):
    file = target_file.load("hpu-reference")
    return plan.plan_cells(file, [plan.RequestedBuild.parse(text) for text in builds], list(modes), level)


def test_every_build_in_every_mode():
    planned = planned_cells()
    assert [cell.id for cell in planned] == [
        "2.6.0-public-eager",
        "2.6.0-public-lazy",
        "2.6.0-fork-like-eager",
        "2.6.0-fork-like-lazy",
        "newest-public-eager",
        "newest-public-lazy",
    ]
    assert [cell.level for cell in planned] == ["smoke", "smoke", "core", "core", "smoke", "smoke"]


def test_modes_for_other_builds_are_expected_to_be_refused():
    expected = {cell.id: cell.expect for cell in planned_cells()}
    assert [name for name, expectation in expected.items() if expectation == "refusal"] == [
        "2.6.0-public-lazy",
        "newest-public-lazy",
    ]
    assert all(
        "mode lazy is for fork-like builds" in cell.why
        for cell in planned_cells()
        if cell.expect == "refusal"
    )


@pytest.mark.parametrize(
    "text", ["2.6.0:vendor", "2.6.0:forklike", "2.6.0:public:tiny", "latest", "2.6.0 --pre:public", ""]
)
def test_invalid_build_requests_are_usage_errors(text):
    with pytest.raises(UsageError):
        plan.RequestedBuild.parse(text)


def test_an_invalid_kind_is_reported():
    with pytest.raises(UsageError, match=r"no valid kind after the colon; .* public, fork-like"):
        plan.RequestedBuild.parse("2.6.0:forklike")


def test_duplicate_builds_and_unknown_modes_are_usage_errors():
    with pytest.raises(UsageError, match=r"2\.6\.0-public is a duplicate"):
        planned_cells(["2.6.0", "2.6.0:public:core"])
    with pytest.raises(UsageError, match="mode"):
        planned_cells(modes=["eagr"])


def test_builds_from_wheels_and_urls_have_valid_folder_names(tmp_path):
    wheel = tmp_path / "torch-2.6.0a0+git1-cp311-cp311-linux_x86_64.whl"
    wheel.touch()
    address = f"https://vendor.example/w/torch-2.6.0-cp311-cp311-linux_x86_64.whl#sha256={'a' * 64}"
    for text in (f"{wheel}:public", f"{address}:public"):
        name = plan.RequestedBuild.parse(text).name
        assert "/" not in name and "#" not in name and len(name) <= 80 and name.startswith("torch-2.6.0")


def test_matrix_plan_writes_the_matrix_of_a_workflow(tmp_path, capsys):
    arguments = ["matrix", "plan", "--target", "hpu-reference", "--build", "2.13.0", "--mode", "eager,lazy"]
    assert cli.main(arguments) == 0
    data = json.loads(capsys.readouterr().out)
    assert [entry["mode"] for entry in data["include"]] == ["eager", "lazy"]
    assert all(isinstance(value, str) for entry in data["include"] for value in entry.values())
    file = tmp_path / "new" / "plan.json"
    assert cli.main([*arguments, "-o", str(file)]) == 0
    assert [cell.to_json() for cell in plan.read_plan(file)] == data["include"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"include": [{"id": "x"}]}',
        '{"include": []}',
        '{"include": [{"id": "../x", "build": "", "spec": "", "kind": "", "mode": "", "level": ""}]}',
        '{"include": [{"id": "x", "build": 1, "spec": "", "kind": "", "mode": "", "level": ""}]}',
    ],
)
def test_an_invalid_plan_file_is_a_usage_error(tmp_path, text):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(UsageError) as error:
        plan.read_plan(tmp_path / "plan.json")
    assert "__init__" not in str(error.value)
