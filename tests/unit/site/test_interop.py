"""Interop: which backends are compared."""

from __future__ import annotations

from pathlib import Path

from conformance import cli
from conformance.results import document
from tests.support.sample_site_runs import TODAY, made


def page(folder: Path, *backends: str) -> str:
    """The page for backends whose only run passed."""
    for backend in backends:
        place = folder / "results" / backend / "r1"
        place.mkdir(parents=True)
        document.write(place / "results.json", document.document([made()]))
    assert cli.main(["site", str(folder / "results"), "-o", str(folder / "out"), "--today", TODAY]) == 0
    return (folder / "out" / "interop.html").read_text()


def test_a_stand_in_is_no_second_backend(tmp_path: Path) -> None:
    text = page(tmp_path, "cpu", "cpu-one-thread")
    assert "No result of two backends can be compared yet." in text
    data = (tmp_path / "out" / "data" / "index.js").read_text()
    assert data.count('"standIn":true') == 1 and data.count('"standIn":false') == 1
