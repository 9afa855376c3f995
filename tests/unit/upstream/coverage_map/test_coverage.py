"""The map of upstream's test methods: it names only what exists, says enough, and its pages are current."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.upstream import coverage_map
from conformance.upstream.coverage_map import CoverageError, Method
from tests.support import ROOT
from tools.upstream_coverage import check, pages

FOUND = {stem: coverage_map.methods(stem) for stem in coverage_map.file_stems()}
ALL = [method for listed in FOUND.values() for method in listed]


def test_every_name_is_a_property_with_such_a_subject() -> None:
    assert check.unknown_properties(ALL) == []


def test_names_that_do_not_exist_are_found() -> None:
    wrong = [
        Method("f", "C", "m", True, covered_by=("no-such-property",)),
        Method("f", "C", "m", True, covered_by=("value/no_such_operator",)),
        Method("f", "C", "m", True, covered_by=("write-through-select/creation",)),
    ]
    assert len(check.unknown_properties(wrong)) == 3


def test_enough_is_covered() -> None:
    """80 % of what runs over the wheel's databases, 60 % of the rest."""
    wheel, rest = pages.split(ALL)
    assert wheel.share >= 0.8, wheel
    assert rest.share >= 0.6, rest


def test_every_pinned_file_has_a_map() -> None:
    maps = {path.stem for path in (coverage_map.FOLDER / "maps").glob("*.toml")}
    assert maps == set(FOUND)


def test_the_pages_are_current() -> None:
    made = pages.pages(FOUND)
    folder = ROOT / "docs" / "upstream-coverage"
    kept = {path.name: path.read_text() for path in folder.glob("*.md")}
    stale = sorted(name for name in made.keys() | kept.keys() if made.get(name) != kept.get(name))
    assert not stale, f"run 'python -m tools.upstream_coverage -o docs/upstream-coverage': {stale}"


def mapped(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> list[Method]:
    """The methods of a small map."""
    for name in ("test_names", "maps"):
        (folder / name).mkdir()
    (folder / "test_names" / "f.json").write_text(
        '{"file": "f.py", "commit": null, "classes": {"C": ["m", "n"]}}'
    )
    (folder / "maps" / "f.toml").write_text(text)
    monkeypatch.setattr(coverage_map, "FOLDER", folder)
    return coverage_map.methods("f")


def test_what_a_map_does_not_say_is_uncovered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = mapped(tmp_path, 'wheel = ["C.m"]\n[C]\nm = ["value"]\n', monkeypatch)
    assert (one.wheel, one.covered_by, other.covered_by, other.reason) == (True, ("value",), (), None)
    assert check.figures([one, other]) == check.Figures(2, 1, 0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[C]\nm = "because"\n', "because"),
        ('[C]\nx = ["value"]\n', "C.x"),
        ('[D]\nm = ["value"]\n', "D.m"),
        ('wheel = ["E"]\n', "E in wheel"),
    ],
)
def test_mistakes_in_a_map(text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CoverageError, match=words):
        mapped(tmp_path, text, monkeypatch)
