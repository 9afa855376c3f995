"""The report page loads no other files and executes no text of results."""

from __future__ import annotations

import json
from pathlib import Path

from conformance.report import html, page_data
from tests.support.sample_legs import results_with_three_verdicts


def test_the_report_page_is_self_contained_and_escapes_messages(tmp_path: Path) -> None:
    page = html.page_html(results_with_three_verdicts())
    assert page.count("</script>") == 2
    assert "<b>&" not in page
    assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page
    data = page.partition('type="application/json">')[2].partition("</script>")[0]
    assert not set("<>&") & set(data)
    assert json.loads(data)["legs"][0]["subjects"] == ["s0", "s1", "s2"]


def test_the_page_script_shows_documentation() -> None:
    script = (Path(page_data.__file__).parent / "page.js").read_text()
    assert script.count("target.simulated") == 2
