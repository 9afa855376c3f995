"""The coverage map of upstream tests contains only existing names and enough covered tests, and its pages are
current.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.upstream import coverage_map
from conformance.upstream.coverage_map import CoverageError, UpstreamTestMethod
from tests.support import ROOT
from tools.upstream_coverage import check, pages

FOUND = {stem: coverage_map.methods_of_file(stem) for stem in coverage_map.file_stems()}
ALL = [method for listed in FOUND.values() for method in listed]


def test_every_name_in_the_map_exists() -> None:
    assert check.unknown_properties(ALL) == []


def test_names_that_do_not_exist_are_reported() -> None:
    wrong = [
        UpstreamTestMethod("f", "C", "m", True, covered_by=("no-such-property",)),
        UpstreamTestMethod("f", "C", "m", True, covered_by=("value/no_such_operator",)),
        UpstreamTestMethod("f", "C", "m", True, covered_by=("write-through-select/creation",)),
    ]
    assert len(check.unknown_properties(wrong)) == 3


def test_enough_upstream_tests_are_covered() -> None:
    """At least 80 % of the upstream tests that iterate over torch's operator databases are covered, and at
    least 60 % of the other tests.
    """
    wheel, rest = pages.count_wheel_and_rest(ALL)
    assert wheel.share >= 0.8, wheel
    assert rest.share >= 0.6, rest


def test_every_pinned_file_has_a_map() -> None:
    maps = {path.stem for path in (coverage_map.FOLDER / "maps").glob("*.toml")}
    assert maps == set(FOUND)


def test_the_pages_are_current() -> None:
    generated = pages.pages(FOUND)
    folder = ROOT / "docs" / "upstream-coverage"
    committed = {path.name: path.read_text() for path in folder.glob("*.md")}
    stale = sorted(
        name for name in generated.keys() | committed.keys() if generated.get(name) != committed.get(name)
    )
    assert not stale, f"run 'python -m tools.upstream_coverage -o docs/upstream-coverage': {stale}"


def methods_of_map(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> list[UpstreamTestMethod]:
    """Write a coverage map whose only map file contains ``text``, and return the map's upstream tests."""
    for name in ("test_names", "maps"):
        (folder / name).mkdir()
    (folder / "test_names" / "f.json").write_text(
        '{"file": "f.py", "commit": null, "classes": {"C": ["m", "n"]}}'
    )
    (folder / "maps" / "f.toml").write_text(text)
    monkeypatch.setattr(coverage_map, "FOLDER", folder)
    return coverage_map.methods_of_file("f")


def test_a_test_that_no_map_lists_is_uncovered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    covered, uncovered = methods_of_map(tmp_path, 'wheel = ["C.m"]\n[C]\nm = ["value"]\n', monkeypatch)
    assert (covered.wheel, covered.covered_by, uncovered.covered_by, uncovered.reason) == (
        True,
        ("value",),
        (),
        None,
    )
    assert check.count_methods([covered, uncovered]) == check.MethodCounts(2, 1, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[C]\nm = "because"\n', "because"),
        ('[C]\nx = ["value"]\n', "C.x"),
        ('[D]\nm = ["value"]\n', "D.m"),
        ('wheel = ["E"]\n', "the list 'wheel' names E, which is not a class or method"),
    ],
)
def test_mistakes_in_a_map(text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CoverageError, match=message):
        methods_of_map(tmp_path, text, monkeypatch)
