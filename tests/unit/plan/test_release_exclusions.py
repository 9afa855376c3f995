"""``plan.release_exclusions`` excludes listed results for older torch releases, and no other results."""

from __future__ import annotations

import pytest

from conformance.builds import installed_torch
from conformance.plan import plan, release_exclusions
from conformance.plan.levels import manifest
from conformance.target import file as target_file


@pytest.fixture(scope="module")
def all_result_ids() -> list[str]:
    """Return all result ids of the manifest, which has the results of all releases."""
    return [
        f"{statement.name}/{subject}@{dtype}"
        for statement in manifest.load().statements
        for group in statement.groups
        for subject in group.subjects
        for dtype in group.dtypes
    ]


def test_each_pattern_matches_a_result(all_result_ids):
    for entry in release_exclusions.load():
        for pattern in entry.ids:
            expression = release_exclusions.compile_pattern(pattern)
            assert any(expression.fullmatch(name) for name in all_result_ids), pattern


def test_nothing_is_excluded_for_newer_releases(all_result_ids):
    for version in ("2.14.1", "2.15.0+cu132"):
        for name in all_result_ids[::97]:
            case, _, dtype = name.rpartition("@")
            assert release_exclusions.dtypes_without_exclusions(case, (dtype,), version) == (dtype,)


@pytest.mark.parametrize("version", ["2.6.0", "2.6.0+cu124", "2.6.0+git2236df1"])
def test_results_are_excluded_for_an_older_release(version):
    passed_dtypes = release_exclusions.dtypes_without_exclusions
    assert passed_dtypes("masks/indexing", ("float32", "int64"), version) == ()
    assert passed_dtypes("diagonals/shape", ("float16", "bfloat16", "float32"), version) == ("float32",)
    assert passed_dtypes("value/add", ("float32",), version) == ("float32",)
    assert passed_dtypes("masks/indexing", ("float32",), "2.9.0") == ("float32",)


def test_the_plan_omits_excluded_results(monkeypatch):
    target = target_file.load("cpu").target("eager")
    here = set(plan.build_plan(target, "core").result_ids())
    monkeypatch.setattr(installed_torch, "version", lambda: "2.6.0")
    there = set(plan.build_plan(target, "core").result_ids())
    assert there < here
    assert {"masks/indexing@float32", "diagonals/shape@float16"} <= here - there
    assert len(here - there) < 60


@pytest.mark.parametrize(
    "text",
    [
        "",
        "schema = 2",
        'schema = 1\n[[absent]]\nids = ["x"]\ntorch = "<2.7"',
        'schema = 1\n[[absent]]\nids = ["x"]\ntorch = "old"\nwhy = "x"',
        'schema = 1\n[[missing]]\nids = ["x"]',
    ],
)
def test_an_invalid_exclusion_file_is_rejected(text, tmp_path):
    file = tmp_path / "releases.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"releases\.toml|not a range"):
        release_exclusions.load(file)
