"""The site includes and links folders of other pages, such as the documentation."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance import cli
from conformance.errors import UsageError
from conformance.site import registry
from conformance.site.build import build_site
from conformance.site.store.store import Store

TODAY = "2026-01-10"


def write_extra_pages(folder: Path, *names: str) -> Path:
    """Write a page into one subfolder for each name, and return the folder."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name / "levels").mkdir(parents=True)
        (folder / name / "index.html").write_text("first page")
        (folder / name / "levels" / "index.html").write_text("levels")
    return folder


def build_site_with_pages(tmp_path: Path, extra_pages: Path | None) -> Path:
    (tmp_path / "results").mkdir(exist_ok=True)
    out = tmp_path / "site"
    arguments = ["site", str(tmp_path / "results"), "-o", str(out), "--today", TODAY]
    assert cli.main([*arguments, *([f"--pages={extra_pages}"] if extra_pages else [])]) == 0
    return out


def test_the_site_contains_and_links_extra_pages(tmp_path: Path) -> None:
    names = ("documentation", "coverage")
    out = build_site_with_pages(tmp_path, write_extra_pages(tmp_path / "pages", *names))
    for name in names:
        assert (out / name / "levels" / "index.html").read_text() == "levels"
        assert f'<a href="{name}/index.html">{name.capitalize()}</a>' in (out / "index.html").read_text()
        assert f'<a href="../{name}/index.html">' in (out / "backends" / "cpu.html").read_text()


@pytest.mark.parametrize("extra_pages", [None, "missing"])
def test_rebuilding_without_extra_pages_removes_pages_and_links(
    extra_pages: str | None, tmp_path: Path
) -> None:
    build_site_with_pages(tmp_path, write_extra_pages(tmp_path / "pages", "documentation"))
    out = build_site_with_pages(tmp_path, tmp_path / extra_pages if extra_pages else None)
    assert not (out / "documentation").exists()
    assert "documentation/index.html" not in (out / "index.html").read_text()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "documentation").rename(folder / "Doc s"), "'Doc s' in"),
        (
            lambda folder: (folder / "documentation").rename(folder / "badges"),
            "not backends or badges or data or feeds",
        ),
        (lambda folder: (folder / "documentation" / "index.html").unlink(), "build these pages first"),
        (lambda folder: (folder / "file").touch(), "build these pages first"),
        (lambda folder: (shutil.rmtree(folder), folder.touch()), "is not a folder"),
    ],
)
def test_invalid_extra_pages_are_rejected_and_the_site_is_unchanged(
    spoil: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    out = build_site_with_pages(tmp_path, None)
    before = (out / "index.html").read_text()
    folder = write_extra_pages(tmp_path / "pages", "documentation")
    spoil(folder)
    with pytest.raises(UsageError, match=message):
        build_site(Store(), out, registry.load(), datetime.date(2026, 1, 10), folder)
    assert (out / "index.html").read_text() == before
