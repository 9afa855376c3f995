"""Tests of the report page's script. Node runs the script, and the tests are skipped if Node is missing."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conformance.report import html
from conformance.results import document
from tests.support.sample_legs import leg

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the page's script")


def texts_of_views(folder: Path, *views: str) -> list[str]:
    """Write the report page of three legs. Return the text of each view, without HTML tags."""
    legs = [
        leg("eager", "pass", "fail"),
        leg("lazy", "fail", "fail", "pass", build="2.13.0+git1"),
        leg(
            "graph",
            exit=2,
            planned=0,
            complete=False,
            results=[],
            cases={},
            totals={},
            problems=["no <b>graphs</b>"],
        ),
    ]
    legs[1]["results"][1]["failures"] = [{"kind": "value", "message": "<i>1 of 3</i> differ\nmore"}]
    for each in legs:
        each["facts"] = {
            "python": "3.11", "platform": "Linux", "torch": {"revision": None}, "backend": {"module": None}
        }  # fmt: skip
    page = folder / "report.html"
    html.write_page(page, document.results_document(legs))
    texts = []
    for view in views:
        command = ["node", str(Path(__file__).parent / "page_in_node.js"), str(page), view]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "undefined" not in done.stdout
        assert "<i>" not in done.stdout and "<b>graphs" not in done.stdout
        texts.append(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", done.stdout)))
    return texts


def test_the_overview_has_a_column_per_mode_and_lists_unexpected_results_by_subject(tmp_path: Path) -> None:
    (text,) = texts_of_views(tmp_path, "overview")
    assert "Unexpected, by cause results of look first at command 2 fail s, 2 subjects p/s1@d " in text
    assert " 1 fail s1 p/s1@d value: &lt;i&gt;1 of 3&lt;/i&gt; differ copy " in text
    assert "Unexpected, by subject s1 2 fail " in text, "the subject with the most failures comes first"
    assert " result eager 2.13.0+cpu lazy 2.13.0+git1 graph 2.13.0+cpu p/s1@d fail fail " in text
    assert " s0 1 fail " in text and " p/s0@d pass fail " in text
    assert (
        " value: &lt;i&gt;1 of 3&lt;/i&gt; differ conformance repro p/s1@d --target cpu --mode lazy " in text
    )
    assert " property eager 2.13.0+cpu lazy 2.13.0+git1 graph 2.13.0+cpu requirement p 1 of 2 2 of 3 " in text
    assert " graph 2.13.0+cpu not run 0 0 " in text
    assert "2.13.0+cpu-graph: no &lt;b&gt;graphs&lt;/b&gt;" in text


def test_views_of_a_result_and_of_a_leg(tmp_path: Path) -> None:
    detail, state = texts_of_views(tmp_path, "result:1,p/s1@d", "leg:1")
    assert detail.startswith(" p / s1 close dtype verdict ")
    assert "--mode lazy copy" in detail
    assert state.startswith(" unexpected results · torch 2.13.0+git1 · 3 results ran · ")
