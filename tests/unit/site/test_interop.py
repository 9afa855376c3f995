"""The interoperability page compares backends, and ignores conforming variants of a backend."""

from __future__ import annotations

from pathlib import Path

from conformance import cli
from conformance.results import document
from tests.support.sample_site_runs import TODAY, site_leg


def interop_page(folder: Path, *backends: str) -> str:
    """Return the text of the page for backends that have one passing run each."""
    for backend in backends:
        run_folder = folder / "results" / backend / "r1"
        run_folder.mkdir(parents=True)
        document.write_results(run_folder / "results.json", document.results_document([site_leg()]))
    assert cli.main(["site", str(folder / "results"), "-o", str(folder / "out"), "--today", TODAY]) == 0
    return (folder / "out" / "interop.html").read_text()


def test_a_conforming_variant_is_not_a_second_backend(tmp_path: Path) -> None:
    text = interop_page(tmp_path, "cpu", "cpu-one-thread")
    assert "No result of two backends can be compared yet." in text
    data = (tmp_path / "out" / "data" / "index.js").read_text()
    assert data.count('"standIn":true') == 1 and data.count('"standIn":false') == 1
